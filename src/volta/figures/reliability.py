"""Reliability diagrams: what a stated confidence was worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.bench.records import TEST, EvalSet
from volta.figures.canvas import FAINT, RULE, add_axes, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodBins
from volta.figures.names import set_name
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 5
BACKING = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "boxstyle": "square,pad=0.15"}


def reliability_diagrams(context: Context, methods: Sequence[MethodBins]) -> Figure:
    """Draw a small diagram per method: accuracy of each confidence bin, its gap to the diagonal, shares of rows below.

    Rows of all seeds are pooled into the 15 bins of ECE; the ECE printed and its floor are means over seeds.
    """
    columns = min(COLUMNS, max(1, len(methods)))
    rows = max(1, math.ceil(len(methods) / columns))
    note = "bars: accuracy per confidence bin, seeds pooled; hatched: gap to confidence; grey, below: share of rows"
    figure = new_figure("Reliability", context, (1.2 + 1.62 * columns, 1.0 + 1.75 * rows), note)
    all_axes = add_axes(figure, rows, columns, sharex=True, sharey=True)
    for axes, method in zip(all_axes, methods, strict=False):
        draw_reliability(axes, method)
    for axes in all_axes[len(methods) :]:
        axes.set_visible(False)
    for index, axes in enumerate(all_axes[: len(methods)]):
        if index % columns == 0:
            axes.set_ylabel("accuracy", fontsize=7.5)
        if index + columns >= len(methods):
            axes.set_xlabel("confidence", fontsize=7.5)
            axes.tick_params(labelbottom=True)
    return figure


def draw_reliability(axes: Axes, method: MethodBins) -> None:
    """Draw one diagram: accuracy of each bin, its gap to the mean confidence, and below them the share of rows."""
    n_bins = len(method.count)
    filled = method.count > 0
    width = 1 / n_bins
    left = np.arange(n_bins)[filled] * width
    accuracy, confidence = method.accuracy[filled], method.confidence[filled]
    color = style_of(method.name).color
    axes.bar(left, accuracy, width, align="edge", color=color, alpha=0.85, edgecolor="white", linewidth=0.4)
    low, high = np.minimum(accuracy, confidence), np.maximum(accuracy, confidence)
    axes.bar(
        left,
        high - low,
        width,
        bottom=low,
        align="edge",
        facecolor="none",
        edgecolor=color,
        hatch="//////",
        linewidth=0.4,
        alpha=0.7,
    )
    shares = method.count[filled] / max(1, int(method.count.sum()))
    axes.bar(left, -0.16 * shares, width, align="edge", color=FAINT, alpha=0.8)
    axes.axhline(0, color=RULE, linewidth=0.6)
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.17, 1.02)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    weight = "bold" if method.ours else "normal"
    axes.set_title(plain(shorten(method.title, 20)), fontsize=7.5, fontweight=weight, loc="left", pad=3)
    axes.text(0.05, 0.97, _ece_words(method), fontsize=7, va="top", bbox=BACKING)
    axes.set_aspect(0.84)


def _ece_words(method: MethodBins) -> str:
    return f"ECE {method.ece:.3f}" if method.floor is None else f"ECE {method.ece:.3f}\nfloor {method.floor:.3f}"


def _data(numbers: GroupNumbers) -> Json:
    return {
        "sets": {
            name: {
                method: {
                    "n": bins.count,
                    "confidence": bins.confidence,
                    "accuracy": bins.accuracy,
                    "ece": bins.ece,
                    "floor": bins.floor,
                }
                for method, bins in by_method.items()
            }
            for name, by_method in numbers.bins.items()
        }
    }


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    sets = sorted(map(EvalSet.parse, numbers.bins), key=lambda one: one != TEST)
    options = ((str(one), "test rows" if one == TEST else f"{one.kind}: {set_name(str(one))}") for one in sets)
    return (Choice("set", "rows", tuple(options)),)


RELIABILITY = Chart(
    name="reliability",
    title="Reliability",
    caption="Bars: accuracy of each confidence bin, seeds pooled; dark line: mean confidence; shaded: the gap; "
    "below: share of rows. ECE: mean over seeds; floor: what a perfectly calibrated predictor would show.",
    kind="reliability",
    available=lambda numbers: any(name in numbers.bins.get("test", {}) for name in numbers.compared),
    data=_data,
    prints=(
        PrintVersion(
            "reliability",
            lambda numbers: reliability_diagrams(
                numbers.context, [bins for name, bins in numbers.bins["test"].items() if name in numbers.compared]
            ),
        ),
    ),
    choices=_choices,
    wide=True,
)
