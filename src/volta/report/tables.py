"""The tables of a group: results, tests, ablation, shifts, and the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volta.figures.names import metric_label, metric_name, set_name
from volta.metrics import METRICS
from volta.report.drawings import headline_keys, shift_columns
from volta.report.run import Group
from volta.report.table import MISSING, Column, Entry, Row, Table, mark_best, show, show_number, show_p
from volta.stats import AblationRow, BesideRow, TestRow, sample_of

SHIFT_METRICS = ("accuracy", "ece", "nll", "brier")
FAMILY_NAMES = {
    "headline": "Headline",
    "prediction": "Prediction",
    "calibration": "Calibration",
    "selective": "Selective",
    "ood": "OOD",
    "conformal": "Conformal",
    "efficiency": "Cost",
}
ORIGINS = {"volta": "VOLTA", "paper": "paper’s baseline", "extra": "extra", "ablation": "ablation"}

Found = Mapping[tuple[str, str, str], TestRow]


def results_table(group: Group, tests: Sequence[TestRow], paper: Sequence[BesideRow]) -> Table:
    """Return mean ± std of every metric of every compared method, marked where VOLTA differs."""
    by_pair = {(test.baseline, test.metric, test.set): test for test in tests}
    printed = {(row.method, row.metric, row.set): row for row in paper}
    headline = headline_keys(group)
    keys = list(dict.fromkeys([*headline, *_all_keys(group)]))
    columns = [Column("method", "Method", numeric=False)]
    grid: list[list[Entry]] = []
    for key in keys:
        metric, _, where = key.partition("@")
        info = METRICS[metric]
        families = (*(("headline",) if key in headline else ()), info.family)
        columns.append(
            Column(
                key, metric_label(key).replace(f" {info.direction}", ""), _arrow(metric), families, help=info.formula
            )
        )
        cells = []
        for method in group.compared:
            entry = value_entry(group, method, key)
            where_ = where or "test"
            test, beside = by_pair.get((method, metric, where_)), printed.get((method, metric, where_))
            if test is not None and test.significant:
                entry = replace(
                    entry, mark="‡" if test.significant_holm else "†", tip=f"{entry.tip}\n{_test_tip(test)}"
                )
            if beside is not None:
                spread = "" if beside.paper_std is None else f" ± {beside.paper_std:g}"
                entry = replace(entry, paper=f"{beside.paper_mean:g}{spread}")
            cells.append(entry)
        grid.append(mark_best(cells, info.higher_is_better, [True] * len(cells)))
    rows = tuple(
        Row(
            method,
            (
                Entry(
                    group.title(method), group.title(method), tip=f"{method} ({ORIGINS.get(group.origin(method), '')})"
                ),
                *cells,
            ),
            group.origin(method),
        )
        for method, *cells in zip(group.compared, *grid, strict=True)
    )
    present = {family for column in columns for family in column.families}
    families = tuple((key, label) for key, label in FAMILY_NAMES.items() if key in present)
    legend = (
        "Mean ± standard deviation over seeds; bold: best mean. † differs from VOLTA (Welch’s two-sided test, p < 0.05); "
        "‡ still does after Holm’s correction. Hover or focus a cell for the value of each seed."
    )
    if any(entry.paper for column in grid for entry in column):
        legend += " Small figures below: the value printed in the paper."
    return Table(f"results-{group.key}", "Results", tuple(columns), rows, legend, families)


def tests_table(group: Group, tests: Sequence[TestRow]) -> Table:
    """Return VOLTA's tests against each baseline, with what the test could have seen at all."""
    columns = (
        Column("baseline", "Baseline", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("difference", "VOLTA − baseline"),
        Column("better", "Better", numeric=False),
        Column("p", "p", "", help="Welch’s two-sided t-test over seeds"),
        Column("p_holm", "p (Holm)", "", help="corrected over all tests of this task and protocol"),
        Column("hedges_g", "Hedges’ g"),
        Column("interval", "Bootstrap 95 %", numeric=False, help="paired bootstrap over test rows"),
        Column(
            "detectable_difference", "Detectable", help="true difference found with 80 % power at this number of seeds"
        ),
        Column("note", "Note", numeric=False),
    )
    rows = []
    for test in tests:
        title = group.title(test.baseline)
        better = _better(test.metric, test.difference)
        verdict = {True: "VOLTA", False: title, None: "–"}[better]
        interval = (
            "–" if test.boot_low is None or test.boot_high is None else f"[{test.boot_low:+.4f}, {test.boot_high:+.4f}]"
        )
        tone = "" if not test.significant or better is None else "good" if better else "bad"
        mark = "‡" if test.significant_holm else "†" if test.significant else ""
        means = f"VOLTA {_or_dash(test.mean_volta)} (n = {test.n_volta})\n{title} {_or_dash(test.mean_baseline)} (n = {test.n_baseline})"
        rows.append(
            Row(
                f"{test.baseline} {test.metric}",
                (
                    Entry(title, title),
                    Entry(_metric_and_set(test.metric, test.set), _metric_and_set(test.metric, test.set)),
                    _signed(test.difference, means),
                    Entry(verdict, verdict, tone=tone, mark=mark),
                    Entry(show_p(test.p), test.p),
                    Entry(show_p(test.p_holm), test.p_holm),
                    Entry("–" if test.hedges_g is None else f"{test.hedges_g:+.2f}", test.hedges_g),
                    Entry(interval, None if test.boot_low is None else interval),
                    Entry(_or_dash(test.detectable_difference), test.detectable_difference),
                    Entry(test.note, test.note),
                ),
                "significant" if test.significant else "",
            )
        )
    legend = (
        "Two-sided Welch tests over seeds; † p < 0.05, ‡ p < 0.05 after Holm. The bootstrap interval is over test rows for "
        "these trained models; «detectable» is the true difference such a test finds in 80 % of runs."
    )
    return Table(f"tests-{group.key}", "VOLTA against each baseline", columns, tuple(rows), legend)


def ablation_table(group: Group, rows: Sequence[AblationRow]) -> Table:
    """Return the ablation rows with their values, marked against the full model (†) and against VOLTA (*)."""
    names = list(dict.fromkeys(row.row for row in rows))
    names = [*(name for name in ("volta-full",) if name in group.methods and name not in names), *names]
    keys = ["accuracy", "ece", "nll", "brier", *(f"auroc@{name}" for name in group.near_first[:1])]
    by_key = {
        (row.row, row.metric if row.set == "test" else f"{row.metric}@{row.set}", row.reference): row for row in rows
    }
    columns = [Column("row", "Row", numeric=False)]
    grid = []
    for key in keys:
        metric = key.partition("@")[0]
        columns.append(Column(key, metric_label(key).replace(f" {METRICS[metric].direction}", ""), _arrow(metric)))
        cells = []
        for name in names:
            entry = value_entry(group, name, key)
            marks = ""
            for reference, mark in (("volta-full", "†"), ("volta", "*")):
                test = by_key.get((name, key, reference))
                if test is not None:
                    entry = replace(entry, tip=f"{entry.tip}\nagainst {group.title(reference)}: {_ablation_tip(test)}")
                    marks += mark if test.significant else ""
            cells.append(replace(entry, mark=marks))
        grid.append(mark_best(cells, METRICS[metric].higher_is_better, [True] * len(cells)))
    body = tuple(
        Row(name, (Entry(group.title(name), group.title(name), tip=name), *cells), "ablation")
        for name, *cells in zip(names, *grid, strict=True)
    )
    legend = (
        "Mean ± standard deviation over seeds. † differs from full VOLTA, * differs from VOLTA "
        "(Welch’s two-sided test, p < 0.05, uncorrected; Holm’s p on hover and in ablation.csv)."
    )
    return Table(f"ablation-{group.key}", "Ablation", tuple(columns), body, legend)


def shifts_table(group: Group) -> Table:
    """Return accuracy, ECE, NLL and Brier of every method on every shifted test set."""
    columns = [Column("method", "Method", numeric=False)]
    grid: list[list[Entry]] = []
    metrics = [m for m in SHIFT_METRICS if any(shift_columns(group, m, method) for method in group.compared)]
    for metric in metrics:
        by_method = {method: shift_columns(group, metric, method) for method in group.compared}
        for name in dict.fromkeys(name for values in by_method.values() for name in values):
            columns.append(Column(f"{metric}@{name}", set_name(name), _arrow(metric), (metric,)))
            cells = [_entry(metric, by_method[method].get(name, ())) for method in group.compared]
            grid.append(mark_best(cells, METRICS[metric].higher_is_better, [True] * len(cells)))
    rows = tuple(
        Row(method, (Entry(group.title(method), group.title(method), tip=method), *cells), group.origin(method))
        for method, *cells in zip(group.compared, *grid, strict=True)
    )
    families = tuple((metric, metric_name(metric)) for metric in metrics)
    return Table(
        f"shifts-{group.key}",
        "Under shift",
        tuple(columns),
        rows,
        "Mean ± standard deviation over seeds; bold: best mean.",
        families,
    )


def paper_table(group: Group, rows: Sequence[BesideRow]) -> Table:
    """Return the paper's printed values beside ours."""
    columns = (
        Column("method", "Method", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("paper_mean", "Paper"),
        Column("mean", "Ours"),
        Column("difference", "Ours − paper"),
        Column("difference_std", "in std"),
        Column("p", "p", help="Welch’s test against the printed mean ± std with n = 3"),
        Column("note", "Note", numeric=False),
    )
    body = []
    for row in rows:
        title = group.title(row.method)
        ours = MISSING if row.mean is None else Entry(f"{row.mean:.4f}", row.mean, row.std, _spread(row.std))
        body.append(
            Row(
                f"{row.method} {row.metric}",
                (
                    Entry(title, title),
                    Entry(_metric_and_set(row.metric, row.set), _metric_and_set(row.metric, row.set)),
                    Entry(
                        f"{row.paper_mean:g}",
                        row.paper_mean,
                        row.paper_std,
                        _spread(row.paper_std),
                        tip=row.paper_source,
                    ),
                    ours,
                    _signed(row.difference, ""),
                    Entry("–" if row.difference_std is None else f"{row.difference_std:+.1f}", row.difference_std),
                    Entry(show_p(row.p), row.p),
                    Entry(row.note, row.note),
                ),
            )
        )
    return Table(
        f"paper-{group.key}",
        "Beside the paper",
        columns,
        tuple(body),
        "Values as the paper prints them; ours: mean ± standard deviation over seeds.",
    )


def value_entry(group: Group, method: str, key: str) -> Entry:
    """Return the cell of one method and metric: mean, deviation, and the value of each seed on hover."""
    metric, _, where = key.partition("@")
    by_seed = group.table.of(method, where or "test", metric) if group.table else {}
    seeds = "\n".join(f"seed {seed}: {show(metric, by_seed[seed])}" for seed in sorted(by_seed))
    entry = _entry(metric, [by_seed[seed] for seed in sorted(by_seed)])
    return replace(entry, tip=seeds or "no value")


def _entry(metric: str, values: Sequence[float]) -> Entry:
    if not values:
        return MISSING
    sample = sample_of(values)
    tip = "\n".join(show(metric, value) for value in values)
    std_text = "" if sample.std is None else show(metric, sample.std)
    return Entry(show(metric, sample.mean), sample.mean, sample.std, std_text, tip)


def _all_keys(group: Group) -> list[str]:
    if group.table is None:
        return []
    keys: dict[str, None] = {}
    for where in ("test", *group.near_first):
        present = {metric for method in group.compared for metric in group.table.values[method].get(where, {})}
        keys |= {metric if where == "test" else f"{metric}@{where}": None for metric in METRICS if metric in present}
    return list(keys)


def _arrow(metric: str) -> str:
    arrow = METRICS[metric].direction
    return "" if arrow == "–" else arrow


def _better(metric: str, difference: float | None) -> bool | None:
    up = METRICS[metric].higher_is_better
    return None if difference is None or difference == 0 or up is None else (difference > 0) == up


def _metric_and_set(metric: str, where: str) -> str:
    return metric_name(metric) if where in ("test", "") else f"{metric_name(metric)} ({set_name(where)})"


def _test_tip(test: TestRow) -> str:
    better = _better(test.metric, test.difference)
    who = "" if better is None else " (VOLTA better)" if better else " (VOLTA worse)"
    return f"VOLTA − this: {test.difference:+.4f}{who}\np = {show_p(test.p)}, Holm {show_p(test.p_holm)}"


def _ablation_tip(test: AblationRow) -> str:
    if test.difference is None:
        return test.note
    return f"{test.difference:+.4f}, p = {show_p(test.p)}, Holm {show_p(test.p_holm)}"


def _signed(value: float | None, tip: str) -> Entry:
    return Entry("–", None, tip=tip) if value is None else Entry(f"{value:+.4f}", value, tip=tip)


def _spread(std: float | None) -> str:
    return "" if std is None else f"{std:.4f}"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if abs(value) >= 5e-5 or value == 0 else show_number(value)
