"""Parquet files as whole columns; what they would take in memory is judged by their metadata first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.formats.parquet_table import check_volume, pyarrow_for
from volta.data.formats.parquet_trial import try_parquet

_BATCH_ROWS = 1 << 12
_PROBLEM = "is not a Parquet file that can be read"


def read_parquet(source: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, Array]:
    """Return a file's columns by name; a column of lists of one length becomes a matrix."""
    arrow = pyarrow_for("reading")
    try_parquet(source, limits)
    from pyarrow import parquet

    with reading(source, _PROBLEM), parquet.ParquetFile(source) as file:
        check_volume(source, file.metadata, limits)
        packed, total = source.stat().st_size, 0
        batches = []
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            # A text may stand once in the file and in a million rows: only reading tells.
            total += batch.nbytes
            limits.check_volume(source, total, packed)
            batches.append(batch)
        table = arrow.Table.from_batches(batches, file.schema_arrow)
        names = table.column_names
        if len(set(names)) < len(names):
            raise InputError(f"{source} has two columns of one name ({', '.join(names[:20])}); give each its own")
        return {name: column_array(table[name], f"{source} column {name}") for name in names}


def column_array(column: Any, where: str) -> Array:
    """Return the values of a column, (n,) or, of lists, (n, width); ``where`` says in errors which column it is."""
    from pyarrow import compute, types

    column = column.combine_chunks()
    if types.is_dictionary(column.type):
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
    if types.is_string(kind) or types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=np.str_)
    plain: Array = column.to_numpy(zero_copy_only=False)
    return plain
