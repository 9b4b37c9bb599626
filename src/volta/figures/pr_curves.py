"""Precision-recall curves of OOD detection: how many alarms are true against how many OOD rows are caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.data import Context, MethodCurve
from volta.figures.names import metric_name
from volta.figures.ood_lines import draw_lines, lines_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("recall: share of OOD rows caught", "precision: share of true alarms ↑")


def pr_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one precision-recall curve per method on one OOD set, OOD rows being the positives."""
    title = "Precision and recall of OOD detection"
    return draw_lines(title, context, methods, where, LABELS, metric_name("aupr_out"))[0]


PR_CURVES = lines_chart(
    "pr_curves",
    "Precision and recall of OOD detection",
    "True alarms among all alarms against OOD rows caught; mean over seeds. Precision depends on how many rows of each "
    "kind there are.",
    LABELS,
    "aupr_out",
    lambda numbers: numbers.precision_recall,
    pr_curves,
)
