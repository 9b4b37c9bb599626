"""Methods × metrics at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import add_axes, mark_ours, new_figure, plain, shorten
from volta.figures.data import Context, MethodValues
from volta.figures.heatmap import draw_heatmap
from volta.figures.names import metric_label, metric_of
from volta.figures.ticks import rank_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def summary_heatmap(context: Context, methods: Sequence[MethodValues], metrics: Sequence[str]) -> Figure:
    """Draw mean values, shaded per column by rank from the worst method (light) to the best (dark)."""
    size = (2.6 + 0.78 * len(metrics), 1.7 + 0.22 * len(methods))
    figure = new_figure(
        "Summary", context, size, "means over seeds; each column shaded by rank, worst (light) to best (dark)"
    )
    (axes,) = add_axes(figure)
    shade = np.full((len(methods), len(metrics)), np.nan)
    texts = [["–"] * len(metrics) for _ in methods]
    for column, metric in enumerate(metrics):
        rows = [row for row, method in enumerate(methods) if method.has(metric)]
        if rows:
            means = [methods[row].mean(metric) for row in rows]
            shade[rows, column] = rank_scale(means, metric_of(metric).higher_is_better)
            for row, mean in zip(rows, means, strict=True):
                texts[row][column] = f"{mean:.3f}" if 0.05 <= max(map(abs, means)) < 100 else f"{mean:.2g}"
    draw_heatmap(axes, shade, texts)
    labels = [plain(shorten(metric_label(metric), 30).replace(" (", "\n(")) for metric in metrics]
    axes.set_xticks(range(len(metrics)), labels, rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(m.title)) for m in methods])
    mark_ours(axes.get_yticklabels(), [m.name for m in methods])
    axes.tick_params(which="both", length=0)
    return figure
