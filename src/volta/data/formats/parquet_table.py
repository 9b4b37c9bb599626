"""Tables as Parquet files, read by row groups; pyarrow is needed only here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.formats.parquet_trial import try_parquet
from volta.data.formats.table import AS_STORED, Chunk, Column, ReadAs, Table, text_array

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}


class ParquetTable(Table):
    """A Parquet file; a column of lists of one length is a wide column."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        pyarrow_for("reading")
        try_parquet(path, limits)
        with open_parquet(path) as file:
            check_volume(path, file.metadata, limits)
            n_rows, schema = file.metadata.num_rows, file.schema_arrow
        columns = tuple(
            Column(field.name, _is_numeric(field.type), _is_list(field.type), n_rows)
            for field in schema
            # pandas keeps an index without a name as a column that no other program knows.
            if not field.name.startswith("__index_level_")
        )
        super().__init__(path, columns, limits)

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        for column in self.columns:
            if columns.get(column.name, "any") not in AS_STORED and not column.numeric:
                raise InputError(f"{self.path} column {column.name!r} is not numeric; encode it as numbers or drop it")
        with open_parquet(self.path) as file:
            n_rows, start = max(1, file.metadata.num_rows), 0
            with reading(self.path, "cannot be read", "it is damaged"):
                for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                    end = start + batch.num_rows
                    bare = Chunk(self.path, start, {}, None, end / n_rows)
                    found = {name: self._values(batch.column(name), bare, name, how) for name, how in columns.items()}
                    if batch.num_rows:
                        yield Chunk(self.path, start, found, None, bare.done)
                    start = end

    def _values(self, column: Any, chunk: Chunk, name: str, read_as: ReadAs) -> Array:
        from pyarrow import compute, types

        if column.null_count and read_as == "any or missing":
            # As an empty cell of a CSV reads; a number that is missing comes out as NaN.
            text = column.dictionary_decode() if types.is_dictionary(column.type) else column
            column = text.fill_null("") if is_text(text.type) else text
        elif column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"{chunk.where(row, name)} is empty; fill it or drop the row")
        if _is_list(column.type):
            lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
            if len(set(lengths.tolist())) > 1:
                row = int(np.argmax(lengths != lengths[0]))
                raise InputError(f"{chunk.where(row, name)} has {lengths[row]} numbers, others have {lengths[0]}")
            inner = column.flatten()
            if inner.null_count:
                row = int(np.argmax(inner.is_null().to_numpy(zero_copy_only=False))) // int(lengths[0])
                raise InputError(f"{chunk.where(row, name)} has an empty number in its list; fill it or drop the row")
            return _numeric(inner.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
        plain = plain_values(column, self.path, self.limits)
        return plain if read_as in AS_STORED else _numeric(plain)


def open_parquet(path: Path) -> Any:
    """Open a file so that a text that stands in many rows is held once."""
    from pyarrow import parquet

    with reading(path, "is not a Parquet file that can be read", "save it again"):
        with parquet.ParquetFile(path) as file:
            texts = [field.name for field in file.schema_arrow if is_text(field.type)]
        return parquet.ParquetFile(path, read_dictionary=texts)


def plain_values(column: Any, path: Path, limits: Limits) -> Array:
    """Return a column without lists as an array; texts take the room of the longest, which is judged first."""
    from pyarrow import types

    if types.is_dictionary(column.type) and is_text(column.type.value_type):
        used, places = np.unique(column.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        found: Array = text_array(column.dictionary.take(used).to_pylist(), path, limits, len(column))[places]
        return found
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        return text_array(column.to_pylist(), path, limits)
    plain: Array = column.to_numpy(zero_copy_only=False)
    return plain


def check_volume(path: Path, metadata: Any, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a file whose numbers of values, as its metadata has them, are too many for its size."""
    total = int(metadata.num_rows)
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for index in range(rows.num_columns):
            column = rows.column(index)
            values = column.num_values * _WIDTHS.get(column.physical_type, 8)
            total += max(values, column.total_uncompressed_size)
    limits.check_volume(path, total, path.stat().st_size)


def pyarrow_for(doing: str) -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDataError(f"{doing} Parquet needs pyarrow: pip install 'volta-uq[parquet]'") from error
    return pyarrow


def _numeric(values: Array) -> Array:
    single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if single else np.float64, copy=False)


def is_text(kind: Any) -> bool:
    """Whether a type of pyarrow is text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    if _is_list(kind):
        return _is_numeric(kind.value_type)
    if types.is_dictionary(kind):
        return _is_numeric(kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
