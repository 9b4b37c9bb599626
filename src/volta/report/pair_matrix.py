"""All pairs of methods as a matrix: one for each metric, adjusted p and effect size on hover."""

from __future__ import annotations

from collections.abc import Sequence

from volta.figures.names import full_name, metric_key
from volta.report.comparisons import VERDICT_WORDS
from volta.report.run import Group
from volta.report.table_model import MISSING, Column, Row, Table, TableCell, show_p
from volta.stats import TestRow

_TURNED = {"better": "worse", "worse": "better"}
_TONES = {"better": "good", "worse": "bad", "equivalent": "tie"}
_SELF = TableCell("·", None, tip="the same method")


def pair_matrix(group: Group, pairs: Sequence[TestRow]) -> Table:
    """Return, for every metric and set that was tested, the difference row − column of every two methods."""
    keys = list(dict.fromkeys(metric_key(test.metric, test.set or "test") for test in pairs))
    methods = [name for name in group.compared if any(name in (test.reference, test.method) for test in pairs)]
    cells: dict[tuple[str, str, str], TableCell] = {}
    for test in pairs:
        key = metric_key(test.metric, test.set or "test")
        cells[key, test.reference, test.method] = _cell(test, 1, test.verdict)
        cells[key, test.method, test.reference] = _cell(test, -1, _TURNED.get(test.verdict, test.verdict))
    columns = [
        Column(f"{key}|{name}", group.title(name), families=(key,), help=f"{full_name(key)}, row − {group.title(name)}")
        for key in keys
        for name in methods
    ]
    rows = tuple(
        Row(
            own,
            (
                TableCell(group.title(own), group.title(own), tip=own),
                *(
                    _SELF if own == other else cells.get((key, own, other), MISSING)
                    for key in keys
                    for other in methods
                ),
            ),
            group.origin(own),
            group.is_ours(own),
        )
        for own in methods
    )
    legend = (
        "Row − column, mean over shared seeds. Colour: what the tests say of the row after Holm’s correction over all "
        "pairs of the metric: better, worse, or (blue) no difference that matters; ‡ significant after Holm. "
        "p, Hedges’ g and interval on hover and in pairs.csv."
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
    parts = [VERDICT_WORDS[verdict], f"p {show_p(test.p)}, Holm {show_p(test.p_holm)}"]
    if test.hedges_g is not None:
        parts.append(f"Hedges’ g {sign * test.hedges_g:+.2f}")
    if test.low is not None and test.high is not None:
        low, high = sorted((sign * test.low, sign * test.high))
        parts.append(f"interval [{low:+.4f}, {high:+.4f}]")
    return TableCell(
        f"{value:+.4f}", value, tip="\n".join(parts), tone=_TONES.get(verdict, ""),
        mark="‡" if test.significant_holm else "",
    )  # fmt: skip
