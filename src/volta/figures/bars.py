"""Horizontal bars, one per method, in each method's colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import INK, mark_ours, plain, shorten
from volta.figures.data import MethodValues
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
        mark_ours(axes.get_yticklabels(), [method.name for method in methods])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.locator_params(axis="x", nbins=4)
