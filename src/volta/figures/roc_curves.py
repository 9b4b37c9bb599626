"""ROC curves of OOD detection: OOD rows caught against ID rows called OOD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT
from volta.figures.chart import Chart, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodCurve
from volta.figures.names import metric_name
from volta.figures.ood_lines import draw_lines, first_set, has_lines, lines_json, set_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("false alarms: share of ID rows called OOD", "share of OOD rows caught ↑")


def roc_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one ROC curve per method on one OOD set, with chance as a thin line."""
    figure, axes = draw_lines("ROC of OOD detection", context, methods, where, LABELS, metric_name("auroc"))
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
    return figure


def _print(numbers: GroupNumbers) -> Figure:
    where, curves = first_set(numbers, numbers.roc)
    return roc_curves(numbers.context, curves, where)


ROC_CURVES = Chart(
    name="roc_curves",
    title="ROC of OOD detection",
    caption="OOD rows caught against ID rows called OOD, over all thresholds; mean over seeds.",
    kind="ood_lines",
    available=lambda numbers: has_lines(numbers, numbers.roc),
    data=lambda numbers: lines_json(numbers, numbers.roc, LABELS, metric_name("auroc"), diagonal=True),
    prints=(PrintVersion("roc_curves", _print),),
    choices=lambda numbers: (set_choice(numbers, numbers.roc),),
    needs_tests=False,
)
