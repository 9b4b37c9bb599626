"""Methods × shifted test sets for one metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from volta.bench.records import EvalSet
from volta.figures.bars import metric_choice
from volta.figures.canvas import add_axes, house_style, mark_ours, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues
from volta.figures.heatmap import draw_heatmap
from volta.figures.names import metric_label, metric_of, set_name
from volta.figures.scales import as_printed, unit_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_COLUMNS = 30
"""Beyond this many shifted sets a heatmap shows each corruption's mean over severities."""
PRINT_DIGITS = 2
SHIFT_METRICS = ("accuracy", "ece", "nll", "brier")


@house_style()
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
            places, means, unit_scale(as_printed(means, PRINT_DIGITS), metric_of(metric).higher_is_better), strict=True
        ):
            shade[row, column] = tone
            texts[row][column] = f"{mean:.{PRINT_DIGITS}f}".removeprefix("0") if abs(mean) < 10 else f"{mean:.3g}"
    draw_heatmap(axes, shade, texts, size=6.5)
    labels = [plain(shorten(set_name(name), 26)) for name in columns]
    axes.set_xticks(range(len(columns)), labels, rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(m.title)) for m in methods])
    mark_ours(axes.get_yticklabels(), methods)
    return figure


def shift_values(method: MethodValues, metric: str, shift_sets: Sequence[str]) -> dict[str, list[float]]:
    """Return a method's per-seed values by shifted set; beyond a limit by corruption, averaged over severities."""
    by_set = {name: list(method.values.get(f"{metric}@{name}", ())) for name in shift_sets}
    if len(shift_sets) <= MAX_COLUMNS:
        return {name: values for name, values in by_set.items() if values}
    grouped: dict[str, list[list[float]]] = {}
    for name, values in by_set.items():
        if values:
            corruption = EvalSet("shift", EvalSet.parse(name).name)
            grouped.setdefault(str(corruption), []).append(values)
    return {
        name: [float(value) for value in np.mean(parts, axis=0)]
        for name, parts in grouped.items()
        if len({len(part) for part in parts}) == 1
    }


def _by_shift(numbers: GroupNumbers, metric: str) -> list[MethodValues]:
    """Return every method with its values named by shifted set."""
    return [replace(m, values=shift_values(m, metric, numbers.shift_sets), seeds={}) for m in numbers.methods]


def _columns(methods: Sequence[MethodValues]) -> list[str]:
    return list(dict.fromkeys(name for method in methods for name in method.values))


def _print(metric: str) -> Callable[[GroupNumbers], Figure]:
    def draw(numbers: GroupNumbers) -> Figure:
        titles = numbers.network_titles
        rows = [replace(m, title=titles[m.name]) for m in _by_shift(numbers, metric) if m.name in titles]
        note = "means over severities" if len(numbers.shift_sets) > MAX_COLUMNS else ""
        return corruption_heatmap(numbers.context, rows, metric, _columns(rows), note)

    return draw


def _metrics(numbers: GroupNumbers) -> list[str]:
    return [metric for metric in SHIFT_METRICS if _columns(_by_shift(numbers, metric))]


def _data(numbers: GroupNumbers) -> Json:
    return {"label": "Shift heatmap", "tables": {metric: _table(numbers, metric) for metric in _metrics(numbers)}}


def _table(numbers: GroupNumbers, metric: str) -> Json:
    methods = [method for method in _by_shift(numbers, metric) if method.values]
    columns, up = _columns(methods), metric_of(metric).higher_is_better
    digits = 2 if len(columns) > 12 else 3
    among = as_printed([m.mean(name) for m in methods if m.name in numbers.compared for name in m.values], digits)
    rows: dict[str, list[Json | None]] = {}
    for method in methods:
        means = {name: method.mean(name) for name in method.values}
        shares = dict(zip(means, unit_scale(as_printed(list(means.values()), digits), up, among or None), strict=True))
        rows[method.name] = [
            {"mean": means[name], "share": shares[name]} if name in means else None for name in columns
        ]
    over_shifts = {m.name: float(np.mean([m.mean(name) for name in m.values])) for m in methods}
    return {
        "digits": digits,
        "columns": [
            {"label": set_name(name), "where": "", "tip": f"{set_name(name)}: {metric_label(metric)}"}
            for name in columns
        ],
        "rows": rows,
        "orders": {"mean": {"up": up is not False, "values": over_shifts}},
    }


CORRUPTION_HEATMAP = Chart(
    name="corruption_heatmap",
    title="Under shift",
    caption="Means over seeds; one scale for the whole grid.",
    kind="grid",
    available=lambda numbers: bool(_metrics(numbers)),
    data=_data,
    prints=(
        PrintVersion("corruption_heatmap_accuracy", _print("accuracy")),
        PrintVersion("corruption_heatmap_ece", _print("ece"), "ECE"),
    ),
    choices=lambda numbers: (
        metric_choice(_metrics(numbers)),
        Choice("order", "order by", (("", "plan"), ("mean", "mean over shifts"))),
    ),
    wide=True,
    shared=True,
    needs="records",
)
