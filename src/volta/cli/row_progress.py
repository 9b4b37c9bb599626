"""How far a walk over a file is: a bar on a terminal, a line now and then otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 10.0


class RowProgress(Protocol):
    """Hears how many more rows are done and which share of the file is."""

    def __call__(self, n_rows: int, done: float) -> None:
        """Advance."""


@contextmanager
def row_progress(doing: str, *, quiet: bool = False) -> Iterator[RowProgress]:
    """Give a function to call after each chunk; everything is said on standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet:
        yield lambda n_rows, done: None
    elif console.is_terminal:
        yield from _bar(doing, console)
    else:
        yield _Lines(doing, console)


def _bar(doing: str, console: Console) -> Iterator[RowProgress]:
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(doing, total=1.0, rows=0)
        n_done = 0

        def advance(n_rows: int, done: float) -> None:
            nonlocal n_done
            n_done += n_rows
            progress.update(bar, completed=done, rows=n_done)

        yield advance


class _Lines:
    def __init__(self, doing: str, console: Console) -> None:
        self._doing = doing
        self._console = console
        self._n_done = 0
        self._started = self._said = time.monotonic()

    def __call__(self, n_rows: int, done: float) -> None:
        self._n_done += n_rows
        now = time.monotonic()
        if now - self._said < LINE_SECONDS:
            return
        from volta.bench.progress import format_seconds

        self._said = now
        left = (now - self._started) * (1.0 - done) / max(done, 1e-9)
        text = f"{self._doing}: {self._n_done:,} rows, {done:.0%}, about {format_seconds(left)} left"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
