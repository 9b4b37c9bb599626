"""Our method against each baseline: `tests.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from volta.metrics import METRICS
from volta.stats.bootstrap import Bootstrap
from volta.stats.csv_rows import joined_notes
from volta.stats.holm import holm
from volta.stats.pair_test import compare_pair
from volta.stats.results import BASELINE_ORIGINS, TEST_SET, Results
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA

COMPARED_METRICS = ("accuracy", "ece", "brier", "nll", "auroc")
_DECIMALS = 12
NO_OOD = "the task has no OOD set"


@dataclass(frozen=True)
class TestRow:
    """One two-sided Welch test of VOLTA against one baseline; empty fields are explained in ``note``.

    ``difference`` is VOLTA − baseline; ``significant`` means p < 0.05, ``significant_holm`` the same after Holm's
    correction over the family; ``boot_low``, ``boot_high``: the paired bootstrap interval of
    the difference over test rows.
    """

    task: str
    protocol: str
    metric: str
    set: str
    baseline: str
    n_volta: int
    n_baseline: int
    mean_volta: float | None
    mean_baseline: float | None
    difference: float | None
    p: float | None
    p_holm: float | None
    hedges_g: float | None
    significant: bool | None
    detectable_difference: float | None
    boot_low: float | None
    boot_high: float | None
    significant_holm: bool | None
    note: str

    __test__ = False


def compare_with_baselines(
    tables: Iterable[Results], bootstraps: Mapping[tuple[str, str], Bootstrap | str] | None = None
) -> list[TestRow]:
    """Return Welch's test of VOLTA against each baseline on accuracy, ECE, Brier, NLL and near-OOD AUROC.

    Holm's family is every metric and every baseline of the paper, under one task and protocol; extra methods form a
    family of their own, so that running more of them does not move the paper's comparison.

    bootstraps: (task, protocol) → the paired bootstrap of its methods, or the reason there is none.
    """
    rows: list[TestRow] = []
    for table in tables:
        ours = table.ours
        if ours is None:
            continue
        source = (bootstraps or {}).get((table.task, table.protocol), "no bootstrap was asked for")
        compared = [
            _compare(table, ours, metric, eval_set, baseline, source)
            for metric, eval_set in compared_sets(table)
            for baseline in table.baselines
        ]
        corrected: dict[int, float | None] = {}
        for origin in BASELINE_ORIGINS:
            family = [index for index, row in enumerate(compared) if table.origins[row.baseline] == origin]
            corrected |= zip(family, holm([compared[index].p for index in family]), strict=True)
        rows += [
            replace(row, p_holm=corrected[index], significant_holm=below_alpha(corrected[index]))
            for index, row in enumerate(compared)
        ]
    return rows


def compared_sets(table: Results) -> Iterator[tuple[str, str]]:
    """Give (metric, set) of every test: AUROC on each near-OOD set, or on "" where the task has none."""
    for metric in COMPARED_METRICS:
        for eval_set in (table.near_sets or ("",)) if METRICS[metric].on_ood_sets else (TEST_SET,):
            yield metric, eval_set


def below_alpha(p: float | None) -> bool | None:
    """Return whether p < 0.05, or None where there is no p."""
    return None if p is None else p < ALPHA


def _compare(table: Results, ours: str, metric: str, eval_set: str, baseline: str, source: Bootstrap | str) -> TestRow:
    own, other = table.sample(ours, eval_set, metric), table.sample(baseline, eval_set, metric)
    row = TestRow(
        table.task, table.protocol, metric, eval_set, baseline, _n(own), _n(other), _mean(own), _mean(other),
        None, None, None, None, None, None, None, None, None, "",
    )  # fmt: skip
    if own is None or other is None:
        lacking = [name for name, sample in ((ours, own), (baseline, other)) if sample is None]
        note = f"no {metric} for {' and '.join(lacking)}" if eval_set else NO_OOD
        return replace(row, note=note)
    test = compare_pair(own, other)
    interval, why = None, source if isinstance(source, str) else ""
    if isinstance(source, Bootstrap):
        interval = source.difference(metric, eval_set, ours, baseline)
        why = "" if interval else "no bootstrap: no stored predictions for this pair"
    return replace(
        row,
        difference=test.difference,
        p=test.p,
        hedges_g=test.hedges_g,
        significant=below_alpha(test.p),
        detectable_difference=test.detectable_difference,
        boot_low=None if interval is None else round(interval[0], _DECIMALS),
        boot_high=None if interval is None else round(interval[1], _DECIMALS),
        note=joined_notes(test.note, why, _seeds_note(table, ours, baseline)),
    )


def _seeds_note(table: Results, ours: str, baseline: str) -> str:
    missing = sorted(set(table.seeds(ours)) - set(table.seeds(baseline)))
    return f"{baseline} lacks seed(s) {', '.join(map(str, missing))}" if missing else ""


def _n(sample: Sample | None) -> int:
    return 0 if sample is None else sample.n


def _mean(sample: Sample | None) -> float | None:
    return None if sample is None else sample.mean
