"""The table of charts, and their drawing for print in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from volta.core.errors import InputError
from volta.core.processes import process_pool
from volta.figures.calibration import ACCURACY_ECE, CALIBRATION_BARS, RELIABILITY, RISK_COVERAGE
from volta.figures.chart_data import Chart, GroupNumbers, PrintVersion
from volta.figures.comparison import ABLATION_BARS, MEAN_RANKS, PAIRWISE, PARALLEL_COORDINATES, SUMMARY_HEATMAP
from volta.figures.cost import EFFICIENCY, TRAINING_CURVES
from volta.figures.draw import STYLES, base_style, save_figure
from volta.figures.ood import NEAR_FAR_OOD, OOD_BARS, PR_CURVES, ROC_CURVES, SCORE_HISTOGRAMS
from volta.figures.shift import CORRUPTION_HEATMAP, SEVERITY_CURVES

CHARTS: tuple[Chart, ...] = (
    MEAN_RANKS,
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

MAX_WORKERS = 8
Drawing: TypeAlias = tuple[PrintVersion, GroupNumbers, Path]
"""A figure for print, what it is drawn from, and its path without an ending."""


@contextmanager
def figure_workers(n_workers: int, style: str = "plain") -> Iterator[Callable[[Sequence[Drawing]], None]]:
    """Yield a function that draws figures for print in a style; with several workers it returns before they are drawn.

    Leaving the block waits for all figures and raises their errors. The files do not depend on the number of workers.
    """
    asked: list[Drawing] = []
    futures: list[Future[None]] = []

    def draw_now(figures: Sequence[Drawing]) -> None:
        for figure in figures:
            _draw(figure, style)

    def hand_out(figures: Sequence[Drawing]) -> None:
        asked.extend(figures)
        with suppress(BrokenProcessPool):
            futures.extend([pool.submit(_draw, figure, style) for figure in figures])

    if n_workers == 1:
        yield draw_now
        return
    with process_pool(min(n_workers, MAX_WORKERS), _import_matplotlib) as pool:
        yield hand_out
        # All calls end before an error is raised: loky's thread fails over cancelled ones.
        wait(futures)
    if len(futures) < len(asked) or any(isinstance(one.exception(), BrokenProcessPool) for one in futures):
        # The system has killed a worker.
        draw_now(asked)
        return
    for future in futures:
        future.result()


def check_style(style: str) -> None:
    """Refuse an unknown style."""
    if style not in STYLES:
        raise InputError(f"style is {style!r}; pass one of: {', '.join(STYLES)}")


def _import_matplotlib() -> None:
    with base_style():
        import matplotlib.backends.backend_pdf  # noqa: F401


def _draw(figure: Drawing, style: str) -> None:
    version, numbers, path = figure
    with base_style(STYLES[style]):
        save_figure(version.draw(numbers), path.parent, path.name)
