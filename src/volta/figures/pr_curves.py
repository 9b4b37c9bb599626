"""Precision-recall curves of OOD detection: how many alarms are true against how many OOD rows are caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.chart import Chart, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodCurve
from volta.figures.names import metric_name
from volta.figures.ood_lines import draw_lines, first_set, has_lines, lines_json, set_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("recall: share of OOD rows caught", "precision: share of true alarms ↑")


def pr_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one precision-recall curve per method on one OOD set, OOD rows being the positives."""
    title = "Precision and recall of OOD detection"
    return draw_lines(title, context, methods, where, LABELS, metric_name("aupr_out"))[0]


def _print(numbers: GroupNumbers) -> Figure:
    where, curves = first_set(numbers, numbers.precision_recall)
    return pr_curves(numbers.context, curves, where)


PR_CURVES = Chart(
    name="pr_curves",
    title="Precision and recall of OOD detection",
    caption="True alarms among all alarms against OOD rows caught; mean over seeds. Precision depends on how many rows "
    "of each kind there are.",
    kind="ood_lines",
    available=lambda numbers: has_lines(numbers, numbers.precision_recall),
    data=lambda numbers: lines_json(numbers, numbers.precision_recall, LABELS, metric_name("aupr_out")),
    prints=(PrintVersion("pr_curves", _print),),
    choices=lambda numbers: (set_choice(numbers, numbers.precision_recall),),
    needs_tests=False,
)
