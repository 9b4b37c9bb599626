"""What a person sees while cells run: a bar with rate and time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from volta.bench.cells import Cell
from volta.networks.training import EpochReport


class Listener(Protocol):
    """What the runner tells as it goes."""

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """The plan is made: these cells, of which these are missing."""

    def cell_started(self, cell: Cell) -> None:
        """A cell begins."""

    def epoch(self, report: EpochReport) -> None:
        """The current cell finished an epoch."""

    def cell_done(self, cell: Cell, record: dict[str, Any]) -> None:
        """A cell is stored."""

    def cell_failed(self, cell: Cell, reason: str, path: Path) -> None:
        """A cell failed; its traceback is at ``path``."""

    def message(self, text: str) -> None:
        """Something else a person should know."""

    def finish(self) -> None:
        """No more cells."""


class Lines:
    """One line per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._count = 0
        self._missing = 0

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Say how much there is to do."""
        self._missing = len(missing)
        self._started = time.perf_counter()
        self.message(plan_sentence(cells, missing))

    def cell_started(self, cell: Cell) -> None:
        """Remember when the cell began."""

    def epoch(self, report: EpochReport) -> None:
        """Say nothing: a line per epoch would drown the log."""

    def cell_done(self, cell: Cell, record: dict[str, Any]) -> None:
        """Say what finished, its headline numbers and the time left."""
        self._count += 1
        left = (time.perf_counter() - self._started) / self._count * (self._missing - self._count)
        self.message(
            f"[{self._count}/{self._missing}] {done_sentence(cell, record)}, about {format_seconds(left)} left"
        )

    def cell_failed(self, cell: Cell, reason: str, path: Path) -> None:
        """Say what failed and where the traceback is."""
        self._count += 1
        self.message(f"[{self._count}/{self._missing}] FAILED {cell.label}: {reason} (see {path})")

    def message(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def finish(self) -> None:
        """Nothing to clean up."""


class Bar:
    """A live bar: cells done, rate, time left, the current cell and its epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._bar: TaskID | None = None
        self._done = 0

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Show the bar if there is anything to do."""
        self.message(plan_sentence(cells, missing))
        self._missing = len(missing)
        self._started = time.perf_counter()
        if missing:
            self._progress.start()
            self._bar = self._progress.add_task("", total=len(missing), rate="", left="")

    def cell_started(self, cell: Cell) -> None:
        """Name the current cell."""
        self._label = cell.label
        self._update(description=self._label)

    def epoch(self, report: EpochReport) -> None:
        """Show the epoch of the network in training."""
        self._update(description=f"{self._label} · epoch {report.epoch}/{report.max_epochs}")

    def cell_done(self, cell: Cell, record: dict[str, Any]) -> None:
        """Advance."""
        self._advance()

    def cell_failed(self, cell: Cell, reason: str, path: Path) -> None:
        """Say what failed above the bar, and advance."""
        self.message(f"FAILED {cell.label}: {reason} (see {path})")
        self._advance()

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def finish(self) -> None:
        """Leave the finished bar on the screen."""
        self._progress.stop()

    def _advance(self) -> None:
        self._done += 1
        pace = (time.perf_counter() - self._started) / self._done
        left = format_seconds(pace * (self._missing - self._done))
        self._update(advance=1, rate=f"{pace:.1f} s a cell", left=f"{left} left")

    def _update(self, **fields: Any) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, **fields)


class Quiet:
    """Only failures."""

    def __init__(self, console: Console) -> None:
        self._lines = Lines(console)

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Say nothing."""

    def cell_started(self, cell: Cell) -> None:
        """Say nothing."""

    def epoch(self, report: EpochReport) -> None:
        """Say nothing."""

    def cell_done(self, cell: Cell, record: dict[str, Any]) -> None:
        """Say nothing."""

    def cell_failed(self, cell: Cell, reason: str, path: Path) -> None:
        """Say what failed."""
        self._lines.message(f"FAILED {cell.label}: {reason} (see {path})")

    def message(self, text: str) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Nothing to clean up."""


def plan_sentence(cells: list[Cell], missing: list[Cell]) -> str:
    """Return how many cells there are and how many are still to run."""
    done = len(cells) - len(missing)
    if not missing:
        return f"all {len(cells)} cells are done already: nothing to run"
    return f"{len(cells)} cells: {done} done already, {len(missing)} to run"


def done_sentence(cell: Cell, record: dict[str, Any]) -> str:
    """Return a finished cell's headline numbers."""
    test = record["metrics"]["test"]
    return f"{cell.label}: accuracy {test['accuracy']:.4f}, ECE {test['ece']:.4f}, {record['wall_s']:.1f} s"


def format_seconds(seconds: float) -> str:
    """Return seconds as a short time."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
