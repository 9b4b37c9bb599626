"""Tests between methods: a reference against all others, all pairs, the ablation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

from volta.bench.records import EXTERNAL
from volta.core.errors import InputError
from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.stats.bootstrap import Bootstrap, Bootstraps, RowSpread
from volta.stats.results import (
    ABLATION_ORIGIN,
    AFTER_TEMPERATURE,
    BY_CONFIDENCE,
    OOD_AVERAGES,
    TEST_SET,
    Results,
    Sample,
    joined_notes,
)
from volta.stats.tests import (
    ALPHA,
    Estimate,
    detectable,
    difference_sample,
    equal_values,
    fixed_models_estimate,
    hedges_g,
    hedges_g_paired,
    higher_is_better,
    holm,
    holm_distinct,
    margin_of,
    paired_estimate,
    welch,
    welch_estimate,
)

NO_OOD = "the task has no OOD set"
FIXED_MODELS = "one seed: about new test rows, for these models as they are"

PairVerdict = Literal["better", "worse", "equivalent", "inconclusive"]
TURNED: Mapping[PairVerdict, PairVerdict] = {"better": "worse", "worse": "better"}
"""The verdict on the second method where it differs from that on the first."""


@dataclass(frozen=True)
class PairTest:
    """``first`` against ``second`` on a metric of a set; ``note`` says what is undefined and why.

    ``difference`` is first − second over the ``n`` seeds it is taken on; ``gain`` is the same with its errors, turned
    so that positive means that ``first`` is better; ``p`` two-sided over new seeds and new rows, ``p_welch`` as in the
    paper; ``boot_low``, ``boot_high``: the hierarchical bootstrap interval of ``difference``.
    """

    first: str
    second: str
    metric: str
    set: str
    n: int
    first_sample: Sample | None
    second_sample: Sample | None
    paired: bool = False
    difference: float | None = None
    gain: Estimate | None = None
    p_welch: float | None = None
    hedges_g: float | None = None
    boot_low: float | None = None
    boot_high: float | None = None
    identical: bool = False
    note: str = ""

    @cached_property
    def p(self) -> float | None:
        """The two-sided p against "no difference", or None where there is no test."""
        return None if self.gain is None else self.gain.p_differs()

    @cached_property
    def p_equivalent(self) -> float | None:
        """The p of the two one-sided tests with the metric's margin."""
        margin = margin_of(self.metric)
        if self.gain is None or margin is None:
            return None
        return self.gain.p_equivalent(margin, least_share=margin if self.metric == "accuracy" else 0.0)

    @property
    def detectable(self) -> float | None:
        """The smallest difference this test finds with 80 % probability."""
        return None if self.gain is None else detectable(self.gain)


def compare_pair(
    table: Results,
    first: str,
    second: str,
    metric: str,
    eval_set: str,
    source: Bootstrap | str = "",
    interval: bool = True,
) -> PairTest:
    """Compare two methods of a table.

    Methods of one task, protocol and seed have the same split and test rows, so seeds that both have are paired: the
    estimate is the mean of their differences. Where fewer than two are shared, the means over each one's own seeds are
    compared as Welch does. Own predictions of a single seed are models as they are: their difference is tested over new
    test rows alone. Where it is not known what new test rows would do there is no test: seeds that share their rows
    share the rows' luck, and would take it for a difference. ``source``: the bootstrap of the table, why there is none,
    or empty where rows are not in question; ``interval`` False leaves the bootstrap's interval out.
    """
    own, other = table.of(first, eval_set, metric), table.of(second, eval_set, metric)
    left, right = table.sample(first, eval_set, metric), table.sample(second, eval_set, metric)
    if left is None or right is None:
        lacking = [name for name, sample in ((first, left), (second, right)) if sample is None]
        note = f"no {metric} for {' and '.join(lacking)}" if eval_set else NO_OOD
        return PairTest(first, second, metric, eval_set, 0, left, right, note=note)
    differences = difference_sample(own, other)
    rows = "" if METRICS[metric].measured else _rows(source, metric, eval_set, first, second)
    row_variance, no_rows = (0.0, rows) if isinstance(rows, str) else (rows.shared_variance, "")
    elsewhere = table.has_other_rows(first, second)
    paired = differences is not None and not elsewhere and (differences.n > 1 or left.n == right.n == 1)
    if paired and differences is not None:
        estimate, g = paired_estimate(differences, row_variance), hedges_g_paired(differences)
        n, difference = differences.n, differences.mean
        why = differences.why_untestable
        if n == 1 and not no_rows and EXTERNAL in (table.origins[first], table.origins[second]):
            estimate, why = fixed_models_estimate(differences, row_variance), FIXED_MODELS
    else:
        estimate, g = welch_estimate(left, right, row_variance), hedges_g(left, right)
        n, difference = min(left.n, right.n), left.mean - right.mean
        apart = "scored on other test rows: not paired" if elsewhere else "no two shared seeds: not paired"
        why = joined_notes(apart, left.why_untestable, right.why_untestable)
    if no_rows:
        estimate = None
    elif estimate is not None and isinstance(rows, RowSpread):
        estimate = replace(estimate, n_rows=rows.n_rows)
    both_calibrated = _both_calibrated(table, first, second, metric, eval_set)
    if both_calibrated and estimate is not None:
        estimate = replace(estimate, rankable=False)
    ends = None
    if interval and paired and isinstance(rows, RowSpread):
        ends = rows.interval
    return PairTest(
        first, second, metric, eval_set, n, left, right,
        paired=paired,
        difference=difference,
        gain=None if estimate is None else estimate if higher_is_better(metric) else estimate.negated(),
        p_welch=welch(left, right).p,
        hedges_g=g,
        boot_low=None if ends is None else ends[0],
        boot_high=None if ends is None else ends[1],
        identical=equal_values(own, other),
        note=joined_notes(why, _no_variance(estimate), no_rows, both_calibrated, _seeds_note(table, first, second)),
    )  # fmt: skip


def compare_samples(first: str, second: str, metric: str, eval_set: str, samples: tuple[Sample, Sample]) -> PairTest:
    """Compare two methods of which only n, mean and deviation are known, as of printed values: Welch's test alone."""
    estimate, test = welch_estimate(*samples), welch(*samples)
    return PairTest(
        first, second, metric, eval_set, min(samples[0].n, samples[1].n), *samples,
        difference=test.difference,
        gain=None if estimate is None else estimate if higher_is_better(metric) else estimate.negated(),
        p_welch=test.p,
        hedges_g=hedges_g(*samples),
        note=test.reason,
    )  # fmt: skip


def verdict_on(
    test: PairTest, p_corrected: float | None, p_equivalent: float | None, alpha: float = ALPHA
) -> PairVerdict:
    """Return what a pair's tests say of ``first``, from p-values corrected over their family.

    A difference shown to be below the margin is "equivalent" even if it is shown not to be 0: it does not matter.
    """
    if p_equivalent is not None and p_equivalent < alpha:
        return "equivalent"
    if p_corrected is not None and p_corrected < alpha and test.gain is not None:
        return "better" if test.gain.value > 0 else "worse"
    return "inconclusive"


def _both_calibrated(table: Results, first: str, second: str, metric: str, eval_set: str) -> str:
    """Return a note if both ECEs lie within the range expected under perfect calibration, else nothing.

    The expected ECE is larger for a less sharp model, so a test would rank two calibrated models by sharpness.
    """
    if metric != "ece":
        return ""
    for name in (first, second):
        found, most = (table.sample(name, eval_set, key) for key in (metric, "ece_expected_high"))
        if found is None or most is None or found.mean > most.mean:
            return ""
    return "both within the range expected under perfect calibration: not ranked"


def _rows(source: Bootstrap | str, metric: str, eval_set: str, first: str, second: str) -> RowSpread | str:
    """Return what new test rows do to the difference, or why nothing is known of that."""
    if isinstance(source, str):
        return source
    if not source.resamples(metric, eval_set):
        return "rows not resampled: this set is not among those that are"
    found = source.row_spread(metric, eval_set, first, second)
    return "rows not resampled: no stored predictions for this pair and set" if found is None else found


def _no_variance(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.constant:
        return ""
    return "equal in every seed" if estimate.value == 0 else "the same difference in every seed: t is undefined"


def _seeds_note(table: Results, first: str, second: str) -> str:
    own, other = set(table.seeds(first)), set(table.seeds(second))
    parts = [
        f"{name} lacks seed(s) {', '.join(map(str, sorted(missing)))}"
        for name, missing in ((second, own - other), (first, other - own))
        if missing
    ]
    return "; ".join(parts)


def best_method(table: Results, methods: Sequence[str], metric: str, eval_set: str) -> str | None:
    """Return the method with the best mean over seeds, the first of equals, or None where none has the metric."""
    means = {name: sample.mean for name in methods if (sample := table.sample(name, eval_set, metric)) is not None}
    if not means:
        return None
    return max(means, key=lambda name: means[name] if higher_is_better(metric) else -means[name])


def distinct_methods(table: Results, methods: Sequence[str], metric: str, eval_set: str) -> dict[str, str]:
    """Return method → the first method with the same values, but for rounding, in every seed.

    Only methods that have the metric. Post-hoc methods on one network have the same probabilities, and so the same
    accuracy, ECE, Brier and NLL.
    """
    firsts: dict[str, Mapping[int, float]] = {}
    found = {}
    for name in methods:
        if values := table.of(name, eval_set, metric):
            found[name] = next((one for one, others in firsts.items() if equal_values(values, others)), name)
            firsts.setdefault(found[name], values)
    return found


COMPARED_METRICS = ("accuracy", "ece", "brier", "nll", "auroc")
"""What the paper compares."""
BEST = "best"
OTHER_PAIRS = "other pairs"
NOT_RESAMPLED = "rows not resampled: no bootstrap was asked for"
_DECIMALS = 12


@dataclass(frozen=True)
class TestRow:
    """The test of ``reference`` against ``method`` on a metric and set; empty fields are explained in ``note``.

    ``difference`` is reference − method, ``gain`` the same turned so that positive means the reference is better.
    ``verdict``, about the reference, is the primary verdict of the pair: paired over the ``n`` shared seeds where
    ``paired``, by hierarchical bootstrap over seeds and test rows, Holm-corrected within ``family`` (``p_holm``, and
    ``p_equivalence`` of two one-sided tests with ``margin``). Secondary: ``p`` is uncorrected; ``p_welch`` is Welch's
    over seeds, as in the paper. ``low``, ``high``: the 95 % t interval of the difference, ``boot_low``, ``boot_high``
    the hierarchical bootstrap's.
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
            verdict=TURNED.get(self.verdict, self.verdict),
        )


def compare_all_pairs(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[TestRow]:
    """Return every pair of compared methods on every tested metric and set, each with its primary verdict.

    A pair belongs to one of Holm's families, whichever table it is shown in. Our method against the methods of one
    origin is a family for each metric and set: the paper's baselines are one and the extra methods another, so that
    running more of them does not move the paper's comparison. All other pairs of that metric and set are a family, and
    so are all pairs without our method. Tests that are the same in every seed (methods that share a network) count
    once.
    """
    rows: list[TestRow] = []
    for table in tables:
        source = bootstrap_of(bootstraps, table)
        methods = compared_methods(table)
        for metric, eval_set in tested_sets(table):
            tests = [compare_pair(table, *pair, metric, eval_set, source) for pair in combinations(methods, 2)]
            names = [_name(_family(table, test), metric, eval_set, _origin(table, test)) for test in tests]
            leader = distinct_methods(table, methods, metric, eval_set)
            found: dict[int, TestRow] = {}
            for name in dict.fromkeys(names):
                places = [place for place, own in enumerate(names) if own == name]
                family = _family_rows(table, [tests[place] for place in places], leader, name, alpha)
                found |= dict(zip(places, family, strict=True))
            rows += [found[place] for place in range(len(tests))]
    return rows


def against_reference(
    tables: Iterable[Results], pairs: Sequence[TestRow], reference: str | None = None
) -> list[TestRow]:
    """Return the rows of ``pairs`` with the reference, turned so that it stands first; verdicts are those of the pairs.

    reference: a method's name, "best" (the method with the best mean on each metric and set), or None for our method;
    a table without it gives no rows.
    """
    by_table: dict[tuple[str, str], list[TestRow]] = {}
    for row in pairs:
        by_table.setdefault((row.task, row.protocol), []).append(row)
    rows = []
    for table in tables:
        methods = compared_methods(table)
        best = {key: best_method(table, methods, *key) for key in tested_sets(table)} if reference == BEST else {}
        for row in by_table.get((table.task, table.protocol), ()):
            own = best[row.metric, row.set] if reference == BEST else table.ours if reference is None else reference
            if own in (row.reference, row.method):
                rows.append(row if row.reference == own else row.turned())
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


def bootstrap_of(bootstraps: Bootstraps | None, table: Results) -> Bootstrap | str:
    """Return the bootstrap of a table, or why there is none; empty without any, where rows are not in question."""
    return "" if bootstraps is None else bootstraps.get((table.task, table.protocol), NOT_RESAMPLED)


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _family(table: Results, test: PairTest) -> str:
    if table.ours is None:
        return "all pairs"
    return table.ours if table.ours in (test.first, test.second) else OTHER_PAIRS


def _origin(table: Results, test: PairTest) -> str:
    """Return the origin of the method that ours is compared with; empty for a pair without ours."""
    if table.ours not in (test.first, test.second):
        return ""
    return table.origins[test.second if test.first == table.ours else test.first]


def _family_rows(
    table: Results, family: Sequence[PairTest], leader: Mapping[str, str], name: str, alpha: float
) -> list[TestRow]:
    """Return the rows of one of Holm's families; ``leader``: method → the first with the same values."""
    keys = [frozenset((leader.get(test.first, test.first), leader.get(test.second, test.second))) for test in family]
    corrected = holm_distinct([test.p for test in family], keys)
    equivalent = holm_distinct([test.p_equivalent for test in family], keys)
    return [
        _row(table, test, name, p, same, alpha) for test, p, same in zip(family, corrected, equivalent, strict=True)
    ]


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
        gain=None if test.gain is None else test.gain.value,
        family=family,
        low=low,
        high=high,
        boot_low=_rounded(test.boot_low),
        boot_high=_rounded(test.boot_high),
        margin=margin_of(test.metric),
        **_tested(test, p_holm, p_equivalence, alpha),
    )  # fmt: skip


def _tested(test: PairTest, p_holm: float | None, p_equivalence: float | None, alpha: float) -> dict[str, Any]:
    """Return what rows of every table say of a test."""
    return {
        "difference": test.difference,
        "paired": test.paired,
        "p": test.p,
        "p_holm": p_holm,
        "p_welch": test.p_welch,
        "hedges_g": test.hedges_g,
        "detectable_difference": test.detectable,
        "p_equivalence": p_equivalence,
        "verdict": verdict_on(test, p_holm, p_equivalence, alpha),
        "note": test.note,
    }


def _name(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _n(sample: Sample | None) -> int:
    return 0 if sample is None else sample.n


@dataclass(frozen=True)
class AblationRow:
    """One metric of one ablation row, and its test against ``reference``.

    ``difference`` is row − reference; ``p`` is paired over the ``n_shared`` seeds and about new test rows too,
    ``p_welch`` is Welch's, as in the paper; ``verdict``, Holm-corrected in the family of the reference, is about the
    row. Empty fields are explained in ``note``.
    """

    task: str
    protocol: str
    row: str
    reference: str
    metric: str
    set: str
    n: int
    n_reference: int
    n_shared: int
    mean: float | None
    std: float | None
    mean_reference: float | None
    difference: float | None
    paired: bool
    p: float | None
    p_holm: float | None
    p_welch: float | None
    hedges_g: float | None
    detectable_difference: float | None
    p_equivalence: float | None
    verdict: PairVerdict
    note: str


def compare_ablation(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[AblationRow]:
    """Return every ablation row compared with the full model and with our method on the five compared metrics.

    Holm's family is all the tests of one task and protocol against one reference. The full model and our method are a
    pair of the second family alone. ``alpha``: the level of verdicts.
    """
    rows: list[AblationRow] = []
    for table in tables:
        if not table.ablation_rows:
            continue
        source = bootstrap_of(bootstraps, table)
        ours = () if table.ours is None else (table.ours,)
        for reference in (Ablation.FULL.key, *ours):
            family = [
                compare_pair(table, name, reference, metric, eval_set, source, interval=False)
                for name in table.ablation_rows
                if name != reference
                for metric, eval_set in compared_sets(table)
            ]
            corrected = holm([test.p for test in family])
            equivalent = holm([test.p_equivalent for test in family])
            rows += [
                _ablation_row(table, test, p, same, alpha)
                for test, p, same in zip(family, corrected, equivalent, strict=True)
            ]
    return rows


def _ablation_row(
    table: Results, test: PairTest, p_holm: float | None, p_equivalence: float | None, alpha: float
) -> AblationRow:
    own, other = test.first_sample, test.second_sample
    return AblationRow(
        table.task, table.protocol, test.first, test.second, test.metric, test.set,
        own.n if own else 0, other.n if other else 0, test.n,
        own.mean if own else None, own.std if own else None, other.mean if other else None,
        **_tested(test, p_holm, p_equivalence, alpha),
    )  # fmt: skip
