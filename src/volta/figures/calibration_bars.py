"""Calibration errors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.bars import draw_bars
from volta.figures.canvas import add_axes, new_figure
from volta.figures.data import Context, MethodValues, with_metrics
from volta.figures.names import metric_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS_SHOWN = ("ece", "mce", "ece_equal_mass", "ece_classwise")


def calibration_bars(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw four calibration errors per method, methods in order of ECE, one standard deviation as a line."""
    shown = sorted(with_metrics(methods, *METRICS_SHOWN), key=lambda m: m.mean("ece"))
    height = 1.3 + 0.19 * max(4, len(shown))
    note = "methods in order of ECE; lines: one standard deviation over seeds"
    figure = new_figure("Calibration errors", context, (8.4, height), note)
    all_axes = add_axes(figure, 1, len(METRICS_SHOWN))
    for axes, metric in zip(all_axes, METRICS_SHOWN, strict=True):
        draw_bars(axes, shown, metric, named=axes is all_axes[0])
        axes.set_title(metric_label(metric), loc="left", fontsize=9)
    return figure
