"""The table of charts, and their drawing for print in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

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

MIN_FIGURES = 8
MAX_WORKERS = 8


def draw_figures(
    figures: Sequence[tuple[PrintVersion, GroupNumbers, Path]], n_workers: int, style: str = "plain"
) -> None:
    """Draw figures for print in a style, each from its numbers, to its path without an ending.

    With several workers and at least eight figures, loky's processes draw them; the files are the same.
    """
    if n_workers > 1 and len(figures) >= MIN_FIGURES:
        # Where the system kills a worker, this process draws.
        with suppress(BrokenProcessPool), process_pool(min(n_workers, MAX_WORKERS)) as pool:
            # Not pool.map, and all calls end before an error is raised: loky's thread fails over cancelled ones.
            futures = [pool.submit(_draw, figure, style) for figure in figures]
            wait(futures)
            for future in futures:
                future.result()
            return
    for figure in figures:
        _draw(figure, style)


def check_style(style: str) -> None:
    """Refuse a style that there is none of."""
    if style not in STYLES:
        raise InputError(f"style is {style!r}; pass one of: {', '.join(STYLES)}")


def _draw(figure: tuple[PrintVersion, GroupNumbers, Path], style: str) -> None:
    version, numbers, path = figure
    with base_style(STYLES[style]):
        save_figure(version.draw(numbers), path.parent, path.name)
