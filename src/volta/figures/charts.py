"""The table of charts, and how they are drawn in other processes."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType

from volta.core.processes import SecondProcess, SecondProcessError
from volta.figures.calibration import ACCURACY_ECE, CALIBRATION_BARS, RELIABILITY, RISK_COVERAGE
from volta.figures.chart_data import Chart, GroupNumbers, PrintVersion
from volta.figures.comparison import ABLATION_BARS, PAIRWISE, PARALLEL_COORDINATES, SUMMARY_HEATMAP
from volta.figures.cost import EFFICIENCY, TRAINING_CURVES
from volta.figures.draw import base_style, fonts_folder, save_figure, use_folder
from volta.figures.ood import NEAR_FAR_OOD, OOD_BARS, PR_CURVES, ROC_CURVES, SCORE_HISTOGRAMS
from volta.figures.shift import CORRUPTION_HEATMAP, SEVERITY_CURVES

CHARTS: tuple[Chart, ...] = (
    ACCURACY_ECE,
    RISK_COVERAGE,
    PARALLEL_COORDINATES,
    RELIABILITY,
    PAIRWISE,
    CALIBRATION_BARS,
    OOD_BARS,
    NEAR_FAR_OOD,
    EFFICIENCY,
    ROC_CURVES,
    PR_CURVES,
    TRAINING_CURVES,
    SEVERITY_CURVES,
    ABLATION_BARS,
    SCORE_HISTOGRAMS,
    SUMMARY_HEATMAP,
    CORRUPTION_HEATMAP,
)


MAX_HELPERS = 7
_kept: dict[int, GroupNumbers] = {}


@dataclass(frozen=True)
class _Task:
    version: PrintVersion
    numbers: int
    path: Path


class Drawing:
    """Draws figures for print on ``n_cores`` cores: the caller's process is one, each further core gets a helper.

    A figure is the same wherever it is drawn. What a helper cannot draw, since the chart is not of this package's table
    or since the helper failed, the caller's process draws.
    """

    def __init__(self, n_cores: int) -> None:
        self._numbers: list[GroupNumbers] = []
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._left: SimpleQueue[_Task] = SimpleQueue()
        self._stack = ExitStack()
        self._threads: list[Thread] = []
        for _ in range(min(MAX_HELPERS, n_cores - 1)):
            try:
                helper = self._stack.enter_context(SecondProcess())
            except SecondProcessError:
                break
            self._threads.append(Thread(target=self._serve, args=(helper,), daemon=True))
            self._threads[-1].start()

    def add(self, chart: Chart, numbers: GroupNumbers, folder: Path, prefix: str = "") -> None:
        """Have every print version of a chart drawn into ``folder``, with names that begin with ``prefix``."""
        known = {version.name for one in CHARTS if one is chart for version in one.prints}
        if not any(one is numbers for one in self._numbers):
            self._numbers.append(numbers)
        (place,) = (place for place, one in enumerate(self._numbers) if one is numbers)
        for version in chart.prints:
            task = _Task(version, place, folder / f"{prefix}{version.name}")
            if version.name in known and self._threads:
                self._tasks.put(task)
            else:
                self._left.put(task)

    def finish(self) -> None:
        """Draw along until every figure is there."""
        self._draw_here(self._tasks)
        for _ in self._threads:
            self._tasks.put(None)
        self._draw_here(self._left)
        for thread in self._threads:
            thread.join()
        self._draw_here(self._left)

    def __enter__(self) -> Drawing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the helpers; figures that were not waited for are not drawn."""
        with suppress(Empty):
            while True:
                self._tasks.get_nowait()
        for _ in self._threads:
            self._tasks.put(None)
        self._stack.close()
        for thread in self._threads:
            thread.join()

    def _draw_here(self, tasks: SimpleQueue[_Task | None] | SimpleQueue[_Task]) -> None:
        while True:
            try:
                task = tasks.get_nowait()
            except Empty:
                return
            if task is not None:
                _draw(task.version, self._numbers[task.numbers], task.path)

    def _serve(self, helper: SecondProcess) -> None:
        sent: set[int] = set()
        with suppress(SecondProcessError):
            helper.call("volta.figures.charts:get_ready", fonts_folder())
        while (task := self._tasks.get()) is not None:
            place = task.numbers
            try:
                if place not in sent:
                    helper.call("volta.figures.charts:keep", place, self._numbers[place])
                    sent.add(place)
                helper.call("volta.figures.charts:draw_kept", place, task.version.name, task.path)
            except SecondProcessError:
                self._left.put(task)


def get_ready(fonts: Path) -> None:
    """Import what drawing needs, in a helper, before there is anything to draw; ``fonts``: the parent's folder."""
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_pdf  # noqa: F401

    use_folder(fonts)


def keep(place: int, numbers: GroupNumbers) -> None:
    """Take up a group's numbers, in a helper."""
    _kept[place] = numbers


def draw_kept(place: int, version: str, path: Path) -> None:
    """Draw a print version from numbers that were taken up, in a helper."""
    (found,) = (one for chart in CHARTS for one in chart.prints if one.name == version)
    _draw(found, _kept[place], path)


def _draw(version: PrintVersion, numbers: GroupNumbers, path: Path) -> None:
    with base_style():
        save_figure(version.draw(numbers), path.parent, path.name)
