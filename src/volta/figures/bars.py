"""Horizontal bars, one per method, in each method's colour: for print, and the numbers for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import INK, mark_ours, plain, shorten
from volta.figures.chart import Choice, Json
from volta.figures.data import GroupNumbers, MethodValues, with_metrics
from volta.figures.names import metric_label, metric_of
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_bars(axes: Axes, methods: Sequence[MethodValues], metric: str, named: bool, start: float = 0.0) -> None:
    """Draw the mean of a metric as bars from ``start``, one standard deviation as a line, first method on top.

    A method without the metric leaves its row empty, so that rows line up across panels; ``named`` writes the methods'
    names beside the axis.
    """
    for place, method in enumerate(methods):
        if not method.has(metric):
            continue
        mean, std = method.mean(metric), method.std(metric)
        axes.barh(place, mean - start, left=start, height=0.68, color=style_of(method.name).color, alpha=0.88)
        if std > 0:
            axes.plot([mean - std, mean + std], [place, place], color=INK, linewidth=0.9)
    titles = [plain(shorten(method.title)) if named else "" for method in methods]
    axes.set_yticks(range(len(methods)), titles)
    if named:
        mark_ours(axes.get_yticklabels(), methods)
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
