"""Parquet files as whole columns; what they would take in memory is judged by their metadata first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.formats.parquet_table import check_volume, is_text, open_parquet, plain_values, pyarrow_for
from volta.data.formats.parquet_trial import try_parquet

_BATCH_ROWS = 1 << 12
_PROBLEM = "is not a Parquet file that can be read"


def read_parquet(source: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, Array]:
    """Return a file's columns by name; a column of lists of one length becomes a matrix."""
    arrow = pyarrow_for("reading")
    try_parquet(source, limits)
    with reading(source, _PROBLEM), open_parquet(source) as file:
        check_volume(source, file.metadata, limits)
        packed, total = source.stat().st_size, 0
        batches = []
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            # What is null, or a list, may take far less room in the file: only reading tells.
            total += sum(map(_held_bytes, batch.columns))
            limits.check_volume(source, total, packed)
            batches.append(batch)
        table = arrow.Table.from_batches(batches, file.schema_arrow)
        names = table.column_names
        if len(set(names)) < len(names):
            raise InputError(f"{source} has two columns of one name ({', '.join(names[:20])}); give each its own")
        return {name: column_array(table[name], source, f"{source} column {name}", limits) for name in names}


def column_array(column: Any, source: Path, where: str, limits: Limits = DEFAULT_LIMITS) -> Array:
    """Return the values of a column, (n,) or, of lists, (n, width); ``where`` says in errors which column it is."""
    from pyarrow import compute, types

    column = column.unify_dictionaries().combine_chunks()
    if types.is_dictionary(column.type) and not is_text(column.type.value_type):
        column = column.dictionary_decode()
    kind = column.type
    if column.null_count and not types.is_floating(kind):
        raise InputError(f"{where} has {column.null_count} empty rows; fill or drop them")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths = np.unique(compute.list_value_length(column).to_numpy(zero_copy_only=False))
        if len(lengths) > 1:
            raise InputError(f"{where} has lists of {lengths[0]} to {lengths[-1]} numbers; expected one length")
        flat = column.flatten()
        if flat.null_count and not types.is_floating(flat.type):
            raise InputError(f"{where} has {flat.null_count} empty numbers in its lists; fill them or drop the rows")
        values: Array = flat.to_numpy(zero_copy_only=False)
        return values.reshape(len(column), int(lengths[0]) if len(lengths) else 0)
    return plain_values(column, source, limits)


def _held_bytes(column: Any) -> int:
    """Return what a column of one batch takes; the texts of a dictionary are held once for many batches."""
    return int(column.indices.nbytes if hasattr(column, "indices") else column.nbytes)
