"""The tables of a group: results, ablation, corrupted sets, comparisons, training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from volta.bench.cell_metrics import TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP
from volta.bench.records import EXTERNAL
from volta.figures.shift import SHIFT_METRICS, shift_values
from volta.figures.style import full_name, heading, is_shared, metric_key, metric_name, set_label, set_name, split_key
from volta.metrics import METRICS
from volta.metrics.expected_ece import EXPECTED_ECE_METRICS, show_expected_ece
from volta.networks.recipe import TrainingLog, TrainingMark
from volta.paper import PaperComparison
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
    show_number,
    show_p,
)
from volta.stats import ALPHA, AblationRow, Sample, TestRow, sample_of
from volta.stats.comparisons import BEST, TURNED

FAMILY_NAMES = {
    "headline": "Headline",
    "prediction": "Prediction",
    "calibration": "Calibration",
    "selective": "Selective",
    "ood": "OOD",
    "conformal": "Conformal",
    "efficiency": "Cost",
}
EXPECTED_ECE_LEGEND = (
    " In brackets after ECE: the ECE expected under perfect calibration, mean and 95 % range; an ECE within it is no "
    "evidence of miscalibration."
)
NETWORK_LEGEND = " Methods joined by a bar are post-hoc on one network: same accuracy, ECE, NLL and Brier score."
COMPACT_OOD = ("auroc", "aupr_out", "fpr95", "oscr", "scod_aurc")
ORIGINS = {
    "volta": "VOLTA",
    "paper": "paper’s baseline",
    "extra": "extra",
    "ablation": "ablation",
    EXTERNAL: "external predictions",
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
        columns.append(metric_column(key, families))
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
        grid.append(mark_best(cells, info.higher_is_better))
    rows = tuple(
        method_row(group, method, cells, f"{method} ({ORIGINS.get(group.origin(method), '')})", by_network=True)
        for method, *cells in zip(methods, *grid, strict=True)
    )
    present = {family for column in columns for family in column.families}
    families = tuple((key, label) for key, label in FAMILY_NAMES.items() if key in present)
    one_seed = group.context.n_seeds == 1
    values = "Values of one seed; bold: best" if one_seed else "Mean ± standard deviation over seeds; bold: best mean"
    tested = "over test samples" if one_seed else "paired over seeds"
    legend = f"{values}."
    if tests:
        against = f"{_reference(group, tests)} ({tested}, p < {alpha:.3g})"
        legend += f" † differs from {against}; ‡ Holm-corrected."
    legend += EXPECTED_ECE_LEGEND if any(entry.expected for column in grid for entry in column) else ""
    if any(entry.paper for column in grid for entry in column):
        legend += " Small figures: the value printed in the paper."
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
        grid.append(mark_best(cells, METRICS[metric].higher_is_better))
    body = tuple(
        replace(method_row(group, name, cells), kind="ablation") for name, *cells in zip(names, *grid, strict=True)
    )
    legend = (
        "Mean ± standard deviation over seeds. † differs from full VOLTA, * differs from VOLTA "
        "(two-sided test paired over seeds, p < 0.05, uncorrected; Holm-corrected p on hover and in ablation.csv)."
    )
    return Table(f"ablation-{group.key}", "Ablation", tuple(columns), body, legend)


def ood_table(group: Group) -> Table:
    """Return the summary of OOD detection: each metric averaged over the near and over the far OOD sets."""
    keys = [
        metric_key(metric, where)
        for metric in COMPACT_OOD
        for where in group.ood_means
        if metric in _metrics_on(group, where)
    ]
    columns = [Column("method", "Method", numeric=False)]
    grid = []
    for key in keys:
        columns.append(metric_column(key))
        decimals = column_decimals(group, group.compared, key)
        cells = [value_entry(group, method, key, decimals) for method in group.compared]
        grid.append(mark_best(cells, METRICS[split_key(key)[0]].higher_is_better))
    legend = "Mean over OOD sets ± standard deviation over seeds; bold: best mean."
    rows = tuple(method_row(group, method, cells) for method, *cells in zip(group.compared, *grid, strict=True))
    return Table(f"ood-{group.key}", "OOD detection", tuple(columns), rows, legend)


def shifts_table(group: Group) -> Table:
    """Return accuracy, ECE, NLL and Brier of every method on every corrupted test set."""
    methods = group.network_by_network(group.compared)
    columns = [Column("method", "Method", numeric=False)]
    grid: list[list[TableCell]] = []
    sets = group.sets("shift")
    found = {
        metric: {method: shift_values(group.method_values[method], metric, sets) for method in group.compared}
        for metric in SHIFT_METRICS
    }
    metrics = [metric for metric, by_method in found.items() if any(by_method.values())]
    for metric in metrics:
        by_method = found[metric]
        for name in dict.fromkeys(name for own in by_method.values() for name in own):
            columns.append(Column(f"{metric}@{name}", set_name(name), arrow(metric), (metric,), shared=True))
            cells = [_seeds_entry(metric, by_method[method].get(name, ())) for method in methods]
            grid.append(mark_best(cells, METRICS[metric].higher_is_better))
    families = tuple((metric, metric_name(metric)) for metric in metrics)
    legend = "Mean ± standard deviation over seeds; bold: best mean." + (NETWORK_LEGEND if group.networks else "")
    rows = tuple(
        method_row(group, method, cells, by_network=True) for method, *cells in zip(methods, *grid, strict=True)
    )
    return Table(f"shifts-{group.key}", "Corrupted test sets", tuple(columns), rows, legend, families)


def value_entry(group: Group, method: str, key: str, decimals: int = 4) -> TableCell:
    """Return the cell of one method and metric: mean, deviation, and the value of each seed on hover."""
    metric, where = split_key(key)
    by_seed = group.table.of(method, where, metric)
    seeds = "\n".join(f"seed {seed}: {show(metric, by_seed[seed], decimals)}" for seed in sorted(by_seed))
    entry = _entry(metric, group.sample(method, key), decimals)
    return replace(entry, tip=seeds or "no value", expected=_expected_ece(group, method, metric, where, decimals))


def _expected_ece(group: Group, method: str, metric: str, where: str, decimals: int) -> str:
    """Return the ECE expected under perfect calibration, mean over seeds; nothing for other metrics."""
    if metric != "ece":
        return ""
    found = [group.sample(method, metric_key(name, where)) for name in EXPECTED_ECE_METRICS]
    if any(sample is None for sample in found):
        return ""
    mean, low, high = (sample.mean for sample in found if sample is not None)
    return show_expected_ece(mean, low, high, decimals)


def column_decimals(group: Group, methods: Sequence[str], key: str) -> int:
    """Return how many decimals the column of a metric needs."""
    return decimals_for([sample.mean for method in methods if (sample := group.sample(method, key)) is not None])


def metric_column(key: str, families: tuple[str, ...] = ()) -> Column:
    """Return the column of a metric, its set beside its name and its formula on hover."""
    metric = split_key(key)[0]
    formula = METRICS[metric].formula
    return Column(key, heading(key), arrow(metric), families, set_label(key), help=formula, shared=is_shared(key))


def method_row(
    group: Group, method: str, cells: Sequence[TableCell], tip: str = "", *, by_network: bool = False
) -> Row:
    """Return a method's row, its title first; ``by_network`` joins it with the other methods on its network."""
    title = group.title(method)
    return Row(
        method,
        (TableCell(title, title, tip=tip or method), *cells),
        group.origin(method),
        group.is_ours(method),
        network=group.network_of(method) if by_network else "",
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
    keys: dict[str, None] = {}
    for where in (*map(str, (TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP)), *group.ood_means, *group.near_first):
        keys |= {metric_key(metric, where): None for metric in _metrics_on(group, where)}
    return list(keys)


def _metrics_on(group: Group, where: str) -> list[str]:
    """Return the metrics that some compared method has on a set, in the order of the table of metrics."""
    values = group.table.values
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


def reference_title(group: Group, tests: Sequence[TestRow], reference: str | None) -> str:
    """Return the name of what the tests compare with: a method's title, or "the best method"."""
    if reference == BEST or not tests:
        return "the best method"
    return group.title(tests[0].reference)


def baseline_table(group: Group, tests: Sequence[TestRow], reference: str | None = None, alpha: float = ALPHA) -> Table:
    """Return the tests of the reference against every other method, with their minimum detectable differences."""
    own = reference_title(group, tests, reference)
    columns = (
        Column("baseline", "Baseline" if reference is None else "Method", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("difference", "VOLTA − baseline" if reference is None else "Reference − method"),
        Column("verdict", "Verdict", numeric=False, help="Holm-corrected, with the margin of the metric"),
        Column("p", "p", "", help="two-sided t-test over seeds and test samples, paired over shared seeds"),
        Column("p_holm", "p (Holm)", "", help="corrected over the methods of one origin on this metric"),
        Column("hedges_g", "Hedges’ g"),
        Column("interval", "Bootstrap 95 %", numeric=False, help="hierarchical bootstrap over seeds and test samples"),
        Column("detectable_difference", "Detectable", help="minimum detectable difference (80 % power)"),
        Column("margin", "Margin", help="smaller differences count as equivalent"),
        Column("note", "Note", numeric=False),
    )
    rows = []
    for test, methods in _once_a_network(group, tests):
        title = ", ".join(map(group.title, methods))
        interval = (
            "–" if test.boot_low is None or test.boot_high is None else f"[{test.boot_low:+.4f}, {test.boot_high:+.4f}]"
        )
        mark = "‡" if test.significant_holm else "†" if test.significant else ""
        ours = f"{group.title(test.reference)} {_or_dash(test.mean_reference)} (n = {test.n_reference})"
        means = f"{ours}\n{title} {_or_dash(test.mean_method)} (n = {test.n_method})"
        rows.append(
            Row(
                f"{' '.join(methods)} {test.metric}",
                (
                    TableCell(title, title),
                    TableCell(_metric_and_set(test.metric, test.set), _metric_and_set(test.metric, test.set)),
                    _signed(test.difference, means),
                    TableCell(test.verdict, test.verdict, tone=test.verdict, mark=mark),
                    TableCell(show_p(test.p), test.p),
                    TableCell(show_p(test.p_holm), test.p_holm),
                    TableCell("–" if test.hedges_g is None else f"{test.hedges_g:+.2f}", test.hedges_g),
                    TableCell(interval, None if test.boot_low is None else interval),
                    TableCell(_or_dash(test.detectable_difference), test.detectable_difference),
                    TableCell("–" if test.margin is None else f"{test.margin:g}", test.margin),
                    TableCell(test.note, test.note),
                ),
                "significant" if test.significant else "",
                method="\n".join(methods),
                folded=test.difference is None,
            )
        )
    about = "paired over shared seeds; they generalise to new seeds and new test samples"
    if group.context.n_seeds == 1:
        about = "over test samples, for these models as they are"
    legend = (
        f"Two-sided t-tests, {about}. † p < {alpha:.3g}, ‡ p < {alpha:.3g} Holm-corrected. Equivalent: the difference "
        "is smaller than the margin. Resampling increases ECE, so its bootstrap interval need not contain the "
        "difference. Detectable: minimum detectable difference (80 % power)."
    )
    others = "baseline" if reference is None else "other method"
    caption = f"{own[0].upper()}{own[1:]} against each {others}"
    if reference == BEST:
        legend += (
            " The reference is the method with the best mean on each metric, named on hover. p (Holm) then tests "
            "whether the other method is the best; it is corrected for selecting the best."
        )
    return without_empty_notes(Table(f"tests-{group.key}", caption, columns, tuple(rows), legend))


def _once_a_network(group: Group, tests: Sequence[TestRow]) -> list[tuple[TestRow, list[str]]]:
    """Return each test with the methods it is about: those on one network and in one family of Holm's have the same."""
    found: dict[tuple[str, ...], tuple[TestRow, list[str]]] = {}
    for test in tests:
        shared = bool(test.set) and is_shared(metric_key(test.metric, test.set))
        own = (group.network_of(test.method) if shared else "") or test.method
        key = own, test.metric, test.set, test.family, test.reference, test.verdict
        found.setdefault(key, (test, []))[1].append(test.method)
    return list(found.values())


def paper_table(group: Group, rows: Sequence[PaperComparison]) -> Table:
    """Return the paper's printed values and ours."""
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
        ours = MISSING if row.mean is None else TableCell(f"{row.mean:.4f}", row.mean, row.std, _spread(row.std))
        body.append(
            Row(
                f"{row.method} {row.metric}",
                (
                    TableCell(title, title),
                    TableCell(_metric_and_set(row.metric, row.set), _metric_and_set(row.metric, row.set)),
                    TableCell(
                        f"{row.paper_mean:g}",
                        row.paper_mean,
                        row.paper_std,
                        _spread(row.paper_std),
                        tip=row.paper_source,
                    ),
                    ours,
                    _signed(row.difference, ""),
                    TableCell("–" if row.difference_std is None else f"{row.difference_std:+.1f}", row.difference_std),
                    TableCell(show_p(row.p), row.p),
                    TableCell(row.note, row.note),
                ),
                method=row.method,
                folded=row.mean is None,
            )
        )
    return Table(
        f"paper-{group.key}",
        "Comparison with the paper",
        columns,
        tuple(body),
        "Values as the paper prints them; ours: mean ± standard deviation over seeds.",
    )


def without_empty_notes(table: Table) -> Table:
    """Return the table without its last column where that says nothing."""
    if any(row.cells[-1].text for row in table.rows):
        return table
    rows = tuple(replace(row, cells=row.cells[:-1]) for row in table.rows)
    return replace(table, columns=table.columns[:-1], rows=rows)


def _metric_and_set(metric: str, where: str) -> str:
    return full_name(metric_key(metric, where or "test"))


def _signed(value: float | None, tip: str) -> TableCell:
    return TableCell("–", None, tip=tip) if value is None else TableCell(f"{value:+.4f}", value, tip=tip)


def _spread(std: float | None) -> str:
    return "" if std is None else f"{std:.4f}"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if abs(value) >= 5e-5 or value == 0 else show_number(value)


WARM_UP: TrainingMark = "stopped in warm-up"


def training_table(group: Group) -> Table | None:
    """Return each method's epochs, best epochs and marks over its seeds, or None where no record has them."""
    rows = []
    for method in group.methods:
        by_seed = {seed: record.trainings for (name, seed), record in group.records.items() if name == method}
        logs = [log for trainings in by_seed.values() for log in trainings]
        if not logs:
            continue
        tip = "\n".join(
            f"seed {seed}: {', '.join(f'{log.best_epoch} of {log.epochs}' for log in by_seed[seed])}"
            for seed in sorted(by_seed)
        )
        rows.append(
            method_row(
                group,
                method,
                (
                    TableCell(str(len(logs)), float(len(logs))),
                    _range([log.epochs for log in logs], tip),
                    _range([log.max_epochs for log in logs], tip),
                    _range([log.best_epoch for log in logs], tip),
                    TableCell(_weights_kept(logs), _weights_kept(logs)),
                    _marks(logs),
                ),
            )
        )
    if not rows:
        return None
    columns = (
        Column("method", "Method", numeric=False),
        Column("networks", "Networks", help="trainings over all seeds, those of shared networks too"),
        Column("epochs", "Epochs"),
        Column("limit", "Limit", help="the most epochs a training may have"),
        Column("best_epoch", "Best epoch", help="the epoch with the lowest validation loss, before any temperature"),
        Column("kept", "Weights kept", numeric=False),
        Column("marks", "Marks", numeric=False),
    )
    legend = (
        "Lowest to highest over seeds and networks. Where fits may stop early they are marked: stopped early, still "
        "improving at the limit, or stopped during warm-up, where the chosen weights are arbitrary."
    )
    return Table(f"training-{group.key}", "Training", columns, tuple(rows), legend)


def warm_up_sentence(group: Group) -> str:
    """Return how many cells rest on a training that stopped during learning-rate warm-up; empty if none."""
    known = [record for record in group.records.values() if record.trainings]
    stopped = [record for record in known if any(WARM_UP in log.marks for log in record.trainings)]
    if not stopped:
        return ""
    return f"{len(stopped)} of {len(known)} cells rest on a training that stopped during learning-rate warm-up."


def _range(values: Sequence[int], tip: str) -> TableCell:
    low, high = min(values), max(values)
    return TableCell(str(low) if low == high else f"{low}–{high}", sum(values) / len(values), tip=tip)


def _weights_kept(logs: Sequence[TrainingLog]) -> str:
    stopping = [log.patience is not None for log in logs]
    return "best epoch’s" if all(stopping) else "last epoch’s" if not any(stopping) else "mixed"


def _marks(logs: Sequence[TrainingLog]) -> TableCell:
    count = Counter(mark for log in logs for mark in log.marks)
    words = "; ".join(f"{mark}: {n} of {len(logs)}" for mark, n in count.items()) or "–"
    return TableCell(words, words, tone="worse" if count[WARM_UP] or count["still improving"] else "")


_SELF = TableCell("·", None, tip="the same method")


def pair_matrix(group: Group, pairs: Sequence[TestRow]) -> Table:
    """Return, for every metric and set that was tested, the difference row − column of every two methods."""
    keys = list(dict.fromkeys(metric_key(test.metric, test.set or "test") for test in pairs))
    methods = [name for name in group.compared if any(name in (test.reference, test.method) for test in pairs)]
    cells: dict[tuple[str, str, str], TableCell] = {}
    for test in pairs:
        key = metric_key(test.metric, test.set or "test")
        cells[key, test.reference, test.method] = _cell(test, 1, test.verdict)
        cells[key, test.method, test.reference] = _cell(test, -1, TURNED.get(test.verdict, test.verdict))
    columns = [
        Column(f"{key}|{name}", group.title(name), families=(key,), help=f"{full_name(key)}, row − {group.title(name)}")
        for key in keys
        for name in methods
    ]
    rows = tuple(
        method_row(
            group,
            own,
            [_SELF if own == other else cells.get((key, own, other), MISSING) for key in keys for other in methods],
        )
        for own in methods
    )
    legend = (
        "Row − column, mean over shared seeds. Colour: the row is better, worse, or (blue) equivalent, Holm-corrected "
        "over all pairs of the metric; ‡ significant. p, Hedges’ g and interval on hover and in pairs.csv."
    )
    return Table(
        f"pairs-{group.key}",
        "All pairs",
        (Column("method", "Method", numeric=False), *columns),
        rows,
        legend,
        tuple((key, full_name(key)) for key in keys),
    )


def _cell(test: TestRow, sign: int, verdict: str) -> TableCell:
    if test.difference is None:
        return TableCell("–", None, tip=test.note)
    value = sign * test.difference
    parts = [verdict, f"p {show_p(test.p)}, Holm {show_p(test.p_holm)}"]
    if test.hedges_g is not None:
        parts.append(f"Hedges’ g {sign * test.hedges_g:+.2f}")
    if test.low is not None and test.high is not None:
        low, high = sorted((sign * test.low, sign * test.high))
        parts.append(f"interval [{low:+.4f}, {high:+.4f}]")
    return TableCell(
        f"{value:+.4f}", value, tip="\n".join(parts), tone=verdict,
        mark="‡" if test.significant_holm else "",
    )  # fmt: skip
