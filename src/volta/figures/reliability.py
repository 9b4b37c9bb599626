"""Reliability diagrams: what a stated confidence was worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from volta.bench.records import TEST, EvalSet
from volta.figures.canvas import FAINT, INK, RULE, add_axes, house_style, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, Floats, GroupNumbers, MethodBins
from volta.figures.names import set_name
from volta.figures.rectangles import draw_rectangles
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 5
FEW_ROWS = 10
"""Bins with fewer rows a seed say next to nothing and are grey."""
Z = 1.959964
GREY = "#b4b9c0"
BACKING = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "boxstyle": "square,pad=0.15"}


@house_style()
def reliability_diagrams(context: Context, methods: Sequence[MethodBins]) -> Figure:
    """Draw a small diagram per method: accuracy of each confidence bin, its gap to the diagonal, shares of rows below.

    Rows of all seeds are pooled into the 15 bins of ECE; the ECE printed and its floor are means over seeds. Bins with
    few rows are grey; thin lines are 95 % binomial intervals of the accuracy.
    """
    columns = min(COLUMNS, max(1, len(methods)))
    rows = max(1, math.ceil(len(methods) / columns))
    note = (
        "bars: accuracy per confidence bin, seeds pooled; lines: 95 % binomial; hatched: gap to confidence; grey bars: "
        f"below {FEW_ROWS} rows a seed; below the axis: share of rows"
    )
    figure = new_figure("Reliability", context, (1.2 + 1.62 * columns, 1.0 + 1.75 * rows), note)
    all_axes = add_axes(figure, rows, columns)
    for axes, method in zip(all_axes, methods, strict=False):
        draw_reliability(axes, method)
    for axes in all_axes[len(methods) :]:
        axes.set_visible(False)
    for index, axes in enumerate(all_axes[: len(methods)]):
        if index % columns == 0:
            axes.set_ylabel("accuracy", fontsize=7.5)
        if index + columns >= len(methods):
            axes.set_xlabel("confidence", fontsize=7.5)
        axes.tick_params(labelleft=index % columns == 0, labelbottom=index + columns >= len(methods))
    return figure


def draw_reliability(axes: Axes, method: MethodBins) -> None:
    """Draw one diagram: accuracy of each bin, its gap to the mean confidence, and below them the share of rows."""
    n_bins = len(method.count)
    filled = method.count > 0
    width = 1 / n_bins
    left = np.arange(n_bins)[filled] * width
    accuracy, confidence = method.accuracy[filled], method.confidence[filled]
    color = style_of(method.name).color
    few = rows_per_seed(method)[filled] < FEW_ROWS
    colors = [GREY if one else color for one in few]
    draw_rectangles(
        axes, left, left + width, 0, accuracy, facecolors=colors, alpha=0.85, edgecolors="white", linewidths=0.4
    )
    low, high = np.minimum(accuracy, confidence), np.maximum(accuracy, confidence)
    for hatched, look in ((~few, color), (few, GREY)):
        if hatched.any():
            edges = left[hatched], left[hatched] + width, low[hatched], high[hatched]
            draw_rectangles(axes, *edges, facecolors="none", edgecolors=look, hatch="//////", linewidths=0.4, alpha=0.7)
    bottom, top = (ends[filled] for ends in accuracy_interval(method))
    axes.vlines(left + width / 2, bottom, top, color=INK, linewidth=0.7, zorder=4)
    shares = method.count[filled] / max(1, int(method.count.sum()))
    draw_rectangles(axes, left, left + width, -0.16 * shares, 0, facecolors=FAINT, alpha=0.8, linewidths=0)
    axes.axhline(0, color=RULE, linewidth=0.6)
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.17, 1.02)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    weight = "bold" if method.ours else "normal"
    axes.set_title(plain(shorten(method.title, 20)), fontsize=7.5, fontweight=weight, loc="left", pad=3)
    axes.text(0.05, 0.97, _ece_words(method), fontsize=7, va="top", bbox=BACKING, in_layout=False, zorder=5)
    axes.set_aspect(0.84)


def rows_per_seed(method: MethodBins) -> Floats:
    """Return how many rows of one seed each bin holds; seeds may share their rows, so that pooled ones say too much."""
    return np.asarray(method.count / method.n_seeds)


def accuracy_interval(method: MethodBins) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95 % interval of each bin's accuracy, for as many rows as one seed has in it.

    (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n), z = 1.96.
    Reference: Wilson, Journal of the American Statistical Association 22 (1927).
    """
    n = np.maximum(rows_per_seed(method), 1.0)
    middle = (method.accuracy + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(method.accuracy * (1 - method.accuracy) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _bins_json(bins: MethodBins) -> Json:
    low, high = accuracy_interval(bins)
    return {
        "n": bins.count,
        "confidence": bins.confidence,
        "accuracy": bins.accuracy,
        "low": low,
        "high": high,
        "few": rows_per_seed(bins) < FEW_ROWS,
        "ece": bins.ece,
        "floor": bins.floor,
    }


def _ece_words(method: MethodBins) -> str:
    return f"ECE {method.ece:.3f}" if method.floor is None else f"ECE {method.ece:.3f}\nfloor {method.floor:.3f}"


def _data(numbers: GroupNumbers) -> Json:
    return {
        "sets": {
            name: {method: _bins_json(bins) for method, bins in by_method.items()}
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
    caption="Bars: accuracy of each confidence bin, seeds pooled, with a 95 % binomial interval; grey: fewer than "
    f"{FEW_ROWS} rows a seed; short line: mean confidence; shaded: the gap; below: share of rows. "
    "ECE: mean over seeds; floor: what a perfectly calibrated predictor would show.",
    kind="reliability",
    available=lambda numbers: any(name in numbers.bins.get("test", {}) for name in numbers.compared),
    data=_data,
    prints=(
        PrintVersion(
            "reliability",
            lambda numbers: reliability_diagrams(
                numbers.context,
                [
                    replace(numbers.bins["test"][name], title=title)
                    for name, title in numbers.network_titles.items()
                    if name in numbers.bins["test"]
                ],
            ),
        ),
    ),
    choices=_choices,
    wide=True,
    shared=True,
    needs="predictions",
)
