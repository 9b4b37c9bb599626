"""ROC and precision-recall curves of OOD detection on a common grid, from stored scores; OOD rows are positive."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from volta.figures import MethodCurve
from volta.figures.names import metric_key
from volta.metrics import RocCurve, roc_curve
from volta.report.run import Group

Floats = NDArray[np.float64]

POINTS = 61
# Squares: most of what tells detectors apart happens at few false alarms.
ROC_GRID: Floats = np.linspace(0, 1, POINTS) ** 2
RECALL_GRID: Floats = np.linspace(0, 1, POINTS)


def true_positives_at(curve: RocCurve, grid: Floats = ROC_GRID) -> Floats:
    """Return the share of OOD rows called OOD where ``grid`` shares of the ID rows are, (n_points,).

    >>> curve = roc_curve(np.array([0.1, 0.4]), np.array([0.4, 0.9]))
    >>> true_positives_at(curve, np.array([0.0, 0.25, 1.0]))
    array([0.5 , 0.75, 1.  ])
    """
    last = np.append(curve.fpr[1:] != curve.fpr[:-1], True)
    return np.asarray(np.interp(grid, curve.fpr[last], curve.tpr[last]))


def precision_at(curve: RocCurve, n_id: int, n_ood: int, grid: Floats = RECALL_GRID) -> Floats:
    """Return the precision where at least ``grid`` shares of the OOD rows are called OOD, (n_points,).

    As in average precision, the precision of a threshold holds back to the recall of the stricter one.

    >>> curve = roc_curve(np.array([0.1, 0.4, 0.4]), np.array([0.4, 0.9]))
    >>> precision_at(curve, 3, 2, np.array([0.0, 0.5, 1.0]))
    array([1. , 1. , 0.5])
    """
    called = curve.tpr > 0
    recall, caught = curve.tpr[called], curve.tpr[called] * n_ood
    precision = caught / (caught + curve.fpr[called] * n_id)
    return np.asarray(precision[np.searchsorted(recall, np.minimum(grid, recall[-1]), side="left")])


class OodCurves:
    """ROC and precision-recall curves by OOD set and method, gathered one cell at a time."""

    def __init__(self) -> None:
        self._roc: dict[str, dict[str, list[Floats]]] = {}
        self._precision: dict[str, dict[str, list[Floats]]] = {}

    def add(self, method: str, scores: Mapping[str, Floats]) -> None:
        """Take up the scores of one cell: set → (n,), the test rows being "test"."""
        for name, outside in scores.items():
            if name != "test" and "test" in scores:
                curve = roc_curve(scores["test"], outside)
                precision = precision_at(curve, len(scores["test"]), len(outside))
                self._roc.setdefault(name, {}).setdefault(method, []).append(true_positives_at(curve))
                self._precision.setdefault(name, {}).setdefault(method, []).append(precision)

    def roc(self, group: Group) -> dict[str, dict[str, MethodCurve]]:
        """Return the ROC curves, mean over seeds."""
        return _curves(group, self._roc, ROC_GRID, "auroc")

    def precision_recall(self, group: Group) -> dict[str, dict[str, MethodCurve]]:
        """Return the precision-recall curves, mean over seeds."""
        return _curves(group, self._precision, RECALL_GRID, "aupr_out")


def _curves(
    group: Group, found: Mapping[str, Mapping[str, list[Floats]]], grid: Floats, area: str
) -> dict[str, dict[str, MethodCurve]]:
    return {
        name: {
            method: MethodCurve(
                method, group.title(method), grid, np.mean(runs, axis=0), np.min(runs, axis=0), np.max(runs, axis=0),
                float(np.mean(group.values(method, metric_key(area, name)))), group.is_ours(method),
            )
            for method, runs in by_method.items()
            if group.values(method, metric_key(area, name))
        }
        for name, by_method in found.items()
    }  # fmt: skip
