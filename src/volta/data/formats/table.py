"""What every table on disk offers: named columns, read in chunks as NumPy arrays, with errors that name the cell."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from volta.core.errors import InputError
from volta.core.files import stored_bytes
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array

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
    """A file of named columns; :func:`volta.data.formats.tabular_files.open_table` opens one.

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
