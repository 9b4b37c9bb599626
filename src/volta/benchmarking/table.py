"""A table of results as plain values, which becomes a data frame where a library for those is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from volta.bench.results_csv import csv_text
from volta.core.errors import MissingDataError
from volta.core.suggest import unknown_name
from volta.stats.csv_rows import columns_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SHOWN_ROWS = 60


@dataclass(frozen=True)
class Table:
    """Columns and rows; ``to_pandas`` and ``to_polars`` make frames, and Jupyter shows it as it is.

    >>> table = Table(("method", "accuracy"), (("volta", 0.97), ("knn", 0.95)))
    >>> table.column("accuracy"), len(table.where(method="knn")), next(iter(table))
    ((0.97, 0.95), 1, {'method': 'volta', 'accuracy': 0.97})
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Walk the rows, each a dictionary by column."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def column(self, name: str) -> tuple[Any, ...]:
        """Return the values of one column."""
        place = self._place(name)
        return tuple(row[place] for row in self.rows)

    def where(self, **equal: Any) -> Table:
        """Return the rows that have these values: ``where(method="knn", set="test")``."""
        wanted = {self._place(name): value for name, value in equal.items()}
        return Table(self.columns, tuple(row for row in self.rows if all(row[at] == v for at, v in wanted.items())))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingDataError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        try:
            import polars
        except ImportError as error:
            raise MissingDataError("to_polars needs polars, which is not installed: pip install polars") from error
        return polars.DataFrame({name: self.column(name) for name in self.columns}, strict=False)

    def to_csv(self) -> str:
        """Return the table as CSV text, floats with all their digits."""
        return csv_text(self.columns, self.rows)

    def __str__(self) -> str:
        cells = [self.columns, *(tuple(map(_shown, row)) for row in self.rows[:SHOWN_ROWS])]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        more = len(self.rows) - SHOWN_ROWS
        return "\n".join([*lines, f"... and {more} more rows"] if more > 0 else lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in self.rows[:SHOWN_ROWS]
        )
        more = len(self.rows) - SHOWN_ROWS
        rest = f"<p>and {more} more rows: to_pandas() or to_csv() gives all</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _place(self, name: str) -> int:
        if name not in self.columns:
            raise unknown_name("column", name, self.columns)
        return self.columns.index(name)


def table_of(row_type: type[DataclassInstance], rows: Iterable[DataclassInstance]) -> Table:
    """Return rows of a dataclass as a table."""
    columns = tuple(columns_of(row_type))
    return Table(columns, tuple(tuple(getattr(row, name) for name in columns) for row in rows))


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
