"""Parallel coordinates: every method's profile over the headline metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import RULE, add_axes, add_legend, house_style, method_handle, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues, with_metrics
from volta.figures.names import column_label, metric_label, metric_of
from volta.figures.scales import rank_among, unit_scale
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@house_style()
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
        style, ours = style_of(method.name), method.ours
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
    add_legend(figure, [method_handle(m.name, shorten(m.title), line=True, ours=m.ours) for m in shown])
    return figure


def _data(numbers: GroupNumbers) -> Json:
    metrics = numbers.headline
    compared = with_metrics(numbers.compared_methods, *metrics)
    lines = {}
    for method in with_metrics(numbers.methods, *metrics):
        means = [method.mean(metric) for metric in metrics]
        others = [[m.mean(metric) for m in compared if m is not method] for metric in metrics]
        ranks = [
            rank_among(mean, column, metric_of(metric).higher_is_better)
            for mean, column, metric in zip(means, others, metrics, strict=True)
        ]
        lines[method.name] = {"means": means, "ranks": ranks}
    axes = [column_label(metric) | {"up": metric_of(metric).higher_is_better is not False} for metric in metrics]
    return {"axes": axes, "lines": lines}


PARALLEL_COORDINATES = Chart(
    name="parallel_coordinates",
    title="Profiles over the headline metrics",
    caption="Each axis runs from the worst mean (below) to the best (above) of the methods shown.",
    kind="parallel",
    available=lambda numbers: len(numbers.headline) > 1 and numbers.has(*numbers.headline),
    data=_data,
    prints=(
        PrintVersion(
            "parallel_coordinates",
            lambda numbers: parallel_coordinates(numbers.context, numbers.compared_methods, numbers.headline),
        ),
    ),
    choices=lambda numbers: (Choice("scale", "axes", (("values", "values"), ("ranks", "ranks among the compared"))),),
    wide=True,
    needs="records",
)
