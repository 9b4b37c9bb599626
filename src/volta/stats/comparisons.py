"""A reference against every other method, and all pairs: `tests.csv` and `pairs.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from volta.bench.eval_set import FAR, NEAR, TEST_AFTER_TEMPERATURE, TEST_BY_MSP
from volta.core.errors import InputError
from volta.metrics import METRICS
from volta.stats.best import best_method, p_best
from volta.stats.bootstrap import Bootstrap
from volta.stats.holm import holm_distinct
from volta.stats.margins import margin_of
from volta.stats.pairs import NO_OOD, PairTest, PairVerdict, compare_pair, verdict_on
from volta.stats.results import ABLATION_ORIGIN, TEST_SET, Results
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA

__all__ = ["NO_OOD", "TestRow", "compare_all_pairs", "compare_with_reference", "compared_sets", "tested_sets"]

COMPARED_METRICS = ("accuracy", "ece", "brier", "nll", "auroc")
"""What the paper compares."""
BEST = "best"
NOT_RESAMPLED = "rows not resampled: no bootstrap was asked for"
AFTER_TEMPERATURE = str(TEST_AFTER_TEMPERATURE)
BY_CONFIDENCE = str(TEST_BY_MSP)
OOD_AVERAGES = (str(NEAR), str(FAR))
_DECIMALS = 12

Bootstraps = Mapping[tuple[str, str], Bootstrap | str]
"""(task, protocol) → the bootstrap of its methods, or the reason there is none."""


@dataclass(frozen=True)
class TestRow:
    """One two-sided test of ``reference`` against ``method``; empty fields are explained in ``note``.

    ``difference`` is reference − method, ``gain`` the same turned so that positive means the reference is better. ``p``
    is over new seeds and new test rows, paired over the ``n`` shared seeds where ``paired``; ``p_holm`` is corrected
    within ``family``; ``p_welch`` is Welch's over seeds, as in the paper. ``low``, ``high``: the 95 % t interval of the
    difference, ``boot_low``, ``boot_high`` the hierarchical bootstrap's. ``p_equivalence``: two one-sided tests with
    ``margin``, Holm-corrected in the same family. ``verdict`` is about the reference.
    """

    task: str
    protocol: str
    metric: str
    set: str
    reference: str
    method: str
    n: int
    n_reference: int
    n_method: int
    mean_reference: float | None
    mean_method: float | None
    difference: float | None
    gain: float | None
    paired: bool
    p: float | None
    family: str
    p_holm: float | None
    p_welch: float | None
    hedges_g: float | None
    significant: bool | None
    significant_holm: bool | None
    detectable_difference: float | None
    low: float | None
    high: float | None
    boot_low: float | None
    boot_high: float | None
    margin: float | None
    p_equivalence: float | None
    verdict: PairVerdict
    note: str

    __test__ = False

    def turned(self) -> TestRow:
        """Return the same test of ``method`` against ``reference``."""
        turned: dict[PairVerdict, PairVerdict] = {"better": "worse", "worse": "better"}
        return replace(
            self,
            reference=self.method,
            method=self.reference,
            n_reference=self.n_method,
            n_method=self.n_reference,
            mean_reference=self.mean_method,
            mean_method=self.mean_reference,
            difference=_negated(self.difference),
            gain=_negated(self.gain),
            hedges_g=_negated(self.hedges_g),
            low=_negated(self.high),
            high=_negated(self.low),
            boot_low=_negated(self.boot_high),
            boot_high=_negated(self.boot_low),
            verdict=turned.get(self.verdict, self.verdict),
        )


def compare_with_reference(
    tables: Iterable[Results],
    bootstraps: Bootstraps | None = None,
    reference: str | None = None,
    alpha: float = ALPHA,
) -> list[TestRow]:
    """Return the tests of ``reference`` against every other method on every tested metric and set.

    reference: a method's name, "best" (per metric and set, see below), or None for our method; a table without it gives
    no rows.

    Holm's family is one reference, one metric on one set, and the methods of one origin under one task and protocol:
    the paper's baselines are one family and the extra methods another, so that running more of them does not move the
    paper's comparison. Tests that are the same in every seed (methods that share a network) count once.

    With "best" the reference is the method with the best mean, which was picked by looking at the data; its rows
    therefore carry the p-value that the *other* method is the best of all, see :func:`volta.stats.best.p_best`.
    """
    rows: list[TestRow] = []
    for table in tables:
        source = bootstrap_of(bootstraps, table)
        if reference == BEST:
            rows += _against_best(table, source, alpha)
            continue
        own = table.ours if reference is None else reference
        if own is None or own not in table.methods:
            continue
        others = [name for name in compared_methods(table) if name != own]
        for metric, eval_set in tested_sets(table):
            found = [compare_pair(table, own, name, metric, eval_set, source) for name in others]
            for origin in dict.fromkeys(table.origins[name] for name in others):
                family = [test for test in found if table.origins[test.second] == origin]
                rows += _rows(table, family, _name(own, metric, eval_set, origin), alpha)
    return rows


def compare_all_pairs(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[TestRow]:
    """Return every pair of compared methods on every tested metric and set; a family is all pairs of one metric."""
    rows: list[TestRow] = []
    for table in tables:
        source = bootstrap_of(bootstraps, table)
        for metric, eval_set in tested_sets(table):
            pairs = combinations(compared_methods(table), 2)
            family = [compare_pair(table, *pair, metric, eval_set, source) for pair in pairs]
            rows += _rows(table, family, _name("all pairs", metric, eval_set), alpha)
    return rows


def check_reference(tables: Sequence[Results], reference: str) -> None:
    """Refuse a reference that is neither "best" nor a method of any table."""
    known = dict.fromkeys(name for table in tables for name in table.methods)
    if reference != BEST and reference not in known:
        raise InputError(f"reference is {reference!r}; pass best or one of the methods run: {', '.join(known)}")


def compared_methods(table: Results) -> list[str]:
    """Return all methods, ours among them, but for ablation rows."""
    return [name for name in table.methods if table.origins[name] != ABLATION_ORIGIN]


def compared_sets(table: Results) -> Iterator[tuple[str, str]]:
    """Give (metric, set) of what the paper compares: AUROC on each near-OOD set, or on "" where the task has none."""
    for metric in COMPARED_METRICS:
        for eval_set in (table.near_sets or ("",)) if METRICS[metric].on_ood_sets else (TEST_SET,):
            yield metric, eval_set


def tested_sets(table: Results) -> Iterator[tuple[str, str]]:
    """Give (metric, set) of every test: what the paper compares, AURC, and what the records hold beside them.

    Those are ECE, Brier and NLL after one temperature (`test+T`), AURC by confidence (`test+msp`), and AUROC averaged
    over near and over far OOD sets.
    """
    yield from compared_sets(table)
    beside = [
        ("aurc", TEST_SET),
        *((metric, AFTER_TEMPERATURE) for metric in ("ece", "brier", "nll")),
        ("aurc", BY_CONFIDENCE),
        *(("auroc", name) for name in OOD_AVERAGES),
    ]
    for metric, eval_set in beside:
        if any(table.of(method, eval_set, metric) for method in table.methods):
            yield metric, eval_set


def without_rows(tables: Iterable[Results]) -> Bootstraps:
    """Return what stands for the bootstraps of tables whose rows are not resampled: of them nothing is tested."""
    return {(table.task, table.protocol): NOT_RESAMPLED for table in tables}


def below_alpha(p: float | None, alpha: float = ALPHA) -> bool | None:
    """Return whether p < α, or None where there is no p."""
    return None if p is None else p < alpha


def bootstrap_of(bootstraps: Bootstraps | None, table: Results) -> Bootstrap | str:
    """Return the bootstrap of a table, or why there is none; empty without any, where rows are not in question."""
    return "" if bootstraps is None else bootstraps.get((table.task, table.protocol), NOT_RESAMPLED)


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _against_best(table: Results, source: Bootstrap | str, alpha: float) -> list[TestRow]:
    rows = []
    methods = compared_methods(table)
    for metric, eval_set in tested_sets(table):
        best = best_method(table, methods, metric, eval_set)
        if best is None:
            continue
        chances = p_best(table, methods, metric, eval_set, source)
        family = [compare_pair(table, best, name, metric, eval_set, source) for name in methods if name != best]
        for row in _rows(table, family, _name(BEST, metric, eval_set), alpha):
            p = chances.get(row.method)
            verdict: PairVerdict = row.verdict if row.verdict == "equivalent" else "cannot tell"
            if p is not None and p < alpha and verdict != "equivalent":
                verdict = "better"
            rows.append(replace(row, p_holm=p, significant_holm=below_alpha(p, alpha), verdict=verdict))
    return rows


def _rows(table: Results, family: Sequence[PairTest], name: str, alpha: float) -> list[TestRow]:
    keys = [(_values(table, test, test.first), _values(table, test, test.second)) for test in family]
    corrected = holm_distinct([test.p for test in family], keys)
    equivalent = holm_distinct([test.p_equivalent for test in family], keys)
    return [
        _row(table, test, name, p, same, alpha) for test, p, same in zip(family, corrected, equivalent, strict=True)
    ]


def _values(table: Results, test: PairTest, method: str) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(table.of(method, test.set, test.metric).items()))


def _row(
    table: Results, test: PairTest, family: str, p_holm: float | None, p_equivalence: float | None, alpha: float
) -> TestRow:
    low = high = None
    if test.gain is not None and test.difference is not None:
        half = (test.gain.interval(alpha)[1] - test.gain.interval(alpha)[0]) / 2
        low, high = test.difference - half, test.difference + half
    return TestRow(
        table.task, table.protocol, test.metric, test.set, test.first, test.second,
        test.n, _n(test.first_sample), _n(test.second_sample),
        None if test.first_sample is None else test.first_sample.mean,
        None if test.second_sample is None else test.second_sample.mean,
        difference=test.difference,
        gain=None if test.gain is None else test.gain.value,
        paired=test.paired,
        p=test.p,
        family=family,
        p_holm=p_holm,
        p_welch=test.p_welch,
        hedges_g=test.hedges_g,
        significant=below_alpha(test.p, alpha),
        significant_holm=below_alpha(p_holm, alpha),
        detectable_difference=test.detectable,
        low=low,
        high=high,
        boot_low=_rounded(test.boot_low),
        boot_high=_rounded(test.boot_high),
        margin=margin_of(test.metric),
        p_equivalence=p_equivalence,
        verdict=verdict_on(test, p_holm, p_equivalence, alpha),
        note=test.note,
    )  # fmt: skip


def _name(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _n(sample: Sample | None) -> int:
    return 0 if sample is None else sample.n
