"""The tables of a group that hold values: results, ablation, shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volta.bench.eval_set import TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP
from volta.figures.corruption_heatmap import SHIFT_METRICS, shift_values
from volta.figures.names import heading, is_shared, metric_key, metric_name, set_label, set_name, split_key
from volta.metrics import METRICS
from volta.metrics.floor_words import FLOOR_METRICS, show_floor
from volta.paper import PaperComparison
from volta.report.numbers import method_values
from volta.report.run import Group
from volta.report.table_model import (
    MISSING,
    Column,
    Row,
    Table,
    TableCell,
    decimals_for,
    mark_best,
    show,
    show_p,
)
from volta.stats import ALPHA, AblationRow, Sample, TestRow, sample_of

FAMILY_NAMES = {
    "headline": "Headline",
    "prediction": "Prediction",
    "calibration": "Calibration",
    "selective": "Selective",
    "ood": "OOD",
    "conformal": "Conformal",
    "efficiency": "Cost",
}
FLOOR_LEGEND = (
    " Beside ECE its floor: what a perfectly calibrated predictor with the same confidences would show, mean and 95 %; "
    "a value within it is no sign of miscalibration."
)
NETWORK_LEGEND = " Methods beside one bar share a network: one accuracy, ECE, NLL and Brier score between them."
COMPACT_OOD = ("auroc", "aupr_out", "fpr95", "oscr", "scod_aurc")
ORIGINS = {
    "volta": "VOLTA",
    "paper": "paper’s baseline",
    "extra": "extra",
    "ablation": "ablation",
    "own": "own predictions",
}


def results_table(
    group: Group, tests: Sequence[TestRow], paper: Sequence[PaperComparison], alpha: float = ALPHA
) -> Table:
    """Return mean ± std of every metric of every compared method, marked where VOLTA differs."""
    by_pair = {(test.method, test.metric, test.set): test for test in tests}
    paper_values = {(row.method, row.metric, row.set): row for row in paper}
    headline, methods = group.headline, group.network_by_network(group.compared)
    keys = list(dict.fromkeys([*headline, *_all_keys(group)]))
    columns = [Column("method", "Method", numeric=False)]
    grid: list[list[TableCell]] = []
    for key in keys:
        metric, where = split_key(key)
        info = METRICS[metric]
        families = (*(("headline",) if key in headline else ()), info.family)
        columns.append(
            Column(key, heading(key), arrow(metric), families, set_label(key), help=info.formula, shared=is_shared(key))
        )
        decimals = column_decimals(group, group.compared, key)
        cells = []
        for method in methods:
            entry = value_entry(group, method, key, decimals)
            test, in_paper = by_pair.get((method, metric, where)), paper_values.get((method, metric, where))
            if test is not None and test.significant:
                entry = replace(
                    entry,
                    mark="‡" if test.significant_holm else "†",
                    tip=f"{entry.tip}\n{_test_tip(test, group.title(test.reference))}",
                )
            if in_paper is not None:
                spread = "" if in_paper.paper_std is None else f" ± {in_paper.paper_std:g}"
                entry = replace(entry, paper=f"{in_paper.paper_mean:g}{spread}")
            cells.append(entry)
        grid.append(mark_best(cells, info.higher_is_better, [True] * len(cells)))
    rows = tuple(
        Row(
            method,
            (
                TableCell(
                    group.title(method), group.title(method), tip=f"{method} ({ORIGINS.get(group.origin(method), '')})"
                ),
                *cells,
            ),
            group.origin(method),
            group.is_ours(method),
            network=group.network_of(method),
        )
        for method, *cells in zip(methods, *grid, strict=True)
    )
    present = {family for column in columns for family in column.families}
    families = tuple((key, label) for key, label in FAMILY_NAMES.items() if key in present)
    one_seed = group.context.n_seeds == 1
    values = "Values of one seed; bold: best" if one_seed else "Mean ± standard deviation over seeds; bold: best mean"
    tested = "over new test rows" if one_seed else "paired over seeds"
    legend = f"{values}."
    if tests:
        against = f"{_reference(group, tests)} ({tested}, p < {alpha:.3g})"
        legend += f" † differs from {against}; ‡ still does after Holm’s correction."
    legend += FLOOR_LEGEND if any(entry.floor for column in grid for entry in column) else ""
    if any(entry.paper for column in grid for entry in column):
        legend += " Small figures below: the value printed in the paper."
    together = NETWORK_LEGEND if group.networks else ""
    return Table(f"results-{group.key}", "Results", tuple(columns), rows, legend, families, page_legend=together)


def ablation_table(group: Group, rows: Sequence[AblationRow]) -> Table:
    """Return the ablation rows with their values, marked against the full model (†) and against VOLTA (*)."""
    names = list(dict.fromkeys(row.row for row in rows))
    references = dict.fromkeys(row.reference for row in rows)
    keys = ["accuracy", "ece", "nll", "brier", *(f"auroc@{name}" for name in group.near_first[:1])]
    by_key = {(row.row, metric_key(row.metric, row.set), row.reference): row for row in rows}
    columns = [Column("row", "Row", numeric=False)]
    grid = []
    for key in keys:
        metric = split_key(key)[0]
        decimals = column_decimals(group, names, key)
        columns.append(Column(key, metric_name(metric), arrow(metric), (), set_label(key)))
        cells = []
        for name in names:
            entry = value_entry(group, name, key, decimals)
            marks = ""
            for reference in references:
                test = by_key.get((name, key, reference))
                if test is not None:
                    entry = replace(entry, tip=f"{entry.tip}\nagainst {group.title(reference)}: {_ablation_tip(test)}")
                    mark = "*" if group.is_ours(reference) else "†"
                    marks += mark if test.significant else ""
            cells.append(replace(entry, mark=marks))
        grid.append(mark_best(cells, METRICS[metric].higher_is_better, [True] * len(cells)))
    body = tuple(
        Row(name, (TableCell(group.title(name), group.title(name), tip=name), *cells), "ablation", group.is_ours(name))
        for name, *cells in zip(names, *grid, strict=True)
    )
    legend = (
        "Mean ± standard deviation over seeds. † differs from full VOLTA, * differs from VOLTA "
        "(two-sided test paired over seeds, p < 0.05, uncorrected; Holm’s p on hover and in ablation.csv)."
    )
    return Table(f"ablation-{group.key}", "Ablation", tuple(columns), body, legend)


def ood_table(group: Group) -> Table:
    """Return OOD detection in brief: each metric averaged over the near and over the far OOD sets."""
    keys = [
        metric_key(metric, where)
        for metric in COMPACT_OOD
        for where in group.ood_means
        if metric in _metrics_on(group, where)
    ]
    columns = [Column("method", "Method", numeric=False)]
    grid = []
    for key in keys:
        info = METRICS[split_key(key)[0]]
        columns.append(Column(key, heading(key), arrow(info.name), (), set_label(key), help=info.formula))
        decimals = column_decimals(group, group.compared, key)
        cells = [value_entry(group, method, key, decimals) for method in group.compared]
        grid.append(mark_best(cells, info.higher_is_better, [True] * len(cells)))
    legend = "Mean ± standard deviation over seeds of the mean over OOD sets; bold: best mean."
    rows = _method_rows(group, group.compared, grid)
    return Table(f"ood-{group.key}", "OOD detection in brief", tuple(columns), rows, legend)


def shifts_table(group: Group) -> Table:
    """Return accuracy, ECE, NLL and Brier of every method on every shifted test set."""
    methods = group.network_by_network(group.compared)
    columns = [Column("method", "Method", numeric=False)]
    grid: list[list[TableCell]] = []
    sets = group.sets("shift")
    values = {method: method_values(group, method) for method in group.compared}
    found = {
        metric: {method: shift_values(own, metric, sets) for method, own in values.items()} for metric in SHIFT_METRICS
    }
    metrics = [metric for metric, by_method in found.items() if any(by_method.values())]
    for metric in metrics:
        by_method = found[metric]
        for name in dict.fromkeys(name for own in by_method.values() for name in own):
            columns.append(Column(f"{metric}@{name}", set_name(name), arrow(metric), (metric,), shared=True))
            cells = [_seeds_entry(metric, by_method[method].get(name, ())) for method in methods]
            grid.append(mark_best(cells, METRICS[metric].higher_is_better, [True] * len(cells)))
    families = tuple((metric, metric_name(metric)) for metric in metrics)
    legend = "Mean ± standard deviation over seeds; bold: best mean." + (NETWORK_LEGEND if group.networks else "")
    rows = _method_rows(group, methods, grid, by_network=True)
    return Table(f"shifts-{group.key}", "Under shift", tuple(columns), rows, legend, families)


def value_entry(group: Group, method: str, key: str, decimals: int = 4) -> TableCell:
    """Return the cell of one method and metric: mean, deviation, and the value of each seed on hover."""
    metric, where = split_key(key)
    by_seed = group.table.of(method, where, metric) if group.table else {}
    seeds = "\n".join(f"seed {seed}: {show(metric, by_seed[seed], decimals)}" for seed in sorted(by_seed))
    entry = _entry(metric, group.sample(method, key), decimals)
    return replace(entry, tip=seeds or "no value", floor=_floor(group, method, metric, where, decimals))


def _floor(group: Group, method: str, metric: str, where: str, decimals: int) -> str:
    """Return what chance alone gives, as the mean over seeds, beside an ECE; nothing beside other metrics."""
    if metric != "ece":
        return ""
    found = [group.sample(method, metric_key(name, where)) for name in FLOOR_METRICS]
    if any(sample is None for sample in found):
        return ""
    mean, low, high = (sample.mean for sample in found if sample is not None)
    return show_floor(mean, low, high, decimals)


def column_decimals(group: Group, methods: Sequence[str], key: str) -> int:
    """Return how many decimals the column of a metric needs."""
    return decimals_for([sample.mean for method in methods if (sample := group.sample(method, key)) is not None])


def _method_rows(
    group: Group, methods: Sequence[str], grid: Sequence[Sequence[TableCell]], *, by_network: bool = False
) -> tuple[Row, ...]:
    return tuple(
        Row(
            method,
            (TableCell(group.title(method), group.title(method), tip=method), *cells),
            group.origin(method),
            group.is_ours(method),
            network=group.network_of(method) if by_network else "",
        )
        for method, *cells in zip(methods, *grid, strict=True)
    )


def _seeds_entry(metric: str, values: Sequence[float]) -> TableCell:
    tip = "\n".join(show(metric, value, 4) for value in values)
    return replace(_entry(metric, sample_of(values)), tip=tip) if values else MISSING


def _entry(metric: str, sample: Sample | None, decimals: int = 4) -> TableCell:
    if sample is None:
        return MISSING
    std_text = "" if sample.std is None else show(metric, sample.std, decimals)
    return TableCell(show(metric, sample.mean, decimals), sample.mean, sample.std, std_text)


def _all_keys(group: Group) -> list[str]:
    if group.table is None:
        return []
    keys: dict[str, None] = {}
    for where in (*map(str, (TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP)), *group.ood_means, *group.near_first):
        keys |= {metric_key(metric, where): None for metric in _metrics_on(group, where)}
    return list(keys)


def _metrics_on(group: Group, where: str) -> list[str]:
    """Return the metrics that some compared method has on a set, in the order of the table of metrics."""
    values = group.table.values if group.table else {}
    present = {metric for method in group.compared for metric in values[method].get(where, {})}
    return [metric for metric in METRICS if metric in present]


def arrow(metric: str) -> str:
    """Return a metric's direction for a heading, empty where it has none."""
    direction = METRICS[metric].direction
    return "" if direction == "–" else direction


def better_than(metric: str, difference: float | None) -> bool | None:
    """Return whether a difference in a metric is a gain; None where it is none or the metric has no direction."""
    up = METRICS[metric].higher_is_better
    return None if difference is None or difference == 0 or up is None else (difference > 0) == up


def _test_tip(test: TestRow, own: str) -> str:
    better = better_than(test.metric, test.difference)
    who = "" if better is None else f" ({own} better)" if better else f" ({own} worse)"
    return f"{own} − this: {test.difference:+.4f}{who}\np {show_p(test.p)}, Holm {show_p(test.p_holm)}"


def _reference(group: Group, tests: Sequence[TestRow]) -> str:
    found = {test.reference for test in tests}
    return group.title(found.pop()) if len(found) == 1 else "the best method"


def _ablation_tip(test: AblationRow) -> str:
    if test.difference is None:
        return test.note
    return f"{test.difference:+.4f}, p = {show_p(test.p)}, Holm {show_p(test.p_holm)}"
