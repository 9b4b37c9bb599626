"""Tables on disk as named columns in chunks: CSV and npz."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from volta.core.errors import InputError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits, stored_bytes
from volta.core.types import Array
from volta.data.arrays import ArrayHeader, check_values, read_header
from volta.data.download import check_zip

ReadAs: TypeAlias = Literal["number", "number or missing", "score", "any", "any or missing"]
"""``number``: finite float64; ``score``: the same, infinities allowed; ``any``: as it is stored, text in a CSV."""
AS_STORED: tuple[ReadAs, ...] = ("any", "any or missing")

CHUNK_ROWS = 1 << 14


@dataclass(frozen=True)
class Column:
    """A column: its name, whether it holds numbers (None where only reading tells), its length.

    ``wide``: every row has a list of numbers; ``n_rows`` is None where the file has to be read to know it.
    """

    name: str
    numeric: bool | None
    wide: bool
    n_rows: int | None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows: ``columns`` name → (n,) array, or (n, width) of a wide column.

    ``start`` is the number of the first row, from 0; ``line`` its line in the file where rows are lines; ``done`` the
    share of the file read so far.
    """

    path: Path
    start: int
    columns: Mapping[str, Array]
    line: int | None
    done: float

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words; ``row`` counts from the chunk's first."""
        line = "" if self.line is None else f" (line {self.line + row})"
        return f"{self.path} row {self.start + row}{line}, column {column!r}"


class Table(ABC):
    """A file of named columns; :func:`volta.data.table_files.open_table` opens one.

    ``names`` are the columns' names, in the file's order.
    """

    def __init__(self, path: Path, columns: tuple[Column, ...], limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = path
        self.columns = columns
        self.limits = limits
        self.names = tuple(column.name for column in columns)

    def column(self, name: str, argument: str) -> Column:
        """Return a column by its name; ``argument`` is what an error says asked for it, such as ``--label``."""
        for column in self.columns:
            if column.name == name:
                return column
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shortened(self.names)}"
        raise InputError(f"{argument} is {name!r}, which {self.path} lacks; {hint}")

    def chunks(self, columns: Mapping[str, ReadAs], rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Walk the columns asked for, at most ``rows`` rows at a time; a cell that is something else is an error."""
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

    @abstractmethod
    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        """Read; numbers are numeric already, whether they are missing or infinite is checked by the caller."""


def read_columns(table: Table, columns: Mapping[str, ReadAs], *, with_ids: bool = False) -> dict[str, Array]:
    """Return whole columns; ``with_ids``: for a command with an option --id, see :func:`naming_ids`."""
    pieces: dict[str, list[Array]] = {name: [] for name in columns}
    chunks = table.chunks(columns)
    for chunk in naming_ids(chunks) if with_ids else chunks:
        for name in columns:
            pieces[name].append(chunk.columns[name])
    return {name: joined(table, parts) for name, parts in pieces.items()}


class TextColumnError(InputError):
    """A column that should hold numbers holds text."""


def naming_ids(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Walk ``chunks`` of what has an option --id; where text stands in the place of numbers, the error names it."""
    try:
        yield from chunks
    except TextColumnError as error:
        raise InputError(f"{error}, or name it with --id if it is no feature") from error


def joined(table: Table, parts: Sequence[Array]) -> Array:
    """Return the pieces of a column as one; texts become as wide as the longest, and are refused where that is huge."""
    if parts[0].dtype.kind == "U":
        widest = max(part.dtype.itemsize for part in parts)
        table.limits.check_volume(table.path, widest * sum(map(len, parts)), table.path.stat().st_size)
    return np.concatenate(parts)


def text_array(texts: Sequence[str], path: Path, limits: Limits, n_rows: int | None = None) -> Array:
    """Return texts of a file as an array, in which each takes the room of the longest.

    One long text and a million short ones would make a small file a huge array; ``n_rows`` says how many rows the texts
    are going to be, where each stands for several.
    """
    widest = 4 * max(map(len, texts), default=0)
    limits.check_volume(path, widest * (len(texts) if n_rows is None else n_rows), stored_bytes(path))
    return np.array(texts, dtype=np.str_)


def check_cells(chunk: Chunk, name: str, read_as: ReadAs) -> None:
    """Refuse a missing value, and an infinite one among numbers, by its file, row and column."""
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
        raise InputError(f"{chunk.where(row, name)} {what}; fill it or drop the row")


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


def shortened(names: tuple[Any, ...], most: int = 20) -> str:
    """Return names with commas between them, cut after ``most``."""
    shown = ", ".join(map(str, names[:most]))
    return f"{shown}, … ({len(names)} in all)" if len(names) > most else shown


DELIMITERS = (",", ";", "\t")
_QUOTED = re.compile(r'"[^"]*"')


class CsvTable(Table):
    """A CSV file. Whether a column holds numbers is told as it is read; nothing is guessed."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        with _lines(path, limits) as (lines, _):
            first = _take(lines, 1, path, 1)
            if not first or not first[0].strip():
                raise InputError(f"{path} has an empty first line; it has to name the columns")
            self._delimiter = max(DELIMITERS, key=_QUOTED.sub("", first[0]).count)
            (names, *_), _ = _records(first, lines, self._delimiter, path, 1)
        _check_header(path, names)
        super().__init__(path, tuple(Column(name, None, False, None) for name in names), limits)

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        places = {name: place for place, name in enumerate(self.names)}
        numbers = {name: places[name] for name, read_as in columns.items() if read_as not in AS_STORED}
        texts = {name: places[name] for name, read_as in columns.items() if read_as in AS_STORED}
        gaps = {name for name, read_as in columns.items() if read_as == "number or missing"}
        width = len(self.names)
        with _lines(self.path, self.limits) as (lines, progress):
            header = csv.reader(lines, delimiter=self._delimiter, strict=True)
            next(header)
            start, line = 0, header.line_num + 1
            while taken := _take(lines, rows, self.path, line):
                n_lines = len(taken)
                found = self._parse_plain(taken, numbers, texts)
                if found is None:
                    records, n_lines = _records(taken, lines, self._delimiter, self.path, line)
                    bare = Chunk(self.path, start, {}, line if n_lines == len(records) else None, 0.0)
                    _check_widths(bare, records, width)
                    found = _parse_one_by_one(bare, records, numbers, gaps) | self._texts(records, texts)
                n_rows = len(next(iter(found.values())))
                if n_rows:
                    # A record over several lines, or a blank line, parts rows and lines.
                    yield Chunk(self.path, start, found, line if n_lines == n_rows else None, progress())
                start, line = start + n_rows, line + n_lines

    def _parse_plain(
        self, lines: list[str], numbers: Mapping[str, int], texts: Mapping[str, int]
    ) -> dict[str, Array] | None:
        """Return the columns at their places, fast; None where a quote, a width or a cell needs a closer look."""
        if '"' in "".join(lines):
            return None
        delimiter = self._delimiter
        kept = [text for text in lines if text.strip("\r\n")]
        if set(map(str.count, kept, repeat(delimiter))) != {len(self.names) - 1}:
            return None
        found: dict[str, Array] = {}
        if numbers:
            try:
                matrix = np.loadtxt(kept, delimiter=delimiter, usecols=list(numbers.values()), comments=None, ndmin=2)
            except ValueError:
                return None
            found |= zip(numbers, matrix.T, strict=True)
        return found | self._texts([text.rstrip("\r\n").split(delimiter) for text in kept], texts) if texts else found

    def _texts(self, records: list[list[str]], places: Mapping[str, int]) -> dict[str, Array]:
        # Read as text, the header of a second file behind the first would pass for a row.
        if places and list(self.names) in records:
            raise InputError(f"{self.path} repeats its header among its rows; were two files joined? Leave it out")
        return {
            name: text_array([record[place] for record in records], self.path, self.limits)
            for name, place in places.items()
        }


def _parse_one_by_one(
    chunk: Chunk, records: list[list[str]], places: Mapping[str, int], gaps: Collection[str]
) -> dict[str, Array]:
    """Return the columns at ``places`` as float64, or name the first cell that is not a number.

    In the columns ``gaps`` an empty cell is NaN.
    """
    found = {name: np.empty(len(records)) for name in places}
    for row, record in enumerate(records):
        for name, place in places.items():
            cell = record[place].strip()
            if not cell and name in gaps:
                cell = "nan"
            if not cell:
                raise InputError(f"{chunk.where(row, name)} is empty; fill it or drop the row")
            if not _is_number(cell):
                found_text = f"{chunk.where(row, name)} is {cell[:40]!r}, not a number"
                if _is_number(cell.replace(",", ".", 1)):
                    raise InputError(f"{found_text}; write numbers with a decimal point")
                raise TextColumnError(f"{found_text}; encode the column as numbers, or leave it out of the file")
            found[name][row] = float(cell)
    return found


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
        raise InputError(f"{path} has two columns {twice[0]!r}; give every column a name of its own")


def _check_widths(chunk: Chunk, records: list[list[str]], width: int) -> None:
    if set(map(len, records)) <= {width}:
        return
    row = next(row for row, record in enumerate(records) if len(record) != width)
    line = "" if chunk.line is None else f" (line {chunk.line + row})"
    raise InputError(
        f"{chunk.path} row {chunk.start + row}{line} has {len(records[row])} cells but the header names {width} columns"
    )


def _take(lines: Iterator[str], rows: int, path: Path, line: int) -> list[str]:
    try:
        return list(islice(lines, rows))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text, at or after line {line}; save it as UTF-8") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read at or after line {line} ({error}); it is damaged") from error


def _records(
    taken: list[str], lines: Iterator[str], delimiter: str, path: Path, line: int
) -> tuple[list[list[str]], int]:
    """Return the records of lines, the last of which may go on in those that follow, and how many lines they are."""
    reader = csv.reader(chain(taken, lines), delimiter=delimiter, strict=True)
    records = []
    try:
        while reader.line_num < len(taken):
            if record := next(reader):
                records.append(record)
    except csv.Error as error:
        raise InputError(f"{path} line {line + reader.line_num - 1} cannot be read ({error})") from error
    return records, reader.line_num


@contextmanager
def _lines(path: Path, limits: Limits) -> Iterator[tuple[IO[str], Any]]:
    """Give the file's lines, a byte-order mark removed, and a function that tells the share read so far."""
    size = max(1, path.stat().st_size)
    with parse_errors(path, "is not a table that can be read", "save it again as UTF-8 text"), path.open("rb") as raw:
        source: Any = _Unzipped(raw, path, limits) if path.suffix.lower() == ".gz" else raw
        with io.TextIOWrapper(source, encoding="utf-8-sig", newline="") as text:
            yield text, lambda: raw.tell() / size


class _Unzipped(gzip.GzipFile):
    """A gzipped file that stops where it becomes far larger than it was."""

    def __init__(self, raw: IO[bytes], path: Path, limits: Limits) -> None:
        super().__init__(fileobj=raw)
        self._path, self._limits, self._packed = path, limits, path.stat().st_size

    def read1(self, size: int | None = -1) -> bytes:
        """Return some bytes; their number so far is judged."""
        data = super().read1(-1 if size is None else size)
        self._limits.check_volume(self._path, self.tell(), self._packed)
        return data


class NpzTable(Table):
    """An npz file; arrays may differ in length, those read together may not."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        with parse_errors(path, "cannot be read", "it is damaged or not an npz"):
            members = [
                info for info in check_zip(path, limits, "cannot be read as an npz") if info.filename.endswith(".npy")
            ]
            with zipfile.ZipFile(path) as archive:
                self._sizes = {info.filename.removesuffix(".npy"): info.file_size for info in members}
                opened = {info.filename.removesuffix(".npy"): self._layout(archive, info) for info in members}
        self._layouts = {name: layout for name, layout in opened.items() if layout.shape}
        columns = tuple(
            Column(name, layout.dtype.kind in "biuf", len(layout.shape) > 1, layout.shape[0])
            for name, layout in self._layouts.items()
        )
        super().__init__(path, columns, limits)

    def width(self, name: str) -> int:
        """Return how many numbers a row of an array has."""
        return int(np.prod(self._layouts[name].shape[1:], dtype=np.int64))

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        n_rows = self._check(columns)
        with parse_errors(self.path, "cannot be read", "it is damaged"), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            opened = {name: stack.enter_context(archive.open(f"{name}.npy")) for name in columns}
            arrays = {name: _Rows(file, read_header(file, name, self.limits)) for name, file in opened.items()}
            for start in range(0, n_rows, rows):
                count = min(rows, n_rows - start)
                found = {name: _as_asked(arrays[name].take(count), columns[name]) for name in columns}
                yield Chunk(self.path, start, found, None, (start + count) / n_rows)

    def _layout(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayHeader:
        with archive.open(member) as file:
            return read_header(file, f"{archive.filename} array {member.filename!r}", self.limits)

    def _check(self, columns: Mapping[str, ReadAs]) -> int:
        lengths = {name: self._layouts[name].shape[0] for name in columns}
        first = next(iter(lengths))
        for name, length in lengths.items():
            layout = self._layouts[name]
            check_values(f"{self.path} array {name!r}", layout, self._sizes[name])
            if columns[name] not in AS_STORED and layout.dtype.kind not in "biuf":
                raise InputError(f"{self.path} array {name!r} is {layout.dtype}, not numbers; encode it as numbers")
            if length != lengths[first]:
                raise InputError(
                    f"{self.path} array {name!r} has {length} rows but {first!r} has {lengths[first]}; save one a row"
                )
        return lengths[first]


class _Rows:
    """Gives an array's rows one after another from its place in the archive."""

    def __init__(self, file: IO[bytes], layout: ArrayHeader) -> None:
        self._file = file
        self._layout = layout
        self._whole = self._read(self._layout.shape[0]) if self._layout.fortran_order else None
        self._position = 0

    def take(self, count: int) -> Array:
        """Return the next ``count`` rows."""
        start, self._position = self._position, self._position + count
        return self._read(count) if self._whole is None else self._whole[start : self._position]

    def _read(self, count: int) -> Array:
        layout = self._layout
        shape = (count, *layout.shape[1:])
        n_bytes = int(np.prod(shape, dtype=np.int64)) * layout.dtype.itemsize
        data = self._file.read(n_bytes)
        if len(data) < n_bytes:
            raise EOFError("it ends too early")
        return np.frombuffer(data, dtype=layout.dtype).reshape(shape, order="F" if layout.fortran_order else "C")


def _as_asked(values: Array, read_as: ReadAs) -> Array:
    if read_as in AS_STORED or values.dtype == np.float64:
        return values
    return values.astype(np.float32 if values.dtype.kind == "f" and values.dtype.itemsize <= 4 else np.float64)
