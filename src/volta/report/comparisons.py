"""The tables of a group that compare: VOLTA with each baseline, our values with the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volta.figures.names import full_name, is_shared, metric_key
from volta.paper import PaperComparison
from volta.report.run import Group
from volta.report.table_model import MISSING, Column, Row, Table, TableCell, show_number, show_p
from volta.stats import ALPHA, TestRow
from volta.stats.comparisons import BEST

VERDICT_WORDS = {
    "better": "better", "worse": "worse", "equivalent": "no difference that matters", "cannot tell": "cannot tell",
}  # fmt: skip
"""How a verdict on a pair reads; it is about the reference."""


def reference_title(group: Group, tests: Sequence[TestRow], reference: str | None) -> str:
    """Return the name of what the tests compare with: a method's title, or «the best method»."""
    if reference == BEST or not tests:
        return "the best method"
    return group.title(tests[0].reference)


def baseline_table(group: Group, tests: Sequence[TestRow], reference: str | None = None, alpha: float = ALPHA) -> Table:
    """Return the reference's tests against each other method, with what the test could have seen at all."""
    own = reference_title(group, tests, reference)
    columns = (
        Column("baseline", "Baseline" if reference is None else "Method", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("difference", "VOLTA − baseline" if reference is None else "Reference − method"),
        Column("verdict", "Verdict", numeric=False, help="after Holm’s correction, with the margin of the metric"),
        Column("p", "p", "", help="two-sided t-test over seeds and test rows, paired over shared seeds"),
        Column("p_holm", "p (Holm)", "", help="corrected over the methods of one origin on this metric"),
        Column("hedges_g", "Hedges’ g"),
        Column("interval", "Bootstrap 95 %", numeric=False, help="hierarchical bootstrap over seeds and test rows"),
        Column(
            "detectable_difference", "Detectable", help="true difference found with 80 % power at this number of seeds"
        ),
        Column("margin", "Margin", help="the smallest difference that matters"),
        Column("note", "Note", numeric=False),
    )
    rows = []
    for test, methods in _once_a_network(group, tests):
        title = ", ".join(map(group.title, methods))
        verdict = VERDICT_WORDS[test.verdict]
        interval = (
            "–" if test.boot_low is None or test.boot_high is None else f"[{test.boot_low:+.4f}, {test.boot_high:+.4f}]"
        )
        tone = {"better": "good", "worse": "bad", "equivalent": "tie"}.get(test.verdict, "")
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
                    TableCell(verdict, verdict, tone=tone, mark=mark),
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
    about = "paired over shared seeds, about new seeds and new test rows"
    if group.context.n_seeds == 1:
        about = "about new test rows for these models as they are"
    legend = (
        f"Two-sided t-tests, {about}; "
        f"† p < {alpha:.3g}, ‡ p < {alpha:.3g} after Holm. «No difference that matters»: shown to be smaller than the "
        "margin. The bootstrap interval is over seeds and rows too; as ECE grows when rows are drawn again, its "
        "interval need not hold the difference itself. «Detectable» is the true difference such a test finds in 80 % "
        "of runs."
    )
    others = "baseline" if reference is None else "other method"
    caption = f"{own[0].upper()}{own[1:]} against each {others}"
    if reference == BEST:
        legend += (
            " The reference is the method with the best mean on each metric, named on hover; p (Holm) is then that of "
            "«this other method is the best of all», which pays for having looked who leads."
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
        "Beside the paper",
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
