"""Tables as comma-separated text: a header, then a line a row; comma, semicolon or tab, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice, repeat
from pathlib import Path
from typing import IO, Any

import numpy as np

from volta.core.errors import InputError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.formats.table import AS_STORED, Chunk, Column, ReadAs, Table, TextColumnError, text_array

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
    with reading(path, "is not a table that can be read", "save it again as UTF-8 text"), path.open("rb") as raw:
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
