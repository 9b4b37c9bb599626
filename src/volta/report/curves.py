"""Reliability bins, risk-coverage, ROC and PR curves of figures, from stored predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import VAL, EvalSet
from volta.bench.records import CellRecord
from volta.core.types import Array
from volta.figures import (
    Difference,
    GroupNumbers,
    MethodBins,
    MethodCurve,
    MethodValues,
    PairDifference,
    ScoreHistogram,
    TrainingCurve,
)
from volta.figures.style import metric_key
from volta.metrics import RocCurve, reliability_bins, risk_coverage_curve, roc_curve
from volta.metrics.bins import N_BINS
from volta.report.run import Group
from volta.stats import AblationRow, RowsOfCells, TestRow, rows_of_cell

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


CURVE_POINTS = 200
HISTOGRAM_BINS = 40
LONG_TAIL = 12.0
LARGEST_SCORE = 1e300
"""Where scores reach this many times the spread of the test rows' scores, bins follow an inverse hyperbolic sine."""


@dataclass(frozen=True)
class Curves:
    """Curves of one group: reliability by set, then method; risk-coverage by method, and what of it is above a perfect
    order of the rows; histograms by method and seed; ROC and precision-recall curves by OOD set, then method.
    """

    reliability: Mapping[str, Mapping[str, MethodBins]]
    risk_coverage: Mapping[str, MethodCurve]
    excess_risk: Mapping[str, MethodCurve]
    histograms: Mapping[tuple[str, int], ScoreHistogram]
    roc: Mapping[str, Mapping[str, MethodCurve]]
    precision_recall: Mapping[str, Mapping[str, MethodCurve]]


class CurveCollector:
    """Curves of a group's methods, gathered one cell at a time."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._bins: dict[str, dict[str, Floats]] = {}
        self._risks: dict[str, list[Floats]] = {}
        self._excess: dict[str, list[Floats]] = {}
        self._histograms: dict[tuple[str, int], ScoreHistogram] = {}
        self._ood = OodCurves()
        self._grid: Floats | None = None

    def add(self, record: CellRecord, arrays: Mapping[str, Array]) -> None:
        """Take up the predictions of one cell."""
        method, seed = record.cell.method, record.cell.seed
        for name in [key.removesuffix("/probs") for key in arrays if key.endswith("/probs")]:
            if name == VAL:
                continue
            found = _bin_sums(arrays[f"{name}/probs"], arrays[f"{name}/labels"])
            by_method = self._bins.setdefault(name, {})
            by_method[method] = by_method[method] + found if method in by_method else found
        if "test/probs" in arrays:
            correct = arrays["test/probs"].argmax(axis=1) == arrays["test/labels"]
            curve = risk_coverage_curve(arrays["test/uncertainty"], correct)
            if self._grid is None:
                self._grid = np.linspace(curve.coverage[0], 1, min(CURVE_POINTS, len(correct)))
            risk = np.interp(self._grid, curve.coverage, curve.risk)
            self._risks.setdefault(method, []).append(risk)
            above = risk - perfect_risk(self._grid, float(1 - correct.mean()))
            self._excess.setdefault(method, []).append(above)
        scores = {
            key.removesuffix("/ood_score"): np.asarray(values, dtype=np.float64)
            for key, values in arrays.items()
            if key.endswith("/ood_score") and len(values)
        }
        self._ood.add(method, scores)
        histogram = _histogram(self._group, method, scores, record)
        if histogram is not None:
            self._histograms[method, seed] = histogram

    def curves(self) -> Curves:
        """Return the curves of every method taken up."""
        group = self._group
        return Curves(
            reliability={
                name: {method: _method_bins(group, method, name, sums) for method, sums in by_method.items()}
                for name, by_method in self._bins.items()
            },
            risk_coverage=_mean_curves(group, self._grid, self._risks, "aurc"),
            excess_risk=_mean_curves(group, self._grid, self._excess, "eaurc"),
            histograms=self._histograms,
            roc=self._ood.roc(group),
            precision_recall=self._ood.precision_recall(group),
        )


def perfect_risk(coverage: Floats, error: float) -> Floats:
    """Return the risk of an order that keeps every right row before any wrong one: max(0, 1 − (1 − error)/coverage).

    >>> perfect_risk(np.array([0.5, 0.8, 1.0]), 0.2).tolist()
    [0.0, 0.0, 0.2]
    """
    return np.maximum(0.0, np.round(1 - (1 - error) / coverage, 12))


def _mean_curves(
    group: Group, grid: Floats | None, found: Mapping[str, list[Floats]], area: str
) -> dict[str, MethodCurve]:
    return {
        method: MethodCurve(
            method, group.title(method), grid if grid is not None else np.zeros(0),
            np.mean(runs, axis=0), np.min(runs, axis=0), np.max(runs, axis=0),
            float(np.mean(group.values(method, area))), group.is_ours(method),
        )
        for method, runs in found.items()
        if group.values(method, area)
    }  # fmt: skip


def _bin_sums(probs: Array, labels: Array) -> Floats:
    bins = reliability_bins(probs, labels.astype(np.int64))
    place = np.rint(bins.upper * N_BINS).astype(np.int64) - 1
    sums = np.zeros((3, N_BINS))
    sums[0, place] = bins.count
    sums[1, place] = bins.count * bins.confidence
    sums[2, place] = bins.count * bins.accuracy
    return sums


def _method_bins(group: Group, method: str, name: str, sums: Floats) -> MethodBins:
    count = sums[0]
    filled = np.maximum(count, 1)
    ece, expected = (group.values(method, metric_key(metric, name)) for metric in ("ece", "ece_expected"))
    return MethodBins(
        method,
        group.title(method),
        count.astype(np.int64),
        sums[1] / filled,
        sums[2] / filled,
        float(np.mean(ece)) if ece else float("nan"),
        group.is_ours(method),
        float(np.mean(expected)) if expected else None,
        max(1, len(ece)),
    )


def _histogram(group: Group, method: str, scores: Mapping[str, Floats], record: CellRecord) -> ScoreHistogram | None:
    if "test" not in scores or len(scores) < 2:
        return None
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
    """What a group's stored predictions come to: its curves, and the rows of its cells for the bootstrap."""

    curves: Curves
    rows: RowsOfCells


def read_group(
    group: Group, arrays_of: Callable[[CellRecord], Mapping[str, Array]], with_rows: bool = True
) -> Predictions:
    """Return the curves and, unless left out, the rows of every method, reading one cell's predictions at a time."""
    collector, rows = CurveCollector(group), {}
    for key, record in group.records.items():
        arrays = arrays_of(record)
        collector.add(record, arrays)
        found = rows_of_cell(group.table, arrays) if with_rows and group.table is not None else None
        if found is not None:
            rows[key] = found
    return Predictions(collector.curves(), rows)


def group_numbers(
    group: Group, curves: Curves, ablation: Sequence[AblationRow], pairs: Sequence[TestRow] = ()
) -> GroupNumbers:
    """Return everything the charts of a group may need."""
    return GroupNumbers(
        context=group.context,
        methods=tuple(method_values(group, name) for name in group.methods),
        compared=group.compared,
        headline=group.headline,
        ood_sets=group.near_first,
        near_sets=group.near_sets,
        shift_sets=group.sets("shift"),
        bins=curves.reliability,
        curves=curves.risk_coverage,
        histograms=curves.histograms,
        roc=curves.roc,
        precision_recall=curves.precision_recall,
        differences=tuple(
            Difference(
                row.row,
                row.reference,
                metric_key(row.metric, row.set),
                row.difference,
                row.std or 0.0,
                row.p,
                bool(row.significant),
            )
            for row in ablation
            if row.difference is not None
        ),
        excess=curves.excess_risk,
        trainings=tuple(_trainings(group)),
        pairs=tuple(
            PairDifference(
                row.reference, row.method, metric_key(row.metric, row.set), row.difference, row.verdict, row.p_holm
            )
            for row in pairs
            if row.difference is not None and row.set
        ),
        networks=group.networks,
    )


def _trainings(group: Group) -> Iterator[TrainingCurve]:
    for (method, seed), record in group.records.items():
        for log in record.trainings:
            yield TrainingCurve(method, seed, log.val_losses, log.best_epoch, log.kept_epoch)


def method_values(group: Group, method: str) -> MethodValues:
    """Return a method's per-seed values on every set, as the figures take them."""
    found = {
        metric_key(metric, name): by_seed
        for name, metrics in (group.table.values[method] if group.table else {}).items()
        for metric, by_seed in metrics.items()
    }
    return MethodValues(
        method,
        group.title(method),
        {key: list(by_seed.values()) for key, by_seed in found.items()},
        group.is_ours(method),
        {key: list(by_seed) for key, by_seed in found.items()},
    )
