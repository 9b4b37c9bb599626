"""Horizontal bars, one per method, in each method's colour: for print, and the numbers for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import INK, mark_ours, plain, shorten
from volta.figures.chart import Choice, Json
from volta.figures.data import GroupNumbers, MethodValues, with_metrics
from volta.figures.names import metric_label, metric_of
from volta.figures.rectangles import draw_rectangles
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_bars(axes: Axes, methods: Sequence[MethodValues], metric: str, named: bool, start: float = 0.0) -> None:
    """Draw the mean of a metric as bars from ``start``, one standard deviation as a line, first method on top.

    A method without the metric leaves its row empty, so that rows line up across panels; ``named`` writes the methods'
    names beside the axis.
    """
    found = [(place, method) for place, method in enumerate(methods) if method.has(metric)]
    places = np.array([place for place, _ in found], dtype=np.float64)
    means = np.array([method.mean(metric) for _, method in found], dtype=np.float64)
    stds = np.array([method.std(metric) for _, method in found], dtype=np.float64)
    colors = [style_of(method.name).color for _, method in found]
    draw_rectangles(axes, start, means, places - 0.34, places + 0.34, facecolors=colors, alpha=0.88, linewidths=0)
    axes.hlines(places, means - stds, means + stds, color=INK, linewidth=0.9)
    ends = np.concatenate([means - stds, means + stds, means, [start]])
    margin = 0.05 * float(np.ptp(ends)) or 0.05
    low = float(ends.min())
    axes.set_xlim(low if low == start else low - margin, float(ends.max()) + margin)
    if named:
        axes.set_yticks(range(len(methods)), [plain(shorten(method.title)) for method in methods])
        mark_ours(axes.get_yticklabels(), methods)
    else:
        axes.set_yticks([])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.locator_params(axis="x", nbins=4)


def bars_json(numbers: GroupNumbers, metrics: Sequence[str], start: Mapping[str, float] | None = None) -> Json:
    """Return mean, deviation and the value of each seed, by metric and method; bars begin at ``start`` or at 0."""
    start = start or {}
    return {
        "metrics": {
            metric: {
                "label": metric_label(metric),
                "axis": f"{metric_label(metric)}, from chance" if metric in start else metric_label(metric),
                "up": metric_of(metric).higher_is_better is not False,
                "start": start.get(metric, 0.0),
                "rows": {m.name: cell_json(m, metric) for m in with_metrics(numbers.methods, metric)},
            }
            for metric in metrics
        }
    }


def cell_json(method: MethodValues, metric: str) -> Json:
    """Return a method's mean, deviation and value of each seed in one metric."""
    seeds = method.seeds.get(metric, range(1, len(method.values[metric]) + 1))
    pairs = sorted(zip(seeds, method.values[metric], strict=True))
    return {"mean": method.mean(metric), "std": method.std(metric), "seeds": pairs}


def metric_choice(metrics: Sequence[str]) -> Choice:
    """Return the choice between metrics."""
    return Choice("metric", "metric", tuple((metric, metric_label(metric)) for metric in metrics))
