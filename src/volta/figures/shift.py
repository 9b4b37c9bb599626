"""Charts of corruption: heat map, severity curves, contact sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import EvalSet
from volta.figures.chart_data import Chart, Choice, Context, GroupNumbers, Json, MethodValues, PrintVersion
from volta.figures.draw import (
    MUTED,
    Width,
    add_axes,
    base_style,
    draw_heatmap,
    leading,
    metric_choice,
    name_methods,
    new_figure,
    plain,
    plot_axes,
    shorten,
)
from volta.figures.style import as_printed, metric_label, metric_of, set_name, style_of, unit_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_COLUMNS = 30
"""Beyond this many shifted sets a heatmap shows each corruption's mean over severities."""
PRINT_DIGITS = 2
SHIFT_METRICS = ("accuracy", "ece", "nll", "brier")


@base_style()
def corruption_heatmap(numbers: GroupNumbers, metric: str) -> Figure:
    """Draw the mean of ``metric`` per method and shift, shaded over the whole grid.

    One scale for all cells shows which shifts are hard as well as who bears them.
    """
    titles = numbers.network_titles
    methods = [replace(m, title=titles[m.name]) for m in _by_shift(numbers, metric) if m.name in titles]
    columns = _columns(methods)
    size: tuple[Width, float] = ("page", 1.1 + 0.16 * len(methods))
    note = "means over seeds; shaded from worst (light) to best (dark) over the whole grid"
    note += "; means over severities" if len(numbers.shift_sets) > MAX_COLUMNS else ""
    figure = new_figure(f"Under shift: {metric_label(metric)}", numbers.context, size, note)
    (axes,) = add_axes(figure)
    places = [(row, column) for row, m in enumerate(methods) for column, name in enumerate(columns) if m.has(name)]
    means = [methods[row].mean(columns[column]) for row, column in places]
    tones = unit_scale(as_printed(means, PRINT_DIGITS), metric_of(metric).higher_is_better) if means else []
    texts = [f"{m:.{PRINT_DIGITS}f}".removeprefix("0") if abs(m) < 10 else f"{m:.3g}" for m in means]
    labels = [plain(shorten(set_name(name), 26)) for name in columns]
    cells = dict(zip(places, zip(tones, texts, strict=True), strict=True))
    draw_heatmap(axes, methods, labels, cells, size=5.5 if len(columns) <= 20 else 4.8)
    return figure


def shift_values(method: MethodValues, metric: str, shift_sets: Sequence[str]) -> dict[str, list[float]]:
    """Return a method's per-seed values by shifted set; beyond a limit by corruption, averaged over severities."""
    by_set = {name: list(method.values.get(f"{metric}@{name}", ())) for name in shift_sets}
    if len(shift_sets) <= MAX_COLUMNS:
        return {name: values for name, values in by_set.items() if values}
    grouped: dict[str, list[list[float]]] = {}
    for name, values in by_set.items():
        if values:
            corruption = EvalSet(f"shift:{EvalSet(name).name}")
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
        PrintVersion("corruption_heatmap_accuracy", partial(corruption_heatmap, metric="accuracy")),
        PrintVersion("corruption_heatmap_ece", partial(corruption_heatmap, metric="ece"), "ECE"),
    ),
    choices=lambda numbers: (
        metric_choice(_metrics(numbers)),
        Choice("order", "order by", (("", "plan"), ("mean", "mean over shifts"))),
    ),
    wide=True,
    shared=True,
)


N_SEVERITIES = 5
TILE_INCHES = 0.46


@base_style()
def corruption_sheet(context: Context, sheet: NDArray[np.uint8], names: Sequence[str]) -> Figure:
    """Draw a contact sheet with its rows and columns named, in two halves side by side.

    Parameters
    ----------
    context
        What is written beneath.
    sheet
        (rows · (h + 1) − 1, 5 · (w + 1) − 1, 3) tiles with 1-pixel gaps.
    names
        The rows' names.
    """
    height = (sheet.shape[0] + 1) // len(names)
    width = (sheet.shape[1] + 1) // N_SEVERITIES
    half = -(-len(names) // 2)
    size: tuple[Width, float] = ("page", 0.3 + half * TILE_INCHES)
    note = "the first test image; columns: severities 1 to 5"
    figure = new_figure("What the corruptions look like", context, size, note)
    canvas = np.full((2 * half * height, *sheet.shape[1:]), 255, dtype=np.uint8)
    canvas[: len(sheet)] = sheet
    for axes, first in zip(add_axes(figure, 1, 2), (0, half), strict=True):
        shown = names[first : first + half]
        axes.imshow(canvas[first * height : (first + half) * height], interpolation="nearest")
        axes.set_xticks([(column + 0.5) * width for column in range(N_SEVERITIES)], list("12345"))
        axes.set_yticks(
            [(row + 0.5) * height for row in range(len(shown))], [plain(name.replace("_", " ")) for name in shown]
        )
        axes.xaxis.tick_top()
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
    return figure


ALL = "(all)"
Curve = Mapping[int, float]
"""Severity → mean over seeds; the clean test rows are severity 0."""


@base_style()
def severity_curves(numbers: GroupNumbers) -> Figure:
    """Draw the first metric against severity, mean over corruptions and seeds, one line per method."""
    metric, sets = _severity_curves_metrics(numbers)[0], numbers.shift_sets
    label, note = metric_label(metric), "mean over corruptions and seeds; severity 0: clean test samples"
    figure, axes = plot_axes(f"Over severity: {label}", numbers.context, ("column", 2.9), note, "severity", label)
    found = [(m, curve) for m in numbers.compared_networks if (curve := curves_of(m, metric, sets).get(ALL))]
    sign = -1 if metric_of(metric).higher_is_better is not False else 1
    methods = [m for m, _ in sorted(found, key=lambda item: sign * float(np.mean(list(item[1].values()))))]
    named = leading(methods)
    for method, curve in found:
        style, ours = style_of(method.name), method.ours
        look: dict[str, Any] = {"color": MUTED, "linewidth": 0.6, "zorder": 2}
        if method in named:
            look = {"color": style.color, "linestyle": style.line, "marker": style.marker, "markersize": 3.5}
            look |= {"linewidth": 1.8 if ours else 1.1, "zorder": 4 if ours else 3}
        axes.plot(list(curve), list(curve.values()), **look)
    axes.set_xticks(sorted({severity for _, curve in found for severity in curve}))
    name_methods(figure, named, line=True, n_others=len(methods) - len(named))
    return figure


def curves_of(method: MethodValues, metric: str, sets: Sequence[str]) -> dict[str, Curve]:
    """Return a method's curve for each corruption with two severities or more, and under "(all)" their mean.

    The mean is over the corruptions that have every severity, so that no step of it comes from other corruptions.
    """
    found: dict[str, dict[int, float]] = {}
    for name in sets:
        parsed = EvalSet(name)
        if parsed.severity is not None and method.has(f"{metric}@{name}"):
            found.setdefault(parsed.name, {})[parsed.severity] = method.mean(f"{metric}@{name}")
    clean = {0: method.mean(metric)} if method.has(metric) else {}
    curves: dict[str, Curve] = {name: clean | dict(sorted(by.items())) for name, by in found.items() if len(by) > 1}
    severities = sorted({severity for curve in curves.values() for severity in curve})
    complete = [curve for curve in curves.values() if len(curve) == len(severities)]
    if complete:
        curves[ALL] = {one: float(np.mean([curve[one] for curve in complete])) for one in severities}
    return curves


def _severity_curves_metrics(numbers: GroupNumbers) -> list[str]:
    return [
        metric
        for metric in SHIFT_METRICS
        if any(curves_of(method, metric, numbers.shift_sets) for method in numbers.compared_methods)
    ]


def _severity_curves_data(numbers: GroupNumbers) -> Json:
    tables: dict[str, dict[str, dict[str, list[tuple[int, float]]]]] = {}
    for metric in _severity_curves_metrics(numbers):
        for method in numbers.methods:
            for name, curve in curves_of(method, metric, numbers.shift_sets).items():
                tables.setdefault(metric, {}).setdefault(name, {})[method.name] = list(curve.items())
    return {"labels": {metric: metric_label(metric) for metric in tables}, "metrics": tables}


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    metrics = _severity_curves_metrics(numbers)
    names = dict.fromkeys(
        name for m in numbers.compared_methods for name in curves_of(m, metrics[0], numbers.shift_sets) if name != ALL
    )
    corruptions = ((ALL, "mean over all"), *((name, name.replace("_", " ")) for name in names))
    return metric_choice(metrics), Choice("corruption", "corruption", corruptions)


SEVERITY_CURVES = Chart(
    name="severity_curves",
    title="Over severity",
    caption="From the clean test samples (0) to the strongest corruption; means over seeds.",
    kind="severity",
    available=lambda numbers: bool(_severity_curves_metrics(numbers)),
    data=_severity_curves_data,
    prints=(PrintVersion("severity_curves", severity_curves),),
    choices=_choices,
    shared=True,
)
