"""Tables as they come: every column is typed once, and rows become numbers in a way that files and graphs repeat.

The rules, column by column:

- **number**: as it is (a model scales for itself); missing cells take the median of the training rows.
- **boolean**: 0 and 1, missing cells as for numbers. ``True`` and ``False`` as text count too.
- **category**: text, or a categorical column. One column of 0 and 1 for each of up to 32 levels. Of more levels the 32
  most frequent have one each if ten rows or more have them; the others share 16 columns by a hash of their text.
- **date**: days since 1970-01-01, month, day of the month, weekday and, where there are times of day, the hour.
- Where a training row lacks the cell, one more column says which rows do.
- The last column of each is 0 for training rows and 1 for a cell that none of them is like: an unknown level, a cell
  that is newly missing, infinite, or of another kind. This is evidence that a row is out of distribution.

Text is a column of numbers, Booleans or ISO dates where all cells can be read so. Free text and identifiers are
refused: over half of their cells differ.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import column_names
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.types import Array
from volta.data.frames import DAY, FIRST_DAY, LAST_DAY, Cells, RawTable, is_frame, read_table

Kind: TypeAlias = Literal["number", "boolean", "category", "date"]

MAX_LEVELS = 32
"""So many levels of a category have a column of their own."""
MIN_ROWS_OF_OWN = 10
"""Where there are more levels, one with fewer rows has no column of its own: in folds it may be there or not."""
N_SHARED = 16
"""So many columns the other levels share."""
FEW_VALUES = 10
"""Text with no more distinct values than this is never taken for free text."""
MOSTLY = 0.9
"""Text of many values is a column of numbers where at least this share of its cells are; the others are missing."""
INDICATOR_SPREAD = 0.1
"""What counts as the spread of a column of 0 and 1 that is constant in training rows; see `fit_evidence`."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_BOOLEANS = {"true": 1.0, "false": 0.0}
_CALENDAR = ("month", "day", "weekday", "hour")
_SHOWN = 5


class UnreadCellsWarning(VoltaWarning):
    """Some cells of a column of numbers are none; they count as missing."""


@dataclass(frozen=True)
class ColumnSchema:
    """What is known of one column of the training rows.

    ``levels`` of a category, the most frequent first, of which ``n_own`` have a column of their own;
    ``fill`` takes the place of a missing number, Boolean or date;
    ``missing``: whether training rows lack cells; ``timed``: whether dates have a time of day.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    n_own: int = 0
    fill: float = 0.0
    missing: bool = False
    timed: bool = False

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        if self.kind == "category":
            shared = [f"{self.name}#{place}" for place in range(N_SHARED)] if self.shares else []
            values = [*(f"{self.name}={level}" for level in self.levels[: self.n_own]), *shared]
        else:
            values = [self.name]
        if self.kind == "date":
            values += [f"{self.name} {part}" for part in _CALENDAR[: 4 if self.timed else 3]]
        missing = [f"{self.name} is missing"] if self.missing else []
        return (*values, *missing, f"{self.name} is unseen")

    @property
    def shares(self) -> bool:
        """Whether there are more levels than columns of their own."""
        return len(self.levels) > self.n_own

    @property
    def width(self) -> int:
        """How many columns the levels have."""
        return self.n_own + N_SHARED * self.shares

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """The place of each level's column."""
        own = np.arange(len(self.levels))
        hashed = [self.n_own + zlib.crc32(level.encode()) % N_SHARED for level in self.levels[self.n_own :]]
        return np.concatenate([own[: self.n_own], np.array(hashed, dtype=np.int64)])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: place for place, level in enumerate(self.levels)}

    def encode(self, cells: Cells, *, training: bool = False) -> Array:
        """Return (n, width) float64; see `TableSchema.encode`."""
        found = np.zeros((len(cells.values), len(self.encoded_names)))
        if self.kind == "category":
            places, missing = self._level_places(cells)
            if training and self.shares:
                counts = np.bincount(places[places >= 0], minlength=len(self.levels))
                places[(places >= 0) & (counts[places] == 1)] = -1
            rows = np.flatnonzero(places >= 0)
            found[rows, self.slots[places[rows]]] = 1.0
            unseen = (places < 0) & ~missing
        else:
            values, unseen = _as_kind(cells, self.kind)
            missing = np.isnan(values) & ~unseen
            filled = np.where(np.isnan(values), self.fill, values)
            found[:, 0] = filled
            if self.kind == "date":
                parts = calendar_parts(filled)
                found[:, 1 : 5 if self.timed else 4] = parts if self.timed else parts[:, :3]
        if self.missing:
            found[:, -2] = missing
        else:
            unseen |= missing
        found[:, -1] = unseen
        return found

    def _level_places(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the place of each cell's level, −1 where it is none, and which cells are missing."""
        texts = cells.texts()
        known = self._places
        places = np.fromiter(
            (-1 if text is None else known.get(text, -1) for text in texts), dtype=np.int64, count=len(texts)
        )
        missing = np.fromiter((text is None for text in texts), dtype=np.bool_, count=len(texts))
        return places, missing

    def wanted(self) -> str:
        """Say in words what cells hold."""
        if self.kind == "category":
            more = f" and {len(self.levels) - _SHOWN} more" if len(self.levels) > _SHOWN else ""
            return f"one of {', '.join(map(repr, self.levels[:_SHOWN]))}{more}"
        return {"number": "a finite number", "boolean": "True or False", "date": "a date such as 2026-11-19"}[self.kind]


@dataclass(frozen=True)
class Misfit:
    """A cell that is unlike all of the training rows': its row, its column, its value in words, and what is expected.

    >>> print(Misfit(3, "island", "'Atlantis'", "one of 'Biscoe', 'Dream'"))
    column 'island' is 'Atlantis'; training rows have one of 'Biscoe', 'Dream'
    """

    row: int
    column: str
    value: str
    wanted: str

    def __str__(self) -> str:
        return f"column {self.column!r} is {self.value}; training rows have {self.wanted}"


@dataclass(frozen=True)
class TableSchema:
    """The columns of training rows, and how rows like them become numbers; made by `fit_schema`.

    ``named``: columns are found by their names, else by position.
    """

    columns: tuple[ColumnSchema, ...]
    named: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the source columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """The place of the source column that each encoded column comes from."""
        return np.repeat(np.arange(len(self.columns)), [len(column.encoded_names) for column in self.columns])

    @cached_property
    def flags(self) -> NDArray[np.int64]:
        """The places of the encoded columns that are 1 where a cell is unlike all training rows', one a column."""
        return np.cumsum([len(column.encoded_names) for column in self.columns]) - 1

    @cached_property
    def spreads(self) -> NDArray[np.float64]:
        """What counts as each encoded column's spread where it is constant; NaN for numbers and dates."""
        return np.concatenate(
            [
                np.where(np.arange(len(column.encoded_names)) < _n_numbers(column), np.nan, INDICATOR_SPREAD)
                for column in self.columns
            ]
        )

    def encode(self, X: Any, *, training: bool = False) -> Array:  # noqa: N803
        """Return (n, d) finite float64 of a table, whatever its cells hold; columns are named by ``encoded_names``.

        Columns are taken by name where both tables have names, in any order; further ones are ignored, and one that is
        lacking raises. ``training``: these are the rows that the schema was fitted on; see `fit_schema`.
        """
        return self.encode_table(self.match(read_table(X)), training=training)

    def encode_table(self, table: RawTable, *, training: bool = False) -> Array:
        """Return :meth:`encode` of a table that :meth:`match` gave."""
        pairs = zip(self.columns, table.columns, strict=True)
        found = np.empty((len(table), len(self.encoded_names)))
        start = 0
        for column, cells in pairs:
            width = len(column.encoded_names)
            found[:, start : start + width] = column.encode(cells, training=training)
            start += width
        return found

    def match(self, table: RawTable, name: str = "X") -> RawTable:
        """Return the schema's columns of a table, in its order; one that is lacking raises."""
        if not self.named or table.names is None:
            if len(table.columns) != len(self.columns):
                raise InputError(
                    f"{name} has {len(table.columns)} features, but {len(self.columns)} were fitted; pass those"
                )
            return RawTable(self.names, table.columns)
        places = {own: place for place, own in enumerate(table.names)}
        if lacking := [own for own in self.names if own not in places]:
            raise InputError(
                f"{name} lacks {_listed('column', lacking)}; the table fitted had {', '.join(self.names[:20])}: pass "
                "each, with missing cells (None, NaN) where values are not known"
            )
        return RawTable(self.names, tuple(table.columns[places[own]] for own in self.names))

    def parse(self, table: RawTable) -> RawTable:
        """Return a matched table with text, as a CSV has it, read as the columns' kinds; NaN where it is none."""
        read = (
            Cells(column.kind, _as_kind(cells, column.kind)[0])
            if cells.kind == "text" and column.kind != "category"
            else cells
            for column, cells in zip(self.columns, table.columns, strict=True)
        )
        return RawTable(table.names, tuple(read))

    def misfits(self, table: RawTable, encoded: Array) -> list[Misfit]:
        """Return the cells of a matched table that no training row is like, row by row."""
        rows, columns = np.nonzero(encoded[:, self.flags] > 0.0)
        return [
            Misfit(row, self.columns[j].name, table.columns[j].text(row), self.columns[j].wanted())
            for row, j in zip(rows.tolist(), columns.tolist(), strict=True)
        ]

    def decode(self, encoded: Array) -> RawTable:
        r"""Return a table whose encoding is like the rows (n, d) given: for trials, exact for encoded rows.

        Cells that no training row is like are infinite or the text ``"\ufffd"``.
        """
        found, start = [], 0
        for column in self.columns:
            width = len(column.encoded_names)
            block = encoded[:, start : start + width]
            start += width
            unseen = block[:, -1] > 0.5
            missing = block[:, -2] > 0.5 if column.missing else np.zeros(len(block), dtype=np.bool_)
            if column.kind == "category":
                first = {slot: place for place, slot in reversed(list(enumerate(column.slots.tolist())))}
                values = block[:, : column.width]
                own = np.full(len(block), None, dtype=object)
                if column.width:
                    own[:] = [column.levels[first.get(slot, 0)] for slot in values.argmax(axis=1).tolist()]
                own[missing] = None
                own[unseen | ((values.max(axis=1, initial=0.0) <= 0.0) & ~missing)] = "\ufffd"
            else:
                own = block[:, 0].round() if column.kind == "boolean" else block[:, 0].copy()
                own[missing] = np.nan
                own[unseen] = np.inf
            found.append(Cells("text" if column.kind == "category" else column.kind, own))
        return RawTable(self.names, tuple(found))


def _n_numbers(column: ColumnSchema) -> int:
    """Return how many encoded columns are no indicators."""
    return {"number": 1, "date": 5 if column.timed else 4}.get(column.kind, 0)


def fit_schema(X: Any, name: str = "X") -> TableSchema:  # noqa: N803
    """Type the columns of training rows: a data frame, a dict of columns, a list of dicts, an array of any type.

    It learns from all rows of a fit, those that calibrate too, and from no labels. Guarantees need scores that treat
    calibration rows and new ones alike. Medians and lists of levels are symmetric in the rows. A level that only a
    calibration row has is a column that is constant where the model learns, so that this row is as surprising to it as
    a new row with an unknown level is. Where levels share columns that would not be so: there, in the encoding of the
    training rows themselves (``training=True``), a level that occurs once counts as unknown, as it is to the others.
    Weights of rows do not count.

    >>> table = {"mass": [3750.0, None, 3250.0], "island": ["Dream", "Biscoe", "Dream"]}
    >>> schema = fit_schema(table)
    >>> schema.encoded_names[:3]
    ('mass', 'mass is missing', 'mass is unseen')
    >>> schema.encode({"island": ["Atlantis"], "mass": [3400.0]}).tolist()
    [[3400.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    """
    table = read_table(X)
    if not table.columns:
        raise InputError(f"{name} has no columns (0 feature(s)); pass a table with at least one")
    columns, refused, unread = [], [], []
    for place, cells in enumerate(table.columns):
        called = table.called(place)
        try:
            column = _fit_column(called, cells)
        except _ColumnError as error:
            refused.append(f"column {called!r} {error}")
            continue
        columns.append(column)
        if column.kind == "number" and cells.kind == "text":
            bad = np.flatnonzero(_as_kind(cells, "number")[1])
            if len(bad):
                unread.append(f"column {called!r} has {len(bad)}, first {cells.text(int(bad[0]))}")
    if refused:
        raise InputError(
            f"{name} has {_counted(len(refused), 'column')} that cannot be features: {'; '.join(refused)}. Leave them "
            "out, or encode them as numbers or as text of few values"
        )
    if unread:
        warn_user(f"{name} has cells that are no numbers, taken as missing: {'; '.join(unread)}", UnreadCellsWarning)
    return TableSchema(tuple(columns), named=table.names is not None)


class _ColumnError(ValueError):
    """Why a column cannot be a feature."""


def _fit_column(name: str, cells: Cells) -> ColumnSchema:
    kind: Kind = "category" if cells.typed else _kind_of(cells)
    if kind == "category":
        texts = cells.texts()
        counts = Counter(text for text in texts if text is not None)
        n_present = sum(counts.values())
        if comma := next((text for text in counts if _COMMA.fullmatch(text)), None):
            raise _ColumnError(f"holds {comma!r}; write numbers with a decimal point")
        if not cells.typed and len(counts) > FEW_VALUES and len(counts) > n_present / 2:
            raise _ColumnError(
                f"holds free text or identifiers ({len(counts)} different values in {n_present} cells, such as "
                f"{next(iter(counts))[:40]!r})"
            )
        levels = tuple(sorted(counts, key=lambda level: (-counts[level], level)))
        n_own = len(levels)
        if n_own > MAX_LEVELS:
            n_own = sum(counts[level] >= MIN_ROWS_OF_OWN for level in levels[:MAX_LEVELS])
        return ColumnSchema(name, "category", levels, n_own, missing=n_present < len(texts))
    values, unread = _as_kind(cells, kind)
    if cells.kind != "text" and unread.any():
        row = int(np.argmax(unread))
        raise _ColumnError(f"holds infinity (row {row} is {cells.values[row]}); replace it by a number or drop the row")
    present = values[~np.isnan(values)]
    fill = float(np.median(present)) if len(present) else 0.0
    if kind == "boolean":
        fill = float(fill > 0.5)
    timed = kind == "date" and bool((present != np.floor(present)).any())
    return ColumnSchema(name, kind, fill=fill, missing=len(present) < len(values), timed=timed)


def _kind_of(cells: Cells) -> Kind:
    """Return what a column holds; text is read as Booleans, numbers or dates where all of it can be."""
    if cells.kind != "text":
        return cells.kind
    counts = Counter(text for text in cells.values if text is not None)
    if not counts:
        return "number"
    if all(text.lower() in _BOOLEANS for text in counts):
        return "boolean"
    n_numbers: int = sum(count for text, count in counts.items() if _NUMBER.fullmatch(text))
    share = n_numbers / sum(counts.values())
    if share == 1.0 or (share >= MOSTLY and len(counts) > MAX_LEVELS):
        return "number"
    return "date" if all(_days_of(text) is not None for text in counts) else "category"


def _as_kind(cells: Cells, kind: Kind) -> tuple[Array, NDArray[np.bool_]]:
    """Return cells as float64, NaN where there is no value, and which of them hold something else."""
    if cells.kind == "text":
        read = cast(Callable[[str], float | None], {"boolean": _bool_of, "date": _days_of}.get(kind, _float_of))
        known = {text: read(text) for text in dict.fromkeys(cells.values.tolist()) if text is not None}
        values = np.array([np.nan if (v := known.get(text)) is None else v for text in cells.values], dtype=np.float64)
        given = np.array([text is not None for text in cells.values], dtype=np.bool_)
        return values, given & ~np.isfinite(values)
    values = cells.values.astype(np.float64)
    given = ~np.isnan(values)
    if (kind == "date") != (cells.kind == "date"):
        return np.full(len(values), np.nan), given
    bad = given & (~np.isin(values, (0.0, 1.0)) if kind == "boolean" else np.isinf(values))
    values[bad] = np.nan
    return values, bad


def _float_of(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else _BOOLEANS.get(text.lower())


def _bool_of(text: str) -> float | None:
    return _BOOLEANS.get(text.lower(), {"1": 1.0, "0": 0.0}.get(text))


def _days_of(text: str) -> float | None:
    """Return days since 1970-01-01 of an ISO date or time, as it is written, whatever its time zone."""
    if "-" not in text:
        return None
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
    return float((np.datetime64(moment, "us") - np.datetime64(0, "us")) / DAY)


def calendar_parts(days: Array) -> Array:
    """Return (n, 4): month, day of the month, weekday (Monday is 0) and hour of days since 1970-01-01.

    >>> calendar_parts(np.array([0.0, 19782.75])).tolist()
    [[1.0, 1.0, 3.0, 0.0], [2.0, 29.0, 3.0, 18.0]]
    """
    bounded = np.clip(days, FIRST_DAY, LAST_DAY)
    whole = np.floor(bounded)
    dates = whole.astype(np.int64).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64) % 12 + 1
    day = (dates - months).astype(np.int64) + 1
    return np.stack([month, day, (whole + 3) % 7, (bounded - whole) * 24], axis=1).astype(np.float64)


def named_rows(X: Any, names: Sequence[str]) -> Any:  # noqa: N803
    """Return the columns of these names, in this order, of a table that has names; as it is where it has none.

    What is no data frame becomes an array (n, d) of numbers, with NaN where a cell is none.
    """
    if is_frame(X):
        own = column_names(X)
        if own is None or own == tuple(names) or not set(names) <= set(own) or len(set(own)) < len(own):
            return X
        import narwhals as nw

        return nw.from_native(X, eager_only=True).select(list(names)).to_native()
    if isinstance(X, np.ndarray) and X.dtype.names is None:
        return X
    table = read_table(X)
    if table.names is None:
        return X
    schema = TableSchema(tuple(ColumnSchema(name, "number") for name in names), named=True)
    return numbers_of(schema.match(table))


def numbers_of(table: RawTable) -> Array:
    """Return (n, d) float64 of a table, NaN where a cell is no number."""
    return np.stack([_as_kind(cells, "number")[0] for cells in table.columns], axis=1)


def _listed(what: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:20]))}{more}"


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n > 1 else ''}"
