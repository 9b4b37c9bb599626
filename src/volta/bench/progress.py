"""Progress of a run: bars, lines, JSON events, and estimates of time."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.status import Status

from volta.bench.records import Cell, CellRecord
from volta.bench.store import MANIFEST, RunStore
from volta.core.errors import StoreError

if TYPE_CHECKING:
    from volta.features.extract import ExtractionProgress
    from volta.networks.training import EpochReport

Rates = dict[tuple[str, str], list[float]]
"""Seconds that cells took, by task and method."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that missing cells may take one after another, and how many measured cells that rests on."""

    seconds: float
    n_measured: int


def estimate_seconds(store: RunStore, cells: Iterable[Cell], missing: Iterable[Cell]) -> Estimate | None:
    """Return what the missing cells may take: the same method's median on the task, or else any cell's.

    Where this run has no finished cell, finished cells of the same tasks in the runs beside it count; None without any.
    """
    missing = list(missing)
    rates = _rates(store, [cell for cell in cells if store.is_done(cell) and store.is_intact(cell)])
    if not rates:
        rates = _rates_of_other_runs(store, {cell.task for cell in missing})
    if not rates:
        return None
    measured = [seconds for found in rates.values() for seconds in found]
    usual = statistics.median(measured)
    total = 0.0
    for cell in missing:
        alike = rates.get((cell.task, cell.method))
        total += statistics.median(alike) if alike else usual
    return Estimate(total, len(measured))


def _rates(store: RunStore, cells: Iterable[Cell]) -> Rates:
    rates: Rates = {}
    for cell in cells:
        rates.setdefault((cell.task, cell.method), []).append(store.read_record(cell).wall_s)
    return rates


def _rates_of_other_runs(store: RunStore, tasks: set[str]) -> Rates:
    rates: Rates = {}
    for path in sorted(store.root.absolute().parent.glob(f"*/{MANIFEST}")):
        other = RunStore(path.parent)
        try:
            found = _rates(other, [cell for cell in other.cells() if cell.task in tasks and other.is_done(cell)])
        except (StoreError, OSError):
            # A damaged run beside this one is not this run's business.
            continue
        for key, seconds in found.items():
            rates.setdefault(key, []).extend(seconds)
    return rates


EXTRACTION_SECONDS = 30.0
CELLS_BEFORE_ESTIMATE = 10


class Listener:
    """Hears what the runner tells as it goes; this one says nothing."""

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Hear that the plan is made: these cells, of which these are missing."""

    def cell_started(self, cell: Cell) -> None:
        """Hear that a cell begins."""

    def epoch(self, cell: Cell, report: EpochReport) -> None:
        """Hear that a cell in work finished an epoch."""

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Hear that a cell is stored."""

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Hear that a cell failed; its traceback is at ``path``."""

    def message(self, text: str) -> None:
        """Hear something else a person should know."""

    def phase(self, text: str) -> None:
        """Hear what is being done before the first cell or after the last."""

    def extracting(self, name: str) -> Callable[[ExtractionProgress], None] | None:
        """Hear that features of an image set are being extracted; return what hears how far that is."""
        return None

    def finish(self) -> None:
        """Hear that there are no more cells."""


class _Shown(Listener):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = _Pace(0)

    def extracting(self, name: str) -> Callable[[ExtractionProgress], None]:
        """Say which set is extracted and, every half minute, how far it is."""
        return ExtractionLines(name, self.message)

    def message(self, text: str) -> None:
        """Print a line, above the bar where there is one."""
        _print(self._console, text)


class Lines(_Shown):
    """One line per event, for logs and pipes."""

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Say how much there is to do."""
        self._pace = _Pace(len(missing))
        self.message(plan_sentence(cells, missing))

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Say what finished, its headline numbers and the time left."""
        self._pace.advance()
        test = record.test
        numbers = f"accuracy {test['accuracy']:.4f}, ECE {test['ece']:.4f}, {record.wall_s:.1f} s"
        self.message("; ".join(filter(None, (f"{self._pace.count} {cell.label}: {numbers}", self._pace.left))))

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Say what failed and where the traceback is."""
        self._pace.advance()
        self.message(f"{self._pace.count} {failure_sentence(cell, reason, path)}")

    def phase(self, text: str) -> None:
        """Say it."""
        self.message(text)


class Bar(_Shown):
    """A live bar: cells done, rate, time left, and the cells in work with their epochs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
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
        self._status: Status | None = None
        self._running: dict[Cell, str] = {}

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Show the bar if there is anything to do."""
        self._end_phase()
        self.message(plan_sentence(cells, missing))
        self._pace = _Pace(len(missing))
        if missing:
            self._progress.start()
            self._bar = self._progress.add_task("", total=len(missing), rate="", left="")

    def cell_started(self, cell: Cell) -> None:
        """Show the cell among those in work."""
        self._running[cell] = ""
        self._show()

    def epoch(self, cell: Cell, report: EpochReport) -> None:
        """Show the epoch of the network in training."""
        self._running[cell] = f" epoch {report.epoch}/{report.max_epochs}"
        self._show()

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Advance."""
        self._advance(cell)

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Say what failed above the bar, and advance."""
        self.message(failure_sentence(cell, reason, path))
        self._advance(cell)

    def phase(self, text: str) -> None:
        """Show a spinner with the text until something else is to be shown."""
        self.finish()
        self._status = self._console.status(text)
        self._status.start()

    def finish(self) -> None:
        """Leave the finished bar on the screen."""
        self._end_phase()
        self._progress.stop()

    def _end_phase(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _advance(self, cell: Cell) -> None:
        self._pace.advance()
        self._running.pop(cell, None)
        if self._bar is not None:
            self._progress.update(self._bar, advance=1, rate=self._pace.rate, left=self._pace.left)
        self._show()

    def _show(self) -> None:
        running = [f"{cell.method} {cell.seed}{note}" for cell, note in self._running.items()]
        shown = ", ".join(running[:2]) + (f" and {len(running) - 2} more" if len(running) > 2 else "")
        if self._bar is not None:
            self._progress.update(self._bar, description=shown)


class Failures(Listener):
    """Only what went wrong."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Say what failed."""
        _print(self._console, failure_sentence(cell, reason, path))


class ExtractionLines:
    """Says how far the extraction of an image set is, at its start, every half minute and at its end."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._said = -EXTRACTION_SECONDS

    def __call__(self, progress: ExtractionProgress) -> None:
        """Hear of another shard."""
        now = time.monotonic()
        if now - self._said < EXTRACTION_SECONDS and progress.n_done < progress.n_rows:
            return
        self._said = now
        left = (progress.n_rows - progress.n_done) / progress.rate if progress.rate else 0.0
        pace = f", {progress.rate:.0f} a second, about {format_seconds(left)} left" if progress.rate else ""
        self._say(f"features of {self._name}: {progress.n_done} of {progress.n_rows} images{pace}")


class _Pace:
    """Counts cells and tells rate and time left from those finished since the start."""

    def __init__(self, n_cells: int) -> None:
        self._n_cells = n_cells
        self._n_done = 0
        self._started = time.perf_counter()

    def advance(self) -> None:
        self._n_done += 1

    @property
    def _seconds(self) -> float:
        return (time.perf_counter() - self._started) / max(1, self._n_done)

    @property
    def count(self) -> str:
        return f"[{self._n_done}/{self._n_cells}]"

    @property
    def rate(self) -> str:
        return f"{self._seconds:.1f} s a cell"

    @property
    def left(self) -> str:
        """The time left; empty for the first cells, which train networks that later ones share."""
        if self._n_done < CELLS_BEFORE_ESTIMATE:
            return ""
        return f"about {format_seconds(self._seconds * (self._n_cells - self._n_done))} left"


def plan_sentence(cells: list[Cell], missing: list[Cell]) -> str:
    """Return how many cells there are and how many are still to run."""
    done = len(cells) - len(missing)
    if not missing:
        return f"all {len(cells)} cells are done already: nothing to run"
    return f"{len(cells)} cells: {done} done already, {len(missing)} to run"


def failure_sentence(cell: Cell, reason: str, path: Path | None) -> str:
    """Return what failed, why, and where to read more."""
    return f"FAILED {cell.label}: {reason} (see {path})"


def format_seconds(seconds: float) -> str:
    """Return seconds as a short time."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class JsonLog(Listener):
    """One JSON object per event and line, for machines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Write the size of the plan."""
        self._write("start", cells=len(cells), missing=len(missing))

    def cell_started(self, cell: Cell) -> None:
        """Write which cell begins."""
        self._write("cell_started", cell=asdict(cell))

    def epoch(self, cell: Cell, report: EpochReport) -> None:
        """Write the epoch."""
        self._write("epoch", cell=asdict(cell), epoch=report.epoch, max_epochs=report.max_epochs)

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Write which cell is stored and its test metrics."""
        self._write("cell_done", cell=asdict(cell), wall_s=record.wall_s, metrics=dict(record.test))

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Write which cell failed and why."""
        self._write("cell_failed", cell=asdict(cell), reason=reason, traceback=str(path))

    def message(self, text: str) -> None:
        """Write the text."""
        self._write("message", text=text)

    def finish(self) -> None:
        """Write that the run is over."""
        self._write("finish")

    def _write(self, event: str, **fields: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.write(json.dumps({"event": event, "time": now, **fields}) + "\n")
        self._file.flush()


class Both(Listener):
    """Passes everything on to two listeners; progress of an extraction to the first alone."""

    def __init__(self, first: Listener, second: Listener) -> None:
        for name in ("start", "cell_started", "epoch", "cell_done", "cell_failed", "message", "phase", "finish"):
            setattr(self, name, partial(_tell, getattr(first, name), getattr(second, name)))
        setattr(self, "extracting", first.extracting)  # noqa: B010


def _tell(first: Callable[..., None], second: Callable[..., None], *event: object) -> None:
    first(*event)
    second(*event)
