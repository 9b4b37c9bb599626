"""Tables on disk by their file's name: opened, and written whole or not at all; Parquet."""

from __future__ import annotations

import csv
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from volta.core.errors import InputError, MissingDataError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits, atomic_path
from volta.core.processes import run_sandboxed
from volta.core.types import Array
from volta.data.tables import AS_STORED, Chunk, Column, CsvTable, NpzTable, ReadAs, Table, text_array

TRIED_BYTES = 1 << 24
"""Files up to this size are read to their end in the trial; of larger ones the metadata are."""


def try_parquet(path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a file whose metadata, or rows where it is small, cannot be read; once while the file stays the same."""
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; check the path")
    status = path.stat()
    _try(path.resolve(), status.st_mtime_ns, status.st_size, limits)


@lru_cache(maxsize=64)
def _try(path: Path, changed: int, size: int, limits: Limits) -> None:
    run_sandboxed(f"{__name__}:walk", path, {"source": str(path), "to_the_end": size <= TRIED_BYTES}, limits)


def walk(source: str, to_the_end: bool) -> None:
    """Read what a file says of all its columns, and its rows; what :func:`try_parquet` runs in another process."""
    from pyarrow import parquet

    with (
        parse_errors(source, "is not a Parquet file that can be read", "save it again"),
        parquet.ParquetFile(source) as file,
    ):
        metadata = file.metadata
        for group in range(metadata.num_row_groups):
            columns = metadata.row_group(group)
            for index in range(columns.num_columns):
                columns.column(index).to_dict()
        if to_the_end:
            for _ in file.iter_batches():
                pass


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
            with parse_errors(self.path, "cannot be read", "it is damaged"):
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

    with parse_errors(path, "is not a Parquet file that can be read", "save it again"):
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


_BATCH_ROWS = 1 << 12
_PROBLEM = "is not a Parquet file that can be read"


def read_parquet(source: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, Array]:
    """Return a file's columns by name; a column of lists of one length becomes a matrix."""
    arrow = pyarrow_for("reading")
    try_parquet(source, limits)
    with parse_errors(source, _PROBLEM), open_parquet(source) as file:
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


class TableWriter(Protocol):
    """Takes rows piece by piece: name → (n,) array, or (n, width), the same names each time."""

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows."""

    def finish(self) -> None:
        """Write what stands at the file's end; not called after an error."""

    def close(self) -> None:
        """Let go of the file, whatever happened."""


class CsvWriter:
    """A header and a line a row; (n, width) becomes NAME_0, NAME_1, …; numbers read back the same."""

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, delimiter=delimiter, lineterminator="\n")
        self._names: list[str] | None = None

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add lines."""
        flat = dict(_flat(columns))
        if self._names is None:
            self._names = list(flat)
            self._writer.writerow(self._names)
        self._writer.writerows(zip(*(flat[name].tolist() for name in self._names), strict=True))

    def finish(self) -> None:
        """Write what the buffer holds."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetWriter:
    """A row group a piece; (n, width) becomes a column of lists."""

    def __init__(self, path: Path) -> None:
        self._arrow = pyarrow_for("writing")
        self._path = path
        self._writer: Any = None

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add a row group."""
        from pyarrow import parquet

        table = self._arrow.table({name: self._column(values) for name, values in columns.items()})
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        """Write the footer."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _column(self, values: Array) -> Any:
        if values.ndim > 1:
            flat = self._arrow.array(np.ascontiguousarray(values).reshape(-1))
            return self._arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
        return self._arrow.array(values.tolist() if values.dtype.kind in "OU" else values)


class NpzWriter:
    """An array a column, stored without compression; pieces wait in nameless files until their number is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: dict[str, _Waiting] = {}

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows to every array."""
        for name, values in columns.items():
            if name not in self._waiting:
                self._waiting[name] = _Waiting(self._path.parent)
            self._waiting[name].add(values.astype(np.str_) if values.dtype.kind == "O" else values)

    def finish(self) -> None:
        """Join the pieces into the archive."""
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, waiting in self._waiting.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    waiting.move_to(file)

    def close(self) -> None:
        """Let go of what waits."""
        for waiting in self._waiting.values():
            waiting.file.close()


class _Waiting:
    """The pieces of one array, in a file that has no name and so goes with the process."""

    def __init__(self, folder: Path) -> None:
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._n_pieces = 0
        self._n_rows = 0
        self._dtype: np.dtype[Any] | None = None
        self._row_shape: tuple[int, ...] = ()

    def add(self, values: Array) -> None:
        np.save(self.file, values)
        self._n_pieces += 1
        self._n_rows += len(values)
        self._row_shape = values.shape[1:]
        # Text is as wide as the widest piece has it.
        self._dtype = values.dtype if self._dtype is None else np.promote_types(self._dtype, values.dtype)

    def move_to(self, file: IO[bytes]) -> None:
        if self._dtype is None:
            return
        shape = (self._n_rows, *self._row_shape)
        description = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_2_0(file, description)
        self.file.seek(0)
        for _ in range(self._n_pieces):
            piece = np.load(self.file, allow_pickle=False)
            file.write(np.ascontiguousarray(piece, dtype=self._dtype).tobytes())


def _flat(columns: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, values in columns.items():
        if values.ndim == 1:
            yield name, values
        else:
            yield from ((f"{name}_{place}", values[:, place]) for place in range(values.shape[1]))


READERS: dict[str, Callable[[Path, Limits], Table]] = {
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".csv.gz": CsvTable,
    ".tsv.gz": CsvTable,
    ".npz": NpzTable,
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
}
WRITERS: dict[str, Callable[[Path], TableWriter]] = {
    ".csv": CsvWriter,
    ".tsv": lambda path: CsvWriter(path, "\t"),
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".pq": ParquetWriter,
}


def open_table(path: Path, limits: Limits = DEFAULT_LIMITS) -> Table:
    """Open a table; its name's ending says which kind of file it is.

    ``table.names`` and ``table.columns`` tell what it has, ``table.chunks({"age": "number", "name": "any"})`` walks it
    and :func:`volta.data.tables.read_columns` reads columns whole.
    """
    path = Path(path)
    reader = READERS.get(_ending(path))
    if reader is None:
        raise InputError(f"{path} ends in no kind of table; expected one of {', '.join(READERS)}")
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; name a file that ends in one of {', '.join(READERS)}")
    return reader(path, limits)


@contextmanager
def new_table(path: Path, *, overwrite: bool = False) -> Iterator[TableWriter]:
    """Give a writer of ``path``: the file appears when everything is written, and not at all on an error.

    Each ``write`` adds rows: name → (n,) array, or (n, width), the same names and kinds each time.
    """
    path = Path(path)
    check_new_table(path, overwrite=overwrite)
    with atomic_path(path) as temporary:
        writer = WRITERS[_ending(path)](temporary)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


def check_new_table(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a name that no table can have, or that stands already; before any work is done."""
    if _ending(path) not in WRITERS:
        raise InputError(f"--out is {path}; its name has to end in one of {', '.join(WRITERS)}")
    if path.exists() and not overwrite:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def _ending(path: Path) -> str:
    name = path.name.lower()
    endings = [ending for ending in READERS if name.endswith(ending)]
    return max(endings, key=len) if endings else path.suffix.lower()
