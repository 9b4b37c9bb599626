"""Every figure of a group, drawn and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from volta import figures
from volta.bench.records import EvalSet
from volta.figures import MethodValues
from volta.methods.ablation import Ablation
from volta.report.curves import Curves
from volta.report.run import Group
from volta.stats.ablation import AblationRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHIFT_METRICS = ("accuracy", "ece")
MAX_SHIFT_COLUMNS = 30
"""Beyond this many shifted sets a heatmap shows each corruption's mean over severities."""


def headline_keys(group: Group) -> list[str]:
    """Return the metrics a reader looks at first: of the test rows, then of the first near-OOD set."""
    keys = ["accuracy", "ece", "nll", "brier", "aurc"]
    if group.near_first:
        keys += [f"auroc@{group.near_first[0]}", f"fpr95@{group.near_first[0]}"]
    return [key for key in keys if any(group.values(method, key) for method in group.methods)]


def method_values(group: Group, methods: tuple[str, ...]) -> list[MethodValues]:
    """Return the per-seed values of methods on every set, as the figures take them."""
    if group.table is None:
        return []
    rows = []
    for method in methods:
        values = {
            metric if name == "test" else f"{metric}@{name}": list(by_seed.values())
            for name, metrics in group.table.values[method].items()
            for metric, by_seed in metrics.items()
        }
        rows.append(MethodValues(method, group.title(method), values))
    return rows


def draw_group(group: Group, curves: Curves, ablation: list[AblationRow], folder: Path, prefix: str) -> dict[str, Path]:
    """Write every figure that the group's data allows; return each one's PDF by figure name."""
    pdfs = {}
    for name, draw in plan_figures(group, curves, ablation).items():
        _, pdfs[name] = figures.save_figure(draw(), folder, f"{prefix}{name}")
    return pdfs


def plan_figures(group: Group, curves: Curves, ablation: list[AblationRow]) -> Mapping[str, Callable[[], Figure]]:
    """Return what can be drawn of a group, by figure name."""
    context, compared = group.context, method_values(group, group.compared)
    plan: dict[str, Callable[[], Figure]] = {}
    if not compared and not ablation:
        return plan
    keys = headline_keys(group)
    if compared:
        plan["accuracy_ece"] = lambda: figures.accuracy_ece(context, compared)
        plan["accuracy_ece_density"] = lambda: figures.accuracy_ece_density(context, compared)
        plan["parallel_coordinates"] = lambda: figures.parallel_coordinates(context, compared, keys)
        plan["calibration_bars"] = lambda: figures.calibration_bars(context, compared)
        plan["efficiency"] = lambda: figures.efficiency(context, compared)
        plan["summary_heatmap"] = lambda: figures.summary_heatmap(context, compared, summary_keys(group))
    bins = [item for name, item in curves.reliability.get("test", {}).items() if name in group.compared]
    if bins:
        plan["reliability"] = lambda: figures.reliability_diagrams(context, bins)
    lines = [curve for name, curve in curves.risk_coverage.items() if name in group.compared]
    if lines:
        plan["risk_coverage"] = lambda: figures.risk_coverage(context, lines)
    if group.near_first:
        near = group.table.near_sets if group.table else ()
        plan["ood_bars"] = lambda: figures.ood_bars(context, compared, group.near_first, near)
        seed = min((seed for _, seed in curves.histograms), default=0)
        shown = [h for (name, own), h in curves.histograms.items() if own == seed and name in group.compared]
        if shown:
            plan["score_histograms"] = lambda: figures.score_histograms(context, shown, seed)
    for metric in SHIFT_METRICS:
        if group.sets("shift"):
            plan[f"corruption_heatmap_{metric}"] = lambda m=metric: _corruptions(group, m)  # type: ignore[misc]
    if ablation:
        plan["ablation_bars"] = lambda: _ablation(group, ablation)
    return plan


def summary_keys(group: Group) -> list[str]:
    """Return the columns of the summary heatmap: headline metrics and AUROC on every OOD set."""
    keys = [*headline_keys(group), "ece_equal_mass", "risk_at_80", *(f"auroc@{name}" for name in group.near_first)]
    return [key for key in dict.fromkeys(keys) if any(group.values(method, key) for method in group.compared)]


def shift_columns(group: Group, metric: str, method: str) -> dict[str, list[float]]:
    """Return a method's per-seed values by shifted set; beyond a limit by corruption, averaged over severities."""
    names = group.sets("shift")
    by_set = {name: list(group.values(method, f"{metric}@{name}")) for name in names}
    if len(names) <= MAX_SHIFT_COLUMNS:
        return {name: values for name, values in by_set.items() if values}
    grouped: dict[str, list[list[float]]] = {}
    for name, values in by_set.items():
        if values:
            grouped.setdefault(EvalSet.parse(name).name, []).append(values)
    return {
        f"shift:{name}": [float(value) for value in np.mean(parts, axis=0)]
        for name, parts in grouped.items()
        if len({len(part) for part in parts}) == 1
    }


def _corruptions(group: Group, metric: str) -> Figure:
    rows = [
        MethodValues(method, group.title(method), shift_columns(group, metric, method)) for method in group.compared
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row.values))
    note = "means over severities" if len(group.sets("shift")) > MAX_SHIFT_COLUMNS else ""
    return figures.corruption_heatmap(group.context, rows, metric, columns, note)


def _ablation(group: Group, tests: list[AblationRow]) -> Figure:
    table, full = group.table, Ablation.FULL.key
    if table is None:
        return figures.ablation_bars(group.context, MethodValues(full, full, {}), [], [])
    ours = () if table.ours is None else (table.ours,)
    reference = full if full in table.values else table.ours or full
    names = [name for name in (*table.ablation_rows, *ours) if name != reference]
    values = {row.name: row for row in method_values(group, tuple(dict.fromkeys((reference, *names))))}
    metrics = ["accuracy", "ece", "nll", "brier", *(f"auroc@{name}" for name in group.near_first[:1])]
    significant = {
        (test.row, test.metric if test.set in ("test", "") else f"{test.metric}@{test.set}")
        for test in tests
        if test.reference == reference and test.significant
    }
    return figures.ablation_bars(
        group.context, values[reference], [values[name] for name in names], metrics, significant
    )
