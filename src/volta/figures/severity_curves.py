"""Corruption curves: a metric from the clean test rows to severity 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.bench.eval_set import EvalSet
from volta.figures.bars import metric_choice
from volta.figures.canvas import add_axes, add_legend, house_style, method_handle, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.corruption_heatmap import SHIFT_METRICS
from volta.figures.data import Context, GroupNumbers, MethodValues
from volta.figures.names import metric_label
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "(all)"
Curve = Mapping[int, float]
"""Severity → mean over seeds; the clean test rows are severity 0."""


@house_style()
def severity_curves(context: Context, methods: Sequence[MethodValues], sets: Sequence[str], metric: str) -> Figure:
    """Draw a metric against severity, mean over corruptions and seeds, one line per method."""
    note = "mean over corruptions and seeds; severity 0: clean test rows"
    figure = new_figure(f"Over severity: {metric_label(metric)}", context, (7.4, 4.4), note)
    (axes,) = add_axes(figure)
    shown = [(method, curve) for method in methods if (curve := curves_of(method, metric, sets).get(ALL))]
    for method, curve in shown:
        style, ours = style_of(method.name), method.ours
        axes.plot(
            list(curve), list(curve.values()), color=style.color, linestyle=style.line, marker=style.marker,
            markersize=4, linewidth=2.4 if ours else 1.1, zorder=4 if ours else 2, label=plain(method.title),
        )  # fmt: skip
    axes.set_xticks(sorted({severity for _, curve in shown for severity in curve}))
    axes.set_xlabel("severity")
    axes.set_ylabel(metric_label(metric))
    axes.grid(True)
    add_legend(figure, [method_handle(m.name, shorten(m.title, 26), line=True, ours=m.ours) for m, _ in shown])
    return figure


def curves_of(method: MethodValues, metric: str, sets: Sequence[str]) -> dict[str, Curve]:
    """Return a method's curve for each corruption with two severities or more, and under "(all)" their mean.

    The mean is over the corruptions that have every severity, so that no step of it comes from other corruptions.
    """
    found: dict[str, dict[int, float]] = {}
    for name in sets:
        parsed = EvalSet.parse(name)
        if parsed.severity is not None and method.has(f"{metric}@{name}"):
            found.setdefault(parsed.name, {})[parsed.severity] = method.mean(f"{metric}@{name}")
    clean = {0: method.mean(metric)} if method.has(metric) else {}
    curves: dict[str, Curve] = {name: clean | dict(sorted(by.items())) for name, by in found.items() if len(by) > 1}
    severities = sorted({severity for curve in curves.values() for severity in curve})
    complete = [curve for curve in curves.values() if len(curve) == len(severities)]
    if complete:
        curves[ALL] = {one: float(np.mean([curve[one] for curve in complete])) for one in severities}
    return curves


def _metrics(numbers: GroupNumbers) -> list[str]:
    return [
        metric
        for metric in SHIFT_METRICS
        if any(curves_of(method, metric, numbers.shift_sets) for method in numbers.compared_methods)
    ]


def _data(numbers: GroupNumbers) -> Json:
    tables: dict[str, dict[str, dict[str, list[tuple[int, float]]]]] = {}
    for metric in _metrics(numbers):
        for method in numbers.methods:
            for name, curve in curves_of(method, metric, numbers.shift_sets).items():
                tables.setdefault(metric, {}).setdefault(name, {})[method.name] = list(curve.items())
    return {"labels": {metric: metric_label(metric) for metric in tables}, "metrics": tables}


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    metrics = _metrics(numbers)
    names = dict.fromkeys(
        name for m in numbers.compared_methods for name in curves_of(m, metrics[0], numbers.shift_sets) if name != ALL
    )
    corruptions = ((ALL, "mean over all"), *((name, name.replace("_", " ")) for name in names))
    return metric_choice(metrics), Choice("corruption", "corruption", corruptions)


def _print(numbers: GroupNumbers) -> Figure:
    return severity_curves(numbers.context, numbers.compared_networks, numbers.shift_sets, _metrics(numbers)[0])


SEVERITY_CURVES = Chart(
    name="severity_curves",
    title="Over severity",
    caption="From the clean test rows (0) to the strongest corruption; means over seeds.",
    kind="severity",
    available=lambda numbers: bool(_metrics(numbers)),
    data=_data,
    prints=(PrintVersion("severity_curves", _print),),
    choices=_choices,
    shared=True,
    needs="records",
)
