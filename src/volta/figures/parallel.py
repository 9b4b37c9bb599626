"""Parallel coordinates: every method's profile over the headline metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import OURS, RULE, add_axes, add_legend, method_handle, new_figure, plain, shorten
from volta.figures.data import Context, MethodValues, with_metrics
from volta.figures.names import metric_label, metric_of
from volta.figures.style import style_of
from volta.figures.ticks import unit_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def parallel_coordinates(context: Context, methods: Sequence[MethodValues], metrics: Sequence[str]) -> Figure:
    """Draw one line per method across one axis per metric, each axis from the worst value (below) to the best (above).

    Methods without one of the metrics are left out and named in the line beneath.
    """
    shown = with_metrics(methods, *metrics)
    left_out = [m.title for m in methods if m not in shown]
    note = "each axis runs from the worst mean (below) to the best (above)"
    if left_out:
        note += f"; without all metrics: {shorten(', '.join(left_out), 90)}"
    figure = new_figure("Profiles over metrics", context, (7.8, 4.6), note)
    (axes,) = add_axes(figure)
    columns = [[m.mean(metric) for m in shown] for metric in metrics]
    heights = (
        [unit_scale(c, metric_of(k).higher_is_better) for c, k in zip(columns, metrics, strict=True)] if shown else []
    )
    for row, method in enumerate(shown):
        style, ours = style_of(method.name), method.name == OURS
        axes.plot(
            range(len(metrics)),
            [column[row] for column in heights],
            color=style.color,
            linestyle=style.line,
            linewidth=2.6 if ours else 1.1,
            marker=style.marker,
            markersize=6 if ours else 3.5,
            alpha=1.0 if ours else 0.8,
            zorder=4 if ours else 2,
            label=plain(method.title),
        )
    for place, (metric, column) in enumerate(zip(metrics, columns, strict=True)):
        axes.axvline(place, color=RULE, linewidth=1, zorder=1)
        if column:
            ends = sorted((min(column), max(column)), reverse=metric_of(metric).higher_is_better is False)
            axes.text(place, -0.055, f"{ends[0]:.3g}", ha="center", va="top", fontsize=7)
            axes.text(place, 1.045, f"{ends[1]:.3g}", ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(metrics)), [plain(metric_label(metric).replace(" (", "\n(")) for metric in metrics])
    axes.tick_params(axis="x", length=0, pad=4)
    axes.set_yticks([])
    axes.set_ylim(-0.14, 1.13)
    axes.spines[["left", "bottom"]].set_visible(False)
    add_legend(figure, [method_handle(m.name, shorten(m.title), line=True) for m in shown])
    return figure
