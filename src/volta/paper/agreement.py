"""Our values next to the paper's: `paper.csv`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from volta.paper.values import ONLY_OOD_SET, PaperValue, paper_values
from volta.stats import Results, Sample, welch
from volta.stats.csv_rows import joined_notes


@dataclass(frozen=True)
class PaperComparison:
    """One value of the paper and ours; ``difference`` is ours − paper, ``difference_std`` the same in deviations.

    The deviation is √((s_ours² + s_paper²)/2) where both are known, else the one that is; ``note`` says which.
    ``p``: Welch's test of ours against the printed mean ± std with n = 3, where it prints a deviation.
    """

    task: str
    protocol: str
    method: str
    set: str
    metric: str
    paper_mean: float
    paper_std: float | None
    paper_source: str
    n: int
    mean: float | None
    std: float | None
    difference: float | None
    difference_std: float | None
    p: float | None
    note: str


def compare_with_paper(tables: Iterable[Results]) -> list[PaperComparison]:
    """Return every value the paper prints for the tasks in ``tables``, and ours where we have one."""
    return [
        _compare(table, value)
        for table in tables
        if not table.is_own
        for value in paper_values()
        if value.task == table.task
    ]


def _compare(table: Results, value: PaperValue) -> PaperComparison:
    paper = value.sample
    eval_set = value.set if value.set != ONLY_OOD_SET else next(iter(table.near_sets), value.set)
    ours = table.sample(value.method, eval_set, value.metric)
    protocol_note = "" if table.protocol == "paper" else f"the paper's own protocol is not {table.protocol!r}"
    if ours is None:
        return PaperComparison(
            table.task, table.protocol, value.method, eval_set, value.metric, paper.mean, paper.std,
            value.source, 0, None, None, None, None, None, joined_notes("not measured in this run", protocol_note),
        )  # fmt: skip
    difference = ours.mean - paper.mean
    scale, scale_note = _scale(ours, paper)
    test = welch(ours, paper)
    return PaperComparison(
        table.task, table.protocol, value.method, eval_set, value.metric, paper.mean, paper.std,
        value.source, ours.n, ours.mean, ours.std, difference, difference / scale if scale else None, test.p,
        joined_notes(scale_note, _test_note(paper, test.reason), protocol_note),
    )  # fmt: skip


def _test_note(paper: Sample, reason: str) -> str:
    return reason if paper.testable else "no test: the paper prints no standard deviation"


def _scale(ours: Sample, paper: Sample) -> tuple[float, str]:
    if ours.std is not None and paper.std is not None:
        scale, note = math.sqrt((ours.std**2 + paper.std**2) / 2), ""
    elif ours.std is not None:
        scale, note = ours.std, "in our standard deviations"
    elif paper.std is not None:
        scale, note = paper.std, "in the paper's standard deviations"
    else:
        return 0.0, "no standard deviation on either side"
    return scale, note if scale else "the standard deviation is 0"
