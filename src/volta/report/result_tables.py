"""The tables of a group: results, ablation, corrupted sets, comparisons, training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from volta.bench.cell_metrics import TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP
from volta.bench.records import EXTERNAL
from volta.figures.shift import SHIFT_METRICS, shift_values
from volta.figures.style import (
    THOUSANDTHS,
    full_name,
    heading,
    is_shared,
    metric_key,
    metric_name,
    metric_of,
    set_label,
    set_name,
    split_key,
)
from volta.metrics import METRICS
from volta.metrics.expected_ece import EXPECTED_ECE_METRICS, show_expected_ece
from volta.networks.recipe import TrainingMark
from volta.paper import PaperComparison, recompute_paper_tests
from volta.report.run import Group
from volta.report.statistics import ALL_PAIRS, Statistics
from volta.report.table_model import (
    MISSING,
    Column,
    Row,
    Table,
    TableCell,
    decimals_for,
    mark_best,
    number_cell,
    show,
    show_number,
    show_p,
    text_cell,
)
from volta.stats.comparisons import BEST, TURNED, AblationRow, TestRow
from volta.stats.results import Sample, sample_of

FAMILY_NAMES = {
    "headline": "Headline",
    "prediction": "Prediction",
    "calibration": "Calibration",
    "selective": "Selective",
    "ood": "OOD",
    "conformal": "Conformal",
    "efficiency": "Cost",
}
EXPECTED_ECE_LEGEND = " Hover an ECE for the range expected under perfect calibration."
NETWORK_LEGEND = " Methods with one letter are post-hoc on one network: same accuracy, ECE, NLL and Brier score."
COMPACT_OOD = ("auroc", "aupr_out", "fpr95", "oscr", "scod_aurc")
ORIGINS = {
    "volta": "VOLTA",
    "paper": "paper’s baseline",
    "extra": "extra",
    "ablation": "ablation",
    EXTERNAL: "external predictions",
}


EXPECTED = "under perfect calibration:"
DIFFERS = "†"
"""Marks a value whose pair has the primary verdict better or worse."""
METHOD = Column("method", "Method", numeric=False)
METRIC = Column("metric", "Metric", numeric=False)
NOTE = Column("note", "Note", numeric=False)
MEANS = "Mean ± standard deviation over seeds"


def results_table(group: Group, own: Statistics) -> Table:
    """Return mean ± std of every metric of every compared method, marked where VOLTA differs."""
    tests = {(test.method, metric_key(test.metric, test.set)): test for test in own.tests if test.set}
    paper = {(row.method, metric_key(row.metric, row.set)): row for row in own.paper}
    headline, methods = group.headline, list(group.compared)
    keys = list(dict.fromkeys([*headline, *_all_keys(group)]))

    def entry(method: str, key: str, decimals: int) -> TableCell:
        cell, test, in_paper = (
            value_entry(group, method, key, decimals),
            tests.get((method, key)),
            paper.get((method, key)),
        )
        if test is not None and test.difference is not None:
            tip = f"{cell.tip}\n{_test_tip(test, group.title(test.reference))}"
            cell = replace(cell, mark=DIFFERS if differs(test) else "", tip=tip)
        if in_paper is not None:
            spread = "" if in_paper.paper_std is None else f" ± {in_paper.paper_std:g}"
            cell = replace(cell, paper=f"{in_paper.paper_mean:g}{spread}")
        return cell

    columns = [metric_column(key, (*(("headline",) if key in headline else ()), metric_of(key).family)) for key in keys]
    grid = metric_grid(group, methods, keys, entry)
    rows = [
        method_row(group, method, cells, f"{method} ({ORIGINS.get(group.origin(method), '')})")
        for method, cells in grid.items()
    ]
    present = {family for column in columns for family in column.families}
    families = tuple((key, label) for key, label in FAMILY_NAMES.items() if key in present)
    one_seed = group.context.n_seeds == 1
    legend = "Values of one seed; bold: best." if one_seed else f"{MEANS}; bold: best mean."
    if own.tests:
        against = reference_title(group, own.tests, own.reference)
        tested = "over test samples" if one_seed else "paired over seeds"
        legend += f" {DIFFERS} better or worse than {against} ({tested}, Holm-corrected, level {own.alpha:.3g})."
    cells = [cell for row in grid.values() for cell in row]
    legend += EXPECTED_ECE_LEGEND if any(EXPECTED in cell.tip for cell in cells) else ""
    legend += " Small figures: the value printed in the paper." if any(cell.paper for cell in cells) else ""
    together = NETWORK_LEGEND if group.networks else ""
    return Table(f"results-{group.key}", "Results", (METHOD, *columns), rows, legend, families, page_legend=together)


def metric_grid(
    group: Group, methods: Sequence[str], keys: Sequence[str], entry: Callable[[str, str, int], TableCell]
) -> dict[str, list[TableCell]]:
    """Return the cells of each method, one a metric, the best of each metric marked.

    ``entry`` makes a cell of method, metric and the decimals that its column needs.
    """
    grid: dict[str, list[TableCell]] = {method: [] for method in methods}
    for key in keys:
        decimals = column_decimals(group, methods, key)
        cells = mark_best([entry(method, key, decimals) for method in methods], metric_of(key).higher_is_better)
        for method, cell in zip(methods, cells, strict=True):
            grid[method].append(cell)
    return grid


def ablation_table(group: Group, rows: Sequence[AblationRow]) -> Table:
    """Return the ablation rows with their values, marked against the full model (†) and against VOLTA (*)."""
    names = list(dict.fromkeys([*(row.row for row in rows), *(row.reference for row in rows)]))
    names = [name for name in names if name in group.methods]
    keys = ["accuracy", "ece", "nll", "brier", *(f"auroc@{name}" for name in group.near_first[:1])]
    tests: dict[tuple[str, str], list[AblationRow]] = {}
    for row in rows:
        tests.setdefault((row.row, metric_key(row.metric, row.set)), []).append(row)

    def entry(name: str, key: str, decimals: int) -> TableCell:
        cell = value_entry(group, name, key, decimals)
        for test in tests.get((name, key), ()):
            mark = "*" if group.is_ours(test.reference) else DIFFERS
            words = test.note
            if test.difference is not None:
                words = f"{test.difference:+.4f}, {test.verdict}, p (Holm) {show_p(test.p_holm)}"
            tip = f"{cell.tip}\nagainst {group.title(test.reference)}: {words}"
            cell = replace(cell, tip=tip, mark=cell.mark + (mark if differs(test) else ""))
        return cell

    columns = (Column("row", "Row", numeric=False), *map(metric_column, keys))
    grid = metric_grid(group, names, keys, entry)
    body = [replace(method_row(group, name, cells), kind="ablation") for name, cells in grid.items()]
    legend = (
        f"{MEANS}. {DIFFERS} better or worse than full VOLTA, * than VOLTA (paired over seeds, Holm-corrected over all "
        "rows and metrics of one reference; verdict and p on hover and in ablation.csv)."
    )
    return Table(f"ablation-{group.key}", "Ablation", columns, body, legend)


def ood_table(group: Group) -> Table:
    """Return the summary of OOD detection: each metric averaged over the near and over the far OOD sets."""
    found = {where: _metrics_on(group, where) for where in group.ood_means}
    keys = [metric_key(metric, where) for metric in COMPACT_OOD for where in found if metric in found[where]]
    grid = metric_grid(group, group.compared, keys, partial(value_entry, group))
    legend = "Mean over OOD sets ± standard deviation over seeds; bold: best mean."
    rows = [method_row(group, method, cells) for method, cells in grid.items()]
    return Table(f"ood-{group.key}", "OOD detection", (METHOD, *map(metric_column, keys)), rows, legend)


def shifts_table(group: Group) -> Table:
    """Return accuracy, ECE, NLL and Brier of every method on every corrupted test set."""
    methods = list(group.compared)
    columns, families = [METHOD], []
    grid: dict[str, list[TableCell]] = {method: [] for method in methods}
    for metric in SHIFT_METRICS:
        values = {method: shift_values(group.method_values[method], metric, group.sets("shift")) for method in methods}
        names = dict.fromkeys(name for method in group.compared for name in values[method])
        if names:
            families.append((metric, metric_name(metric)))
        for name in names:
            columns.append(Column(f"{metric}@{name}", set_name(name), arrow(metric), (metric,)))
            cells = [_seeds_entry(metric, values[method].get(name, ())) for method in methods]
            for method, cell in zip(methods, mark_best(cells, METRICS[metric].higher_is_better), strict=True):
                grid[method].append(cell)
    legend = f"{MEANS}; bold: best mean." + (NETWORK_LEGEND if group.networks else "")
    rows = [method_row(group, method, cells) for method, cells in grid.items()]
    return Table(f"shifts-{group.key}", "Corrupted test sets", columns, rows, legend, families)


def value_entry(group: Group, method: str, key: str, decimals: int = 3) -> TableCell:
    """Return the cell of one method and metric: mean, deviation, and the value of each seed on hover."""
    metric, where = split_key(key)
    by_seed = group.table.of(method, where, metric)
    seeds = "\n".join(f"seed {seed}: {show(metric, by_seed[seed], decimals)}" for seed in sorted(by_seed))
    expected = _expected_ece(group, method, metric, where, decimals)
    tip = "\n".join(part for part in (seeds or "no value", expected and f"{EXPECTED} {expected}") if part)
    return replace(_entry(metric, group.sample(method, key), decimals), tip=tip)


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
    means = [sample.mean for method in methods if (sample := group.sample(method, key)) is not None]
    return decimals_for(split_key(key)[0], means)


def metric_column(key: str, families: tuple[str, ...] = ()) -> Column:
    """Return the column of a metric, its set next to its name and its formula on hover."""
    metric = split_key(key)[0]
    formula = METRICS[metric].formula
    return Column(key, table_heading(key), arrow(metric), families, set_label(key), help=formula)


def table_heading(key: str) -> str:
    """Return a metric's heading in a table, where the unit of a time stands with each value."""
    metric = split_key(key)[0]
    return f"{heading(key)} × 1000" if metric in THOUSANDTHS else heading(key).removesuffix(", ms")


def method_row(group: Group, method: str, cells: Sequence[TableCell], tip: str = "") -> Row:
    """Return a method's row, its title first, with the letter of a network that it shares."""
    title = group.title(method)
    letter, together = group.network_of(method)
    return Row(
        method,
        (TableCell(title, title, tip=tip or method), *cells),
        group.origin(method),
        group.is_ours(method),
        network=letter,
        network_tip=f"one network: {', '.join(map(group.title, together))}" if together else "",
    )


def _seeds_entry(metric: str, values: Sequence[float]) -> TableCell:
    tip = "\n".join(show(metric, value) for value in values)
    return replace(_entry(metric, sample_of(values)), tip=tip) if values else MISSING


def _entry(metric: str, sample: Sample | None, decimals: int = 3) -> TableCell:
    if sample is None:
        return MISSING
    std_text = "" if sample.std is None else show(metric, sample.std, decimals)
    return TableCell(show(metric, sample.mean, decimals), sample.mean, sample.std, std_text)


def _all_keys(group: Group) -> list[str]:
    keys: dict[str, None] = {}
    ood_sets = [name for name in group.near_first if not group.is_a_mean_alone(name)]
    for where in (*map(str, (TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP)), *group.ood_means, *ood_sets):
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


def _test_tip(test: TestRow, own: str) -> str:
    return f"{own} − this: {test.difference:+.4f}\n{own} is {test.verdict}, p (Holm) {show_p(test.p_holm)}"


def differs(test: TestRow | AblationRow) -> bool:
    """Whether a pair's primary verdict is that one is better."""
    return test.verdict in ("better", "worse")


def reference_title(group: Group, tests: Sequence[TestRow], reference: str | None) -> str:
    """Return the name of what the tests compare with: a method's title, or "the best method"."""
    if reference == BEST or not tests:
        return "the best method"
    return group.title(tests[0].reference)


def baseline_table(group: Group, own: Statistics) -> Table:
    """Return the tests of the reference against every other method, with their minimum detectable differences."""
    ours, named = reference_title(group, own.tests, own.reference), own.reference is not None
    columns: Sequence[Column] = (
        Column("baseline", "Method" if named else "Baseline", numeric=False),
        METRIC,
        Column("difference", "Reference − method" if named else "VOLTA − baseline"),
        Column("verdict", "Verdict", numeric=False, help="primary: Holm-corrected, with the margin of the metric"),
        Column("p_holm", "p (Holm)", "", help="corrected within the family that tests.csv names"),
        Column("p", "p, uncorrected", "", help="secondary: over seeds and test samples, paired over shared seeds"),
        Column("hedges_g", "Hedges’ g"),
        Column("interval", "Bootstrap 95 %", numeric=False, help="hierarchical bootstrap over seeds and test samples"),
        Column("detectable_difference", "Detectable", help="minimum detectable difference (80 % power)"),
        Column("margin", "Margin", help="smaller differences count as equivalent"),
        NOTE,
    )
    rows = []
    for test, methods in _once_a_network(group, own.tests):
        title = ", ".join(map(group.title, methods))
        known = test.boot_low is not None and test.boot_high is not None
        interval = f"[{test.boot_low:+.4f}, {test.boot_high:+.4f}]" if known else "–"
        means = (
            f"{group.title(test.reference)} {_or_dash(test.mean_reference)} (n = {test.n_reference})\n"
            f"{title} {_or_dash(test.mean_method)} (n = {test.n_method})"
        )
        cells = (
            text_cell(title),
            text_cell(_metric_and_set(test.metric, test.set)),
            number_cell(test.difference, "+.4f", means),
            TableCell(test.verdict, test.verdict, tone=test.verdict, tip=f"family: {test.family}"),
            TableCell(show_p(test.p_holm), test.p_holm),
            TableCell(show_p(test.p), test.p),
            number_cell(test.hedges_g, "+.2f"),
            TableCell(interval, interval if known else None),
            TableCell(_or_dash(test.detectable_difference), test.detectable_difference),
            number_cell(test.margin, "g"),
            text_cell(test.note),
        )
        kind = "significant" if differs(test) else ""
        name = f"{' '.join(methods)} {test.metric}"
        rows.append(Row(name, cells, kind, method="\n".join(methods), folded=test.difference is None))
    about = "paired over shared seeds; they generalise to new seeds and new test samples"
    if group.context.n_seeds == 1:
        about = "over test samples, for these models as they are"
    level = f"p < {own.alpha:.3g}"
    legend = (
        f"Two-sided tests, {about}. Better, worse: {level}, Holm-corrected. Equivalent: the difference "
        "is smaller than the margin. Resampling increases ECE, so its bootstrap interval need not contain the "
        "difference. Detectable: minimum detectable difference (80 % power)."
    )
    if own.reference == BEST:
        legend += " The reference is the method with the best mean on each metric, named on hover."
    caption = f"{ours[0].upper()}{ours[1:]} against each {'other method' if named else 'baseline'}"
    if not any(row.cells[-1].text for row in rows):
        columns, rows = columns[:-1], [replace(row, cells=row.cells[:-1]) for row in rows]
    return Table(f"tests-{group.key}", caption, columns, rows, legend)


def _once_a_network(group: Group, tests: Sequence[TestRow]) -> list[tuple[TestRow, list[str]]]:
    """Return each test with the methods it is about: those on one network and in one family of Holm's have the same."""
    found: dict[tuple[str, ...], tuple[TestRow, list[str]]] = {}
    for test in tests:
        if group.is_a_mean_alone(test.set):
            continue
        shared = bool(test.set) and is_shared(metric_key(test.metric, test.set))
        own = (group.network_of(test.method)[0] if shared else "") or test.method
        key = own, test.metric, test.set, test.family, test.reference, test.verdict
        found.setdefault(key, (test, []))[1].append(test.method)
    return list(found.values())


def paper_table(group: Group, rows: Sequence[PaperComparison]) -> Table:
    """Return the paper's printed values and ours."""
    columns = (
        METHOD,
        METRIC,
        Column("paper_mean", "Paper"),
        Column("mean", "Ours"),
        Column("difference", "Ours − paper"),
        Column("difference_std", "in std"),
        Column("p", "p", help="Welch’s test against the printed mean ± std with n = 3"),
        NOTE,
    )
    body = []
    for row in rows:
        printed = TableCell(f"{row.paper_mean:g}", row.paper_mean, row.paper_std, _spread(row.paper_std))
        ours = MISSING if row.mean is None else TableCell(f"{row.mean:.4f}", row.mean, row.std, _spread(row.std))
        cells = (
            text_cell(group.title(row.method)),
            text_cell(_metric_and_set(row.metric, row.set)),
            replace(printed, tip=row.paper_source),
            ours,
            number_cell(row.difference, "+.4f"),
            number_cell(row.difference_std, "+.1f"),
            TableCell(show_p(row.p), row.p),
            text_cell(row.note),
        )
        body.append(Row(f"{row.method} {row.metric}", cells, method=row.method, folded=row.mean is None))
    legend = "Values as the paper prints them; ours: mean ± standard deviation over seeds."
    return Table(f"paper-{group.key}", "Comparison with the paper", columns, body, legend)


def paper_tests_table(group: Group, tests: Sequence[TestRow], ablation: Sequence[AblationRow]) -> Table | None:
    """Return the tests that the paper states, recomputed from what it prints, with ours of the same two methods.

    None where the paper states no test of the group's task.
    """
    ours: dict[tuple[str, str, str, str], TestRow | AblationRow] = {
        (row.reference, row.row, row.metric, row.set): row for row in ablation
    }
    ours |= {(test.reference, test.method, test.metric, test.set): test for test in tests}
    columns = (
        METHOD,
        Column("second", "Compared with", numeric=False),
        METRIC,
        Column("statement", "Paper states", numeric=False),
        Column("p", "Recomputed", help="Welch’s p from the printed mean ± std, n = 3 each"),
        Column("range", "By rounding", numeric=False, help="p over all values that round to the printed ones"),
        Column("p_welch", "Ours, Welch", help="secondary: the same test over our seeds, uncorrected"),
        Column("verdict", "Verdict", numeric=False, help="primary: paired, Holm-corrected, with the metric's margin"),
        Column("p_holm", "p (Holm)", help="of the primary verdict"),
    )
    rows = []
    for row in recompute_paper_tests():
        own = ours.get((row.first, row.second, row.metric, row.set))
        spread = "–" if row.p_low is None else f"{show_p(row.p_low)} to {show_p(row.p_high)}"
        cells = (
            text_cell(group.title(row.first)),
            text_cell(group.title(row.second)),
            text_cell(_metric_and_set(row.metric, row.set)),
            text_cell(row.statement or "–"),
            TableCell(show_p(row.p), row.p, tip=row.note),
            text_cell(spread),
            MISSING if own is None else TableCell(show_p(own.p_welch), own.p_welch),
            MISSING if own is None else TableCell(own.verdict, own.verdict, tone=own.verdict),
            MISSING if own is None else TableCell(show_p(own.p_holm), own.p_holm),
        )
        if row.task == group.task:
            rows.append(Row(f"{row.first} {row.second} {row.metric}", cells, method=row.second))
    legend = "Welch’s test as in the paper. Our verdict rests on paired tests and is about the reference or the row."
    return Table(f"paper-tests-{group.key}", "The paper’s tests", columns, rows, legend) if rows else None


def _metric_and_set(metric: str, where: str) -> str:
    return full_name(metric_key(metric, where or "test"))


def _spread(std: float | None) -> str:
    return "" if std is None else f"{std:.4f}"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if abs(value) >= 5e-5 or value == 0 else show_number(value)


WARM_UP: TrainingMark = "stopped in warm-up"


def training_table(group: Group) -> Table | None:
    """Return each method's epochs, best epochs and marks over its seeds, or None where no record has them."""
    rows = []
    for method in group.methods:
        by_seed = {seed: record.trainings for (name, seed), record in sorted(group.records.items()) if name == method}
        logs = [log for trainings in by_seed.values() for log in trainings]
        if not logs:
            continue
        tip = "\n".join(
            f"seed {seed}: {', '.join(f'{log.best_epoch} of {log.epochs}' for log in own)}"
            for seed, own in by_seed.items()
        )
        ranges = [_range([getattr(log, name) for log in logs], tip) for name in ("epochs", "max_epochs", "best_epoch")]
        n_networks = TableCell(str(len(logs)), float(len(logs)))
        stopping = {log.patience is not None for log in logs}
        kept = "mixed" if len(stopping) > 1 else "best epoch’s" if True in stopping else "last epoch’s"
        count = Counter(mark for log in logs for mark in log.marks)
        words = "; ".join(f"{mark}: {n} of {len(logs)}" for mark, n in count.items()) or "–"
        marks = TableCell(words, words, tone="worse" if count[WARM_UP] or count["still improving"] else "")
        rows.append(method_row(group, method, (n_networks, *ranges, text_cell(kept), marks)))
    if not rows:
        return None
    columns = (
        METHOD,
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
    return Table(f"training-{group.key}", "Training", columns, rows, legend)


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


def group_tables(group: Group, own: Statistics) -> dict[str, Table]:
    """Return the tables of a group that hold something, by the part of the page that each belongs to."""
    found: dict[str, Table | None] = {"results": results_table(group, own) if group.compared else None}
    if own.reference == ALL_PAIRS and own.pairs:
        found["tests"] = pair_matrix(group, own.pairs)
    elif own.tests:
        found["tests"] = baseline_table(group, own)
    found |= {
        "ood": ood_table(group) if group.ood_means else None,
        "ablation": ablation_table(group, own.ablation) if own.ablation else None,
        "shifts": shifts_table(group) if group.sets("shift") else None,
        "training": training_table(group),
        "paper": paper_table(group, own.paper) if own.paper else None,
        "paper_tests": paper_tests_table(group, own.tests, own.ablation) if own.paper else None,
    }
    return {part: table for part, table in found.items() if table is not None}


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
    rows = [
        method_row(
            group,
            own,
            [_SELF if own == other else cells.get((key, own, other), MISSING) for key in keys for other in methods],
        )
        for own in methods
    ]
    legend = (
        "Row − column, mean over shared seeds. Colour: the row is better, worse, or (blue) equivalent, Holm-corrected "
        "within the family of each pair; † significant. p, Hedges’ g and interval on hover and in pairs.csv."
    )
    families = [(key, full_name(key)) for key in keys]
    return Table(f"pairs-{group.key}", "All pairs", (METHOD, *columns), rows, legend, families)


def _cell(test: TestRow, sign: int, verdict: str) -> TableCell:
    if test.difference is None:
        return TableCell("–", None, tip=test.note)
    value = sign * test.difference
    parts = [verdict, f"p (Holm) {show_p(test.p_holm)}, family {test.family}"]
    if test.hedges_g is not None:
        parts.append(f"Hedges’ g {sign * test.hedges_g:+.2f}")
    if test.low is not None and test.high is not None:
        low, high = sorted((sign * test.low, sign * test.high))
        parts.append(f"interval [{low:+.4f}, {high:+.4f}]")
    cell = number_cell(value, "+.4f", "\n".join(parts))
    return replace(cell, tone=verdict, mark=DIFFERS if differs(test) else "")
