"""Reliability bins, risk-coverage, ROC and PR curves of figures, from stored predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import VAL, EvalSet
from volta.bench.records import CellRecord
from volta.core.types import Array
from volta.figures import GroupNumbers, MethodBins, MethodCurve, ScoreHistogram
from volta.figures.style import metric_key, split_key
from volta.metrics import RocCurve, reliability_bins, risk_coverage_curve, roc_curve
from volta.metrics.bins import N_BINS
from volta.report.run import Group
from volta.stats.bootstrap import RowsOfCells, rows_of_cell

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


CURVE_POINTS = 120
HISTOGRAM_BINS = 40
LONG_TAIL = 12.0
"""Where scores reach this many times the spread of the test rows' scores, bins follow an inverse hyperbolic sine."""
LARGEST_SCORE = 1e300


class CurveCollector:
    """What charts show of a group's stored predictions, gathered one cell at a time."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._bins: dict[str, dict[str, Floats]] = {}
        # By the metric that is the area beneath the curve, then by method: one curve per seed.
        self._curves: dict[str, dict[str, list[Floats]]] = {}
        self._histograms: dict[tuple[str, int], ScoreHistogram] = {}
        self._coverage: Floats = np.zeros(0)

    def add(self, record: CellRecord, arrays: Mapping[str, Array]) -> None:
        """Take up the predictions of one cell."""
        method, found = record.cell.method, {}
        for name in [key.removesuffix("/probs") for key in arrays if key.endswith("/probs")]:
            if name != VAL:
                by_method = self._bins.setdefault(name, {})
                sums = bin_sums(arrays[f"{name}/probs"], arrays[f"{name}/labels"])
                by_method[method] = by_method.get(method, 0.0) + sums
        if "test/probs" in arrays:
            correct = arrays["test/probs"].argmax(axis=1) == arrays["test/labels"]
            curve = risk_coverage_curve(arrays["test/uncertainty"], correct)
            if not len(self._coverage):
                self._coverage = np.linspace(curve.coverage[0], 1, min(CURVE_POINTS, len(correct)))
            found["aurc"] = np.interp(self._coverage, curve.coverage, curve.risk)
            found["eaurc"] = found["aurc"] - perfect_risk(self._coverage, float(1 - correct.mean()))
        scores = {
            key.removesuffix("/ood_score"): np.asarray(values, dtype=np.float64)
            for key, values in arrays.items()
            if key.endswith("/ood_score") and len(values)
        }
        outside = [name for name in scores if name != "test"]
        if "test" in scores and outside:
            for name in outside:
                roc = roc_curve(scores["test"], scores[name])
                found[metric_key("auroc", name)] = true_positives_at(roc)
                precision = precision_at(roc, len(scores["test"]), len(scores[name]))
                found[metric_key("aupr_out", name)] = precision
            self._histograms[method, record.cell.seed] = _histogram(self._group, method, scores, record)
        for area, values in found.items():
            self._curves.setdefault(area, {}).setdefault(method, []).append(values)

    def numbers(self) -> GroupNumbers:
        """Return what the charts of the group may need, from its values and from every cell taken up."""
        group = self._group
        return GroupNumbers(
            context=group.context,
            methods=tuple(group.method_values.values()),
            compared=group.compared,
            headline=group.headline,
            ood_sets=group.near_first,
            near_sets=group.near_sets,
            shift_sets=group.sets("shift"),
            bins={
                name: {method: _pooled_bins(group, method, name, sums) for method, sums in by_method.items()}
                for name, by_method in self._bins.items()
            },
            curves=self._mean_curves("aurc", self._coverage),
            excess=self._mean_curves("eaurc", self._coverage),
            histograms=self._histograms,
            roc=self._by_set("auroc", ROC_GRID),
            precision_recall=self._by_set("aupr_out", RECALL_GRID),
            trainings={key: record.trainings for key, record in group.records.items() if record.trainings},
            networks=group.networks,
        )

    def _by_set(self, metric: str, grid: Floats) -> dict[str, dict[str, MethodCurve]]:
        areas = [area for area in self._curves if area.startswith(f"{metric}@")]
        return {split_key(area)[1]: self._mean_curves(area, grid) for area in areas}

    def _mean_curves(self, area: str, grid: Floats) -> dict[str, MethodCurve]:
        group = self._group
        return {
            method: MethodCurve(
                method, group.title(method), grid, np.mean(runs, axis=0), np.min(runs, axis=0), np.max(runs, axis=0),
                float(np.mean(values)), group.is_ours(method),
            )
            for method, runs in self._curves.get(area, {}).items()
            if (values := group.values(method, area))
        }  # fmt: skip


def perfect_risk(coverage: Floats, error: float) -> Floats:
    """Return the risk of an order that keeps every right row before any wrong one: max(0, 1 − (1 − error)/coverage).

    >>> perfect_risk(np.array([0.5, 0.8, 1.0]), 0.2).tolist()
    [0.0, 0.0, 0.2]
    """
    return np.maximum(0.0, np.round(1 - (1 - error) / coverage, 12))


def bin_sums(probs: Array, labels: Array) -> Floats:
    """Return, for each bin of ECE, how many rows it has, and their summed confidences and accuracies, (3, n_bins)."""
    bins = reliability_bins(probs, labels.astype(np.int64))
    place = np.rint(bins.upper * N_BINS).astype(np.int64) - 1
    sums = np.zeros((3, N_BINS))
    sums[:, place] = bins.count, bins.count * bins.confidence, bins.count * bins.accuracy
    return sums


def method_bins(name: str, title: str, sums: Floats, ece: float, **more: Any) -> MethodBins:
    """Return the bins of a method from :func:`bin_sums`, of one seed or added over seeds."""
    filled = np.maximum(sums[0], 1)
    return MethodBins(name, title, sums[0].astype(np.int64), sums[1] / filled, sums[2] / filled, ece, **more)


def _pooled_bins(group: Group, method: str, name: str, sums: Floats) -> MethodBins:
    ece, expected = (group.values(method, metric_key(metric, name)) for metric in ("ece", "ece_expected"))
    return method_bins(
        method, group.title(method), sums, float(np.mean(ece)) if ece else float("nan"), ours=group.is_ours(method),
        expected=float(np.mean(expected)) if expected else None, n_seeds=max(1, len(ece)),
    )  # fmt: skip


def _histogram(group: Group, method: str, scores: Mapping[str, Floats], record: CellRecord) -> ScoreHistogram:
    edges = histogram_edges(scores)
    shares = {}
    for name, values in scores.items():
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        shares[name] = counts / len(values)
    auroc = {name: record.metrics.get(EvalSet(name), {}).get("auroc") for name in scores if name != "test"}
    known = {name: value for name, value in auroc.items() if value is not None}
    return ScoreHistogram(method, group.title(method), edges, shares, known, group.is_ours(method))


def histogram_edges(scores: Mapping[str, Floats]) -> Floats:
    """Return bin edges over the central 99 % of each set; evenly spaced, or in asinh steps where tails are long.

    Values outside are counted in the first and last bin.
    """
    # NaN fails the comparison; the largest numbers there are stand for infinities, and their distances overflow.
    finite = {name: values[np.abs(values) < LARGEST_SCORE] for name, values in scores.items()}
    finite = {name: values for name, values in finite.items() if len(values)}
    if not finite:
        return np.linspace(0.0, 1.0, HISTOGRAM_BINS + 1)
    known = finite.get("test", next(iter(finite.values())))
    low = min(float(np.quantile(values, 0.005)) for values in finite.values())
    high = max(float(np.quantile(values, 0.995)) for values in finite.values())
    if high <= low:
        low, high = low - 0.5, high + 0.5
    middle = float(np.median(known))
    spread = float(np.quantile(known, 0.95) - np.quantile(known, 0.05))
    if spread > 0 and high - low > LONG_TAIL * spread:
        # A sixth of the spread, so that the test rows themselves fill several bins.
        unit = spread / 6
        ends = np.arcsinh((low - middle) / unit), np.arcsinh((high - middle) / unit)
        edges: Floats = middle + unit * np.sinh(np.linspace(*ends, HISTOGRAM_BINS + 1))
        edges[0], edges[-1] = low, high
        return edges
    return np.linspace(low, high, HISTOGRAM_BINS + 1)


@dataclass(frozen=True)
class Predictions:
    """What a group's stored predictions come to: the numbers of its charts, and its rows for the bootstrap."""

    numbers: GroupNumbers
    rows: RowsOfCells


def read_group(
    group: Group, arrays_of: Callable[[CellRecord], Mapping[str, Array]], with_rows: bool = True
) -> Predictions:
    """Return the numbers and, unless left out, the rows of every method, reading one cell's predictions at a time."""
    collector, rows = CurveCollector(group), {}
    for key, record in group.records.items():
        arrays = arrays_of(record)
        collector.add(record, arrays)
        found = rows_of_cell(group.table, arrays) if with_rows else None
        if found is not None:
            rows[key] = found
    return Predictions(collector.numbers(), rows)
