"""Tables on disk, CSV, npz and Parquet: named columns read in chunks, and files that appear when they are complete."""

from __future__ import annotations

import csv
import difflib
import gzip
import itertools
import json
import os
import re
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from volta.core.errors import InputError, MissingDataError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits, atomic_path, stored_bytes
from volta.core.types import Array
from volta.data.arrays import ArrayHeader, no_objects, read_header
from volta.data.download import check_zip

ReadAs: TypeAlias = Literal["number", "number or missing", "score", "any", "any or missing"]
"""``number``: finite float64; ``score``: the same, infinities allowed; ``any``: as it is stored, text in a CSV."""
AS_STORED: tuple[ReadAs, ...] = ("any", "any or missing")

CHUNK_ROWS = 1 << 14


@dataclass(frozen=True)
class Column:
    """A column: its name, whether it holds numbers (None where only reading shows), and whether rows are lists."""

    name: str
    numeric: bool | None
    wide: bool


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows: ``columns`` name → (n,) array, or (n, width) of a wide column.

    ``start`` is the number of the first row, from 0; ``done`` the share of the file read so far.
    """

    table: TableFile
    start: int
    columns: Mapping[str, Array]
    done: float

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words; ``row`` counts from the chunk's first."""
        return self.table.where(self.start + row, column)


class TableFile(ABC):
    """A file of named columns; :func:`open_table` opens one. ``names`` are the columns' names, in the file's order."""

    def __init__(self, path: Path, columns: Iterable[Column], limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = path
        self.columns = tuple(columns)
        self.limits = limits
        self.names = tuple(column.name for column in self.columns)

    def column(self, name: str, argument: str) -> Column:
        """Return a column by its name; errors name ``argument``, the option that asked for it, such as ``--label``."""
        for column in self.columns:
            if column.name == name:
                return column
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shortened(self.names)}"
        raise InputError(f"{argument} is {name!r}, which {self.path} lacks; {hint}")

    def chunks(self, columns: Mapping[str, ReadAs], rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Read the columns asked for, ``rows`` rows at a time; a cell that cannot be read as asked is an error."""
        if not columns:
            raise InputError(f"{self.path} has no columns to read; pass a file with at least one")
        n_rows = 0
        for chunk in self._chunks(columns, rows):
            for name, read_as in columns.items():
                check_cells(chunk, name, read_as)
            n_rows += len(chunk)
            yield chunk
        if n_rows == 0:
            raise InputError(f"{self.path} has no rows; pass a file with at least one")

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.path} row {row}, column {column!r}"

    @abstractmethod
    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        """Read columns; :meth:`chunks` checks for missing and infinite numbers."""


def read_columns(table: TableFile, columns: Mapping[str, ReadAs]) -> dict[str, Array]:
    """Return whole columns."""
    pieces: dict[str, list[Array]] = {name: [] for name in columns}
    for chunk in table.chunks(columns):
        for name in columns:
            pieces[name].append(chunk.columns[name])
    return {name: joined(table, parts) for name, parts in pieces.items()}


class CellError(InputError):
    """A cell that should hold a finite number does not."""


class TextColumnError(CellError):
    """A column that should hold numbers holds text."""


@contextmanager
def suggest_id() -> Iterator[None]:
    """Name the option --id in the error for a text column, for commands that have this option."""
    try:
        yield
    except TextColumnError as error:
        raise TextColumnError(f"{error}, or name it with --id if it is no feature") from error


def joined(table: TableFile, parts: Sequence[Array]) -> Array:
    """Return the pieces of a column as one array; NumPy gives each text the room of the longest, which is limited."""
    if parts[0].dtype.kind == "U":
        widest = max(part.dtype.itemsize for part in parts)
        table.limits.check_volume(table.path, widest * sum(map(len, parts)), stored_bytes(table.path))
    return np.concatenate(parts)


def _text_array(texts: Sequence[str], table: TableFile, n_rows: int) -> Array:
    """Return texts as an array, where one long text would make a column of ``n_rows`` short ones huge: limited too."""
    widest = 4 * max(map(len, texts), default=0)
    table.limits.check_volume(table.path, widest * n_rows, stored_bytes(table.path))
    return np.array(texts, dtype=np.str_)


def check_cells(chunk: Chunk, name: str, read_as: ReadAs) -> None:
    """Raise for a missing number, and for an infinite one that is no score; the error names file, row and column."""
    values = chunk.columns[name]
    if read_as in (*AS_STORED, "number or missing") or values.dtype.kind != "f" or not values.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite only where all of its terms are; it is the cheapest test of many.
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.isnan(values) if read_as == "score" else ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))
        value = values[row][bad[row]].flat[0] if values.ndim > 1 else values[row]
        what = "is missing (NaN)" if np.isnan(value) else f"is {value}"
        raise CellError(f"{chunk.where(row, name)} {what}; fill it or drop the row")


def as_labels(values: Array) -> Array:
    """Return labels; text that is whole numbers throughout, written plainly, becomes int64.

    >>> as_labels(np.array(["0", "12"])).tolist(), as_labels(np.array(["0", "012"])).tolist()
    ([0, 12], ['0', '012'])
    """
    if values.dtype.kind not in "OU":
        return values
    texts = [str(value) for value in values]
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=np.str_)
    plain = all(str(number) == text for number, text in zip(numbers.tolist(), texts, strict=True))
    return numbers if plain else np.array(texts, dtype=np.str_)


def labels_like(values: Array, classes: Array, where: str) -> Array:
    """Return labels in the type of ``classes``: what a CSV has as text may be numbers elsewhere.

    >>> labels_like(np.array(["1", "2.0"]), np.array([1, 2]), "a.csv").tolist()
    [1, 2]
    """
    if classes.dtype.kind in "OU":
        return values.astype(np.str_)
    if values.dtype.kind not in "OU":
        return values
    try:
        numbers = np.array([float(text) for text in values.tolist()])
    except ValueError as error:
        raise InputError(f"{where} holds text where the model's classes are numbers ({error})") from error
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers


def shortened(names: tuple[Any, ...]) -> str:
    """Return names with commas between them, cut after twenty."""
    shown = ", ".join(map(str, names[:20]))
    return f"{shown}, … ({len(names)} in all)" if len(names) > 20 else shown


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDataError("CSV and Parquet files need pyarrow: pip install 'volta-uq[bench]'") from error
    return pyarrow


def _batches_of(rows: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Regroup Arrow batches of any size into tables of ``rows`` rows; the last may be shorter."""
    held: Any = None
    arrow = _pyarrow()
    for batch in batches:
        table = arrow.Table.from_batches([batch])
        held = table if held is None else arrow.concat_tables([held, table])
        while held.num_rows >= rows:
            yield held.slice(0, rows).combine_chunks()
            held = held.slice(rows)
    if held is not None and held.num_rows:
        yield held.combine_chunks()


DELIMITERS = (",", ";", "\t")
_QUOTED = re.compile(r'"[^"]*"')
_BLOCK_BYTES = 1 << 20
_DAMAGED_CSV = "save it again as UTF-8 text"


class CsvTable(TableFile):
    """A CSV file, read by pyarrow; the ``csv`` module reads the header and words the error for a cell."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        with self._text(path) as lines:
            first = next(lines, "")
            if not first.strip():
                raise InputError(f"{path} has an empty first line; it has to name the columns")
            self._delimiter = max(DELIMITERS, key=_QUOTED.sub("", first).count)
            names = next(csv.reader(itertools.chain([first], lines), delimiter=self._delimiter, strict=True))
        # Every row has to fit in a block; numbers of 17 digits are longer than the names of their columns.
        self._block_bytes = max(_BLOCK_BYTES, 32 * sum(len(name) + 1 for name in names))
        _check_header(path, names)
        super().__init__(path, (Column(name, None, False) for name in names), limits)

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words, with the line on which its row begins."""
        for number, (line, _) in enumerate(self._records()):
            if number == row:
                return f"{self.path} row {row} (line {line}), column {column!r}"
        return super().where(row, column)

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        arrow = _pyarrow()
        from pyarrow import csv as arrow_csv

        kinds = {name: arrow.string() if how in AS_STORED else arrow.float64() for name, how in columns.items()}
        with parse_errors(self.path, "is not a table that can be read", _DAMAGED_CSV), ExitStack() as stack:
            raw = stack.enter_context(self.path.open("rb"))
            n_bytes, source, start = max(1, os.fstat(raw.fileno()).st_size), arrow.PythonFile(raw, mode="r"), 0
            if self.path.suffix.lower() == ".gz":
                source = stack.enter_context(arrow.CompressedInputStream(source, "gzip"))
            try:
                batches = stack.enter_context(
                    arrow_csv.open_csv(
                        source,
                        arrow_csv.ReadOptions(block_size=self._block_bytes),
                        arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                        arrow_csv.ConvertOptions(
                            column_types=kinds,
                            include_columns=list(kinds),
                            null_values=[""],
                            strings_can_be_null=False,
                        ),
                    )
                )
                for batch in _batches_of(rows, batches):
                    values = {name: self._values(batch[name], name, how, start) for name, how in columns.items()}
                    yield Chunk(self, start, values, raw.tell() / n_bytes)
                    start += batch.num_rows
            except arrow.ArrowInvalid:
                self._explain(columns)
                raise

    def _values(self, column: Any, name: str, read_as: ReadAs, start: int) -> Array:
        if read_as in AS_STORED:
            texts = column.to_pylist()
            return _text_array(texts, self, len(texts))
        if column.null_count and read_as != "number or missing":
            row = start + int(np.argmax(column.is_null().to_numpy()))
            raise CellError(f"{self.where(row, name)} is empty; fill it or drop the row")
        values: Array = column.to_numpy()
        return values

    def _explain(self, columns: Mapping[str, ReadAs]) -> None:
        """Raise the error for the first row that cannot be read, with its place, what it holds and what to do."""
        places = {name: place for place, name in enumerate(self.names)}
        for row, (line, cells) in enumerate(self._records()):
            if cells == list(self.names):
                raise InputError(f"{self.path} row {row} (line {line}) repeats the header; were two files joined?")
            if len(cells) != len(self.names):
                raise InputError(
                    f"{self.path} row {row} (line {line}) has {len(cells)} cells but the header names "
                    f"{len(self.names)} columns"
                )
            for name, read_as in columns.items():
                cell = cells[places[name]].strip()
                if read_as in AS_STORED or _is_number(cell) or (not cell and read_as == "number or missing"):
                    continue
                where = f"{self.path} row {row} (line {line}), column {name!r}"
                if not cell:
                    raise CellError(f"{where} is empty; fill it or drop the row")
                if _is_number(cell.replace(",", ".", 1)):
                    raise CellError(f"{where} is {cell[:40]!r}, not a number; write numbers with a decimal point")
                raise TextColumnError(
                    f"{where} is {cell[:40]!r}, not a number; encode the column as numbers, or leave it out of the file"
                )

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Walk the rows with the lines on which they begin."""
        with self._text(self.path) as lines:
            reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
            next(reader)
            line = reader.line_num + 1
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1

    @staticmethod
    @contextmanager
    def _text(path: Path) -> Iterator[IO[str]]:
        """Give the file's lines without its byte-order mark."""
        unzip: Callable[..., Any] = gzip.open if path.suffix.lower() == ".gz" else open
        try:
            with (
                parse_errors(path, "is not a table that can be read", _DAMAGED_CSV),
                unzip(path, "rt", encoding="utf-8-sig", newline="") as lines,
            ):
                yield lines
        except InputError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise InputError(f"{path} is not UTF-8 text; save it as UTF-8") from error
            raise


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _check_header(path: Path, names: list[str]) -> None:
    if all(_is_number(name.strip()) for name in names):
        raise InputError(f"{path} begins with numbers; its first line has to name the columns")
    if "" in (stripped := [name.strip() for name in names]):
        raise InputError(f"{path} column {stripped.index('')} has no name; name every column in the first line")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise InputError(f"{path} has two columns {twice[0]!r}; give every column a different name")


class NpzTable(TableFile):
    """An npz file; arrays may differ in length, those read together may not."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        check_zip(path, limits, "cannot be read as an npz")
        self._headers: dict[str, ArrayHeader] = {}
        with parse_errors(path, "cannot be read", "it is damaged or not an npz"), zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.endswith(".npy"):
                    with archive.open(member) as file:
                        self._headers[member.removesuffix(".npy")] = read_header(file, limits)
        columns = (
            Column(name, header.dtype.kind in "biuf", len(header.shape) > 1)
            for name, header in self._headers.items()
            if header.shape
        )
        super().__init__(path, columns, limits)

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        first = next(iter(columns))
        n_rows = self._headers[first].shape[0]
        for name, read_as in columns.items():
            header, where = self._headers[name], f"{self.path} array {name!r}"
            no_objects(header.dtype, where)
            if read_as not in AS_STORED and header.dtype.kind not in "biuf":
                raise InputError(f"{where} is {header.dtype}, not numbers; encode it as numbers")
            if header.shape[0] != n_rows:
                raise InputError(f"{where} has {header.shape[0]} rows but {first!r} has {n_rows}; save one a row")
        with parse_errors(self.path, "cannot be read", "it is damaged"), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            pieces = [self._pieces(stack.enter_context(archive.open(f"{name}.npy")), rows) for name in columns]
            for start, values in zip(range(0, n_rows, rows), zip(*pieces, strict=True), strict=True):
                found = dict(zip(columns, map(_as_asked, values, columns.values()), strict=True))
                yield Chunk(self, start, found, min(n_rows, start + rows) / n_rows)

    def _pieces(self, file: IO[bytes], rows: int) -> Iterator[Array]:
        """Walk an array ``rows`` rows at a time; only one that is stored column by column is read whole."""
        header = read_header(file, self.limits)
        n_rows, *row_shape = header.shape
        step = n_rows if header.fortran_order else rows
        for start in range(0, n_rows, max(1, step)):
            shape = (min(step, n_rows - start), *row_shape)
            n_bytes = int(np.prod(shape)) * header.dtype.itemsize
            if len(data := file.read(n_bytes)) < n_bytes:
                raise EOFError("it ends too early")
            piece = np.frombuffer(data, dtype=header.dtype).reshape(shape, order="F" if header.fortran_order else "C")
            yield from (piece[at : at + rows] for at in range(0, len(piece), rows))


def _as_asked(values: Array, read_as: ReadAs) -> Array:
    if read_as in AS_STORED or values.dtype == np.float64:
        return values
    return values.astype(np.float32 if values.dtype.kind == "f" and values.dtype.itemsize <= 4 else np.float64)


class ArrowTable(TableFile):
    """A table of Arrow batches, those of a Parquet file or in memory; a column of lists of one length is a wide column.

    ``batches`` is called with the columns to read and gives batches of any size.
    """

    def __init__(
        self, path: Path, schema: Any, n_rows: int, batches: Callable[[list[str]], Iterable[Any]], limits: Limits
    ) -> None:
        self._n_rows, self._batches = n_rows, batches
        # pandas stores an index without a name as a column that no other program knows.
        fields = [field for field in schema if not field.name.startswith("__index_level_")]
        if twice := [name for name, count in Counter(field.name for field in fields).items() if count > 1]:
            raise InputError(f"{path} has two columns {twice[0]!r}; give every column a different name")
        columns = [Column(field.name, _is_numeric(field.type), _is_list(field.type)) for field in fields]
        super().__init__(path, columns, limits)

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        for column in self.columns:
            if columns.get(column.name, "any") not in AS_STORED and not column.numeric:
                raise TextColumnError(
                    f"{self.path} column {column.name!r} is not numeric; encode it as numbers, drop it"
                )
        start = 0
        for batch in _batches_of(rows, self._batches(list(columns))):
            values = {name: self._values(batch[name], name, how, start) for name, how in columns.items()}
            yield Chunk(self, start, values, (start + batch.num_rows) / self._n_rows)
            start += batch.num_rows

    def _values(self, chunked: Any, name: str, read_as: ReadAs, start: int) -> Array:
        from pyarrow import types

        column = chunked.unify_dictionaries().combine_chunks()
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count and read_as not in ("any or missing", "number or missing"):
            raise CellError(f"{self.where(start + _first_null(column), name)} is empty; fill it or drop the row")
        if _is_list(column.type):
            return self._lists(column, name, start)
        if _is_text(column.type):
            # A missing text becomes an empty one, as in a CSV, and a missing number NaN.
            return _text_array(column.fill_null("").to_pylist(), self, len(column))
        values: Array = column.to_numpy(zero_copy_only=False)
        return _as_asked(values, read_as)

    def _lists(self, column: Any, name: str, start: int) -> Array:
        from pyarrow import compute

        lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        if (lengths != lengths[0]).any():
            row = int(np.argmax(lengths != lengths[0]))
            raise InputError(f"{self.where(start + row, name)} has {lengths[row]} numbers, others have {lengths[0]}")
        numbers = column.flatten()
        if numbers.null_count:
            row = start + _first_null(numbers) // int(lengths[0])
            raise InputError(f"{self.where(row, name)} has an empty number in its list; fill it or drop the row")
        return _as_asked(numbers.to_numpy(zero_copy_only=False), "number").reshape(len(column), -1)


def open_parquet(path: Path, limits: Limits = DEFAULT_LIMITS) -> TableFile:
    """Open a Parquet file."""
    _pyarrow()
    from pyarrow import parquet

    def batches(names: list[str]) -> Iterator[Any]:
        with parse_errors(path, "cannot be read", "it is damaged"), parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=CHUNK_ROWS, columns=names)

    with (
        parse_errors(path, "is not a Parquet file that can be read", "save it again"),
        parquet.ParquetFile(path) as file,
    ):
        return ArrowTable(path, file.schema_arrow, file.metadata.num_rows, batches, limits)


def open_json(path: Path, limits: Limits = DEFAULT_LIMITS) -> TableFile:
    """Open a JSON list of objects, one a row; a key that an object lacks is a missing cell."""
    with parse_errors(path, "is not a JSON list of objects that can be read", "write one object for each row"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{path} is no JSON list of objects; write one object for each row")
        names = dict.fromkeys(name for row in rows for name in row)
        table = _pyarrow().table({name: [row.get(name) for row in rows] for name in names})
    return ArrowTable(path, table.schema, table.num_rows, lambda names: table.select(names).to_batches(), limits)


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    if _is_list(kind) or types.is_dictionary(kind):
        return _is_numeric(kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


class ArrowWriter:
    """CSV, in which (n, width) becomes NAME_0, NAME_1, …, or Parquet, in which it becomes a column of lists.

    Numbers read back exactly.
    """

    def __init__(self, path: Path, delimiter: str | None) -> None:
        self._arrow = _pyarrow()
        self._path, self._delimiter = path, delimiter
        self._writer: Any = None

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows."""
        from pyarrow import csv as arrow_csv
        from pyarrow import parquet

        arrays = {}
        for name, values in columns.items():
            if values.ndim == 1:
                arrays[name] = self._arrow.array(values.tolist() if values.dtype.kind in "OU" else values)
            elif self._delimiter is None:
                flat = self._arrow.array(np.ascontiguousarray(values).reshape(-1))
                arrays[name] = self._arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
            else:
                arrays |= {f"{name}_{place}": self._arrow.array(column) for place, column in enumerate(values.T)}
        table = self._arrow.table(arrays)
        if self._writer is None and self._delimiter is None:
            self._writer = parquet.ParquetWriter(self._path, table.schema)
        elif self._writer is None:
            options = arrow_csv.WriteOptions(delimiter=self._delimiter)
            self._writer = arrow_csv.CSVWriter(self._path, table.schema, write_options=options)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write what belongs at the file's end, and close it."""
        if self._writer is not None:
            self._writer.close()


class NpzWriter:
    """An array for each column, stored without compression; all rows stay in memory until the file is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: dict[str, list[Array]] = {}

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows to every array."""
        for name, values in columns.items():
            self._parts.setdefault(name, []).append(values.astype(np.str_) if values.dtype.kind == "O" else values)

    def close(self) -> None:
        """Write the archive."""
        with self._path.open("wb") as file:
            np.savez(file, **{name: np.concatenate(parts) for name, parts in self._parts.items()})  # type: ignore[arg-type]


TableWriter: TypeAlias = ArrowWriter | NpzWriter
"""Takes rows piece by piece: name → (n,) array, or (n, width), the same names each time."""

READERS: dict[str, Callable[[Path, Limits], TableFile]] = {
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".csv.gz": CsvTable,
    ".tsv.gz": CsvTable,
    ".npz": NpzTable,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".json": open_json,
}
WRITERS: dict[str, Callable[[Path], TableWriter]] = {
    ".csv": lambda path: ArrowWriter(path, ","),
    ".tsv": lambda path: ArrowWriter(path, "\t"),
    ".npz": NpzWriter,
    ".parquet": lambda path: ArrowWriter(path, None),
    ".pq": lambda path: ArrowWriter(path, None),
}


def open_table(path: Path, limits: Limits = DEFAULT_LIMITS) -> TableFile:
    """Open a table; the suffix of its name says which kind of file it is.

    ``table.names`` and ``table.columns`` say what it has, ``table.chunks({"age": "number", "name": "any"})`` reads it
    in chunks and :func:`read_columns` reads whole columns.
    """
    path = Path(path)
    reader = READERS.get(_suffix(path))
    if reader is None:
        raise InputError(f"{path} is no kind of table; its name has to end in one of {', '.join(READERS)}")
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
        writer = WRITERS[_suffix(path)](temporary)
        try:
            yield writer
        finally:
            writer.close()


def check_new_table(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a name that no table can have, or that exists already; before any work is done."""
    if _suffix(path) not in WRITERS:
        raise InputError(f"--out is {path}; its name has to end in one of {', '.join(WRITERS)}")
    if path.exists() and not overwrite:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def _suffix(path: Path) -> str:
    name = path.name.lower()
    found = [suffix for suffix in READERS if name.endswith(suffix)]
    return max(found, key=len) if found else path.suffix.lower()
