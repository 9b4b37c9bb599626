"""Calibration errors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.bars import bars_json, draw_bars, metric_choice
from volta.figures.canvas import add_axes, house_style, new_figure
from volta.figures.chart import Chart, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues, with_metrics
from volta.figures.names import metric_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS_SHOWN = ("ece", "mce", "ece_equal_mass", "ece_classwise")


@house_style()
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


def _metrics(numbers: GroupNumbers) -> list[str]:
    return [metric for metric in METRICS_SHOWN if numbers.has(metric)]


CALIBRATION_BARS = Chart(
    name="calibration_bars",
    title="Calibration errors",
    caption="Line: one standard deviation over seeds.",
    kind="bars",
    available=lambda numbers: numbers.has("ece"),
    data=lambda numbers: bars_json(numbers, _metrics(numbers)),
    prints=(
        PrintVersion("calibration_bars", lambda numbers: calibration_bars(numbers.context, numbers.compared_networks)),
    ),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
    shared=True,
    needs="records",
)
