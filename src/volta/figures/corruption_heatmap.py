"""Methods × shifted test sets for one metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import add_axes, mark_ours, new_figure, plain, shorten
from volta.figures.data import Context, MethodValues
from volta.figures.heatmap import draw_heatmap
from volta.figures.names import metric_label, metric_of, set_name
from volta.figures.ticks import unit_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def corruption_heatmap(
    context: Context, methods: Sequence[MethodValues], metric: str, columns: Sequence[str], note: str = ""
) -> Figure:
    """Draw the mean of ``metric`` per method and shift (values named by column), shaded over the whole grid.

    One scale for all cells shows which shifts are hard as well as who bears them.
    """
    size = (2.6 + 0.45 * len(columns), 1.9 + 0.22 * len(methods))
    parts = ["means over seeds; shaded from worst (light) to best (dark) over the whole grid", note]
    title = f"Under shift: {metric_label(metric)}"
    figure = new_figure(title, context, size, "; ".join(part for part in parts if part))
    (axes,) = add_axes(figure)
    places = [(row, column) for row, m in enumerate(methods) for column, name in enumerate(columns) if m.has(name)]
    shade = np.full((len(methods), len(columns)), np.nan)
    texts = [["–"] * len(columns) for _ in methods]
    means = [methods[row].mean(columns[column]) for row, column in places]
    if means:
        for (row, column), mean, tone in zip(
            places, means, unit_scale(means, metric_of(metric).higher_is_better), strict=True
        ):
            shade[row, column] = tone
            texts[row][column] = f"{mean:.2f}".removeprefix("0") if abs(mean) < 10 else f"{mean:.3g}"
    draw_heatmap(axes, shade, texts, size=6.5)
    labels = [plain(shorten(set_name(name), 26)) for name in columns]
    axes.set_xticks(range(len(columns)), labels, rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(m.title)) for m in methods])
    mark_ours(axes.get_yticklabels(), [m.name for m in methods])
    axes.tick_params(which="both", length=0)
    return figure
