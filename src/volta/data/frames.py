"""Tables in memory, of any library, as columns of cells: data frames, dicts, lists of dicts, arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, cast

import numpy as np

from volta.core.checks import missing_values
from volta.core.errors import InputError
from volta.core.types import Array

MISSING_TEXTS = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None", "none")
"""Text that stands for a missing cell."""
_MISSING = frozenset(MISSING_TEXTS)
DAY = np.timedelta64(1, "D")
FIRST_DAY, LAST_DAY = -700_000.0, 2_900_000.0
"""Calendar parts are those of days within these: the years 54 to 9909."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A column as it came: ``values`` (n,) are texts or None, else float64 with NaN where a cell is missing.

    Dates are days since 1970-01-01; ``typed`` says that a data frame calls it categorical.
    """

    kind: Literal["number", "boolean", "date", "text"]
    values: Array
    typed: bool = False

    def texts(self) -> list[str | None]:
        """Return the cells as levels of a category."""
        if self.kind == "text":
            return cast("list[str | None]", self.values.tolist())
        values, inverse = np.unique(self.values, return_inverse=True)
        make = _bool_text if self.kind == "boolean" else cell_text
        texts = [make(value) for value in values.tolist()]
        return [texts[place] for place in inverse.tolist()]

    def text(self, row: int) -> str:
        """Return a cell as a reader would write it."""
        value = self.values[row]
        if self.kind == "text":
            return repr(value) if value is not None else "missing"
        if np.isnan(value):
            return "missing"
        if self.kind == "date" and abs(value) < LAST_DAY:
            return str(np.datetime64("1970-01-01") + np.timedelta64(round(value * 86400), "s"))
        return str(bool(value)) if self.kind == "boolean" else f"{value:.6g}"


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns as they came, and their names, None where they have none."""

    names: tuple[str, ...] | None
    columns: tuple[Cells, ...]

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __getitem__(self, rows: Any) -> RawTable:
        columns = tuple(Cells(cells.kind, cells.values[rows], cells.typed) for cells in self.columns)
        return RawTable(self.names, columns)

    def called(self, place: int) -> str:
        """Return what a column is called."""
        return self.names[place] if self.names is not None else f"column {place}"


def _bool_text(value: float) -> str | None:
    return None if np.isnan(value) else str(bool(value))


def cell_text(value: Any) -> str | None:
    """Return a present cell's text, None where the text stands for a missing cell."""
    if isinstance(value, str):
        stripped = value.strip()
        return None if stripped in _MISSING else stripped
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return None
        if float(value).is_integer() and abs(float(value)) < float(2**53):
            return str(int(value))
    return str(value)


def read_table(X: Any, name: str = "X") -> RawTable:  # noqa: N803
    """Return the columns of a table of any library, or of plain Python.

    A data frame of pandas, polars or pyarrow; a dict of columns, or of cells: one row; a list of dicts, one a row; a
    pandas Series: one row; a structured array; an array or nested lists, whose columns have no names.
    """
    if isinstance(X, RawTable):
        return X
    if _is_series(X):
        X = dict(X.items())  # noqa: N806
    if isinstance(X, Mapping):
        if not any(_is_column(values) for values in X.values()):
            X = [X]  # noqa: N806
        else:
            names = tuple(str(key) for key in X)
            columns = tuple(cells_of(np.asarray(_column(values), dtype=_type_of(values))) for values in X.values())
            return _checked(RawTable(names, columns), name)
    if isinstance(X, list | tuple) and X and all(isinstance(row, Mapping) or _is_series(row) for row in X):
        rows = [{str(key): value for key, value in row.items()} for row in X]
        names = tuple(dict.fromkeys(key for row in rows for key in row))
        return RawTable(names, tuple(cells_of(_objects([row.get(own) for row in rows])) for own in names))
    if is_frame(X):
        return _read_frame(X, name)
    array = np.asarray(X) if not isinstance(X, list | tuple) else _nested(X, name)
    if array.dtype.names is not None:
        own = tuple(array.dtype.names)
        return RawTable(own, tuple(cells_of(array[key].reshape(-1)) for key in own))
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; pass a table of rows and columns: a data frame, a list of dicts, or an "
            "array (n, d). Reshape your data with array.reshape(1, -1) if it is one row"
        )
    return RawTable(None, tuple(cells_of(column) for column in array.T))


def is_plain(X: Any) -> bool:  # noqa: N803
    """Whether this is a matrix of numbers without missing values, or nothing that `read_table` reads better.

    >>> is_plain([[1.0, 2.0]]), is_plain([[1.0, None]]), is_plain([{"a": 1.0}])
    (True, False, False)
    """
    if hasattr(X, "toarray"):  # sparse, some of which are mappings too
        return True
    if isinstance(X, Mapping | RawTable) or _is_series(X):
        return False
    if is_frame(X):
        return _is_plain_frame(X)
    if isinstance(X, list | tuple):
        if any(isinstance(row, Mapping) or _is_series(row) for row in X):
            return False
        try:
            X = np.array(X, dtype=object)  # noqa: N806
        except ValueError:
            X = None  # noqa: N806
    return not isinstance(X, np.ndarray) or _is_plain_array(X)


def _is_plain_array(array: Array) -> bool:
    if array.dtype.names is not None or array.ndim != 2:
        return array.dtype.names is None
    if array.dtype.kind in "OUS":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            return False
    return array.dtype.kind != "f" or not bool(np.isnan(array).any())


def _is_plain_frame(X: Any) -> bool:  # noqa: N803
    import narwhals as nw

    try:
        frame = nw.from_native(X, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError):
        return False
    return all(
        (kind.is_numeric() or kind == nw.Boolean)
        and not series.is_null().any()
        and not (kind.is_float() and series.is_nan().any())
        for series in frame.iter_columns()
        for kind in (series.dtype,)
    )


def _checked(table: RawTable, name: str) -> RawTable:
    lengths = {len(cells.values) for cells in table.columns}
    if len(lengths) > 1:
        raise InputError(f"{name} has columns of {' and '.join(map(str, sorted(lengths)))} rows; pass one length")
    return table


def stacked(parts: Sequence[Array | RawTable]) -> Array | RawTable:
    """Return the rows of several parts of one table."""
    first = parts[0]
    if not isinstance(first, RawTable):
        return np.concatenate(cast("Sequence[Array]", parts))
    columns = []
    for pieces in zip(*(cast(RawTable, part).columns for part in parts), strict=True):
        kinds = {cells.kind for cells in pieces}
        if len(kinds) == 1:
            columns.append(Cells(pieces[0].kind, np.concatenate([cells.values for cells in pieces])))
        else:
            texts = [text for cells in pieces for text in cells.texts()]
            columns.append(Cells("text", _objects(texts)))
    return RawTable(first.names, tuple(columns))


def is_frame(X: Any) -> bool:  # noqa: N803
    """Whether this is a data frame of pandas, polars or pyarrow."""
    return hasattr(X, "columns") and hasattr(X, "shape") and len(X.shape) == 2


def _is_series(X: Any) -> bool:  # noqa: N803
    """Whether this is a pandas Series, which holds one row with its columns' names as index."""
    return hasattr(X, "to_frame") and hasattr(X, "index") and hasattr(X, "items") and len(X.shape) == 1


def _is_column(values: Any) -> bool:
    return not isinstance(values, str | bytes) and (isinstance(values, Sequence) or np.ndim(values) > 0)


def _column(values: Any) -> Any:
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _type_of(values: Any) -> Any:
    return None if hasattr(values, "dtype") else object


def _objects(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _nested(rows: Sequence[Any], name: str) -> Array:
    try:
        return np.array(rows, dtype=object)
    except ValueError as error:
        raise InputError(f"{name} has rows of different lengths; pass rows of equal length") from error


def _read_frame(X: Any, name: str) -> RawTable:  # noqa: N803
    import narwhals as nw

    names: tuple[str, ...] | None = None
    try:
        frame = nw.from_native(X, eager_only=True)
        if all(isinstance(own, str) for own in frame.columns):
            names = tuple(frame.columns)
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"{name} has two columns of one name ({error}); name each otherwise") from error
    except TypeError as error:
        raise InputError(
            f"{name} is a {type(X).__name__}; pass a data frame that is in memory (pandas, polars or pyarrow), a list "
            "of dicts, or an array"
        ) from error
    return RawTable(names, tuple(_series_cells(series, nw) for series in frame.iter_columns()))


def _series_cells(series: Any, nw: Any) -> Cells:
    kind = series.dtype
    if kind in (nw.Categorical, nw.Enum):
        return Cells("text", _objects([_present_text(value) for value in series.to_list()]), typed=True)
    if kind.is_numeric():
        return Cells("number", np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64))
    if kind == nw.Boolean and not series.is_null().any():
        return Cells("boolean", series.to_numpy().astype(np.float64))
    if kind in (nw.Date, nw.Datetime):
        return cells_of(_objects(series.to_list()))
    return cells_of(_objects(series.to_list()))


def _present_text(value: Any) -> str | None:
    return None if missing_values(_objects([value]))[0] else cell_text(value)


def cells_of(values: Array) -> Cells:
    """Return a column's cells from an array of any type."""
    kind = values.dtype.kind
    if kind == "b":
        return Cells("boolean", values.astype(np.float64))
    if kind in "iuf":
        return Cells("number", values.astype(np.float64))
    if kind == "M":
        days = (values.astype("datetime64[us]") - np.datetime64(0, "us")) / DAY
        return Cells("date", np.where(np.isnat(values), np.nan, days))
    if kind in "US":
        distinct, inverse = np.unique(values.astype(np.str_), return_inverse=True)
        return Cells("text", _objects([cell_text(text) for text in distinct.tolist()])[inverse])
    return _object_cells(values)


def _object_cells(values: Array) -> Cells:
    lost = missing_values(values)
    present = values[~lost]
    types = set(map(type, present))
    found = np.full(len(values), np.nan)
    if types and all(issubclass(each, bool | np.bool_) for each in types):
        found[~lost] = present.astype(np.float64)
        return Cells("boolean", found)
    if types and all(issubclass(each, Real | Decimal | np.number) for each in types):
        found[~lost] = [float(value) for value in present]
        return Cells("number", found)
    if types and all(issubclass(each, date | np.datetime64) for each in types):
        naive = [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in present]
        found[~lost] = (np.array(naive, dtype="datetime64[us]") - np.datetime64(0, "us")) / DAY
        return Cells("date", found)
    texts = np.full(len(values), None, dtype=object)
    texts[~lost] = _objects([cell_text(value) for value in present])
    return Cells("text", texts)
