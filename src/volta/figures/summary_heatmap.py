"""Methods × metrics at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.bars import cell_json
from volta.figures.canvas import add_axes, house_style, mark_ours, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues, with_metrics
from volta.figures.heatmap import draw_heatmap
from volta.figures.names import column_label, metric_label, metric_of
from volta.figures.scales import as_printed, rank_among, rank_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 3


@house_style()
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
            shade[rows, column] = rank_scale(as_printed(means, DIGITS), metric_of(metric).higher_is_better)
            for row, mean in zip(rows, means, strict=True):
                texts[row][column] = f"{mean:.{DIGITS}f}" if 0.05 <= max(map(abs, means)) < 100 else f"{mean:.2g}"
    draw_heatmap(axes, shade, texts)
    labels = [plain(shorten(metric_label(metric), 30).replace(" (", "\n(")) for metric in metrics]
    axes.set_xticks(range(len(metrics)), labels, rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(m.title)) for m in methods])
    mark_ours(axes.get_yticklabels(), methods)
    return figure


def summary_metrics(numbers: GroupNumbers) -> list[str]:
    """Return the columns: the headline metrics and AUROC on every OOD set."""
    keys = [*numbers.headline, "ece_equal_mass", "risk_at_80", *(f"auroc@{name}" for name in numbers.ood_sets)]
    return [key for key in dict.fromkeys(keys) if numbers.has(key)]


def _data(numbers: GroupNumbers) -> Json:
    metrics = summary_metrics(numbers)
    rows: dict[str, list[Json | None]] = {method.name: [] for method in numbers.methods}
    orders = {}
    for metric in metrics:
        up = metric_of(metric).higher_is_better
        orders[metric] = {
            "up": up is not False,
            "values": {method.name: method.mean(metric) for method in with_metrics(numbers.methods, metric)},
        }
        known = with_metrics(numbers.methods, metric)
        printed = dict(zip((m.name for m in known), as_printed([m.mean(metric) for m in known], DIGITS), strict=True))
        for method in numbers.methods:
            if method.name not in printed:
                rows[method.name].append(None)
                continue
            others = [printed[name] for name in numbers.compared if name in printed and name != method.name]
            cell = cell_json(method, metric)
            rows[method.name].append({**cell, "share": rank_among(printed[method.name], others, up)})
    columns = [column_label(metric) | {"tip": metric_label(metric)} for metric in metrics]
    table = {"digits": DIGITS, "columns": columns, "rows": rows, "orders": orders}
    return {"label": "Summary heatmap", "tables": {"": table}}


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    named = ((metric, metric_label(metric)) for metric in summary_metrics(numbers))
    return (Choice("order", "order by", (("", "plan"), *named)),)


SUMMARY_HEATMAP = Chart(
    name="summary_heatmap",
    title="Summary",
    caption="Means over seeds; each column shaded by rank among the compared methods.",
    kind="grid",
    available=lambda numbers: bool(summary_metrics(numbers)),
    data=_data,
    prints=(
        PrintVersion(
            "summary_heatmap",
            lambda numbers: summary_heatmap(numbers.context, numbers.compared_methods, summary_metrics(numbers)),
        ),
    ),
    choices=_choices,
    wide=True,
    needs="records",
)
