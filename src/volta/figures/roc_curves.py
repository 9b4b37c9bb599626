"""ROC curves of OOD detection: OOD rows caught against ID rows called OOD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT, house_style
from volta.figures.data import Context, MethodCurve
from volta.figures.names import metric_name
from volta.figures.ood_lines import draw_lines, lines_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("false alarms: share of ID rows called OOD", "share of OOD rows caught ↑")


@house_style()
def roc_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one ROC curve per method on one OOD set, with chance as a thin line."""
    figure, axes = draw_lines("ROC of OOD detection", context, methods, where, LABELS, metric_name("auroc"))
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
    return figure


ROC_CURVES = lines_chart(
    "roc_curves",
    "ROC of OOD detection",
    "OOD rows caught against ID rows called OOD, over all thresholds; mean over seeds.",
    LABELS,
    "auroc",
    lambda numbers: numbers.roc,
    roc_curves,
    diagonal=True,
)
