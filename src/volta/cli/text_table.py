"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 200


def table_console() -> Console:
    """Return where tables are printed: as wide as the terminal is, and wide enough for all where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPE_COLUMNS)


def print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under column names; the first column, by which rows are named, is never cut."""
    from rich import box
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD)
    table.columns[0].min_width = max((len(row[0]) for row in rows), default=None)
    for row in rows:
        table.add_row(*row)
    table_console().print(table)
