"""All that is said of two methods on one metric: paired over seeds where they share them, Welch's test beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from volta.bench.records import OWN
from volta.metrics import METRICS
from volta.stats.bootstrap import Bootstrap, RowSpread
from volta.stats.csv_rows import joined_notes
from volta.stats.estimate import Estimate
from volta.stats.margins import margin_of
from volta.stats.paired import (
    difference_sample,
    equal_values,
    fixed_models_estimate,
    hedges_g_paired,
    paired_estimate,
    welch_estimate,
)
from volta.stats.power import detectable
from volta.stats.ranks import higher_is_better
from volta.stats.results import Results
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA, hedges_g, welch

NO_OOD = "the task has no OOD set"
FIXED_MODELS = "one seed: about new test rows, for these models as they are"

PairVerdict = Literal["better", "worse", "equivalent", "cannot tell"]


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
        """The two-sided p against «no difference», or None where there is no test."""
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
    row_variance, no_rows = _row_variance(rows)
    elsewhere = table.has_other_rows(first, second)
    paired = differences is not None and not elsewhere and (differences.n > 1 or left.n == right.n == 1)
    if paired and differences is not None:
        estimate, g = paired_estimate(differences, row_variance), hedges_g_paired(differences)
        n, difference = differences.n, differences.mean
        why = differences.why_untestable
        if n == 1 and not no_rows and OWN in (table.origins[first], table.origins[second]):
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
    by_chance = _by_chance(table, first, second, metric, eval_set)
    if by_chance and estimate is not None:
        estimate = replace(estimate, told_apart=False)
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
        note=joined_notes(why, _no_variance(estimate), no_rows, by_chance, _seeds_note(table, first, second)),
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

    A difference shown to be below the margin is «equivalent» even if it is shown not to be 0: it does not matter.
    """
    if p_equivalent is not None and p_equivalent < alpha:
        return "equivalent"
    if p_corrected is not None and p_corrected < alpha and test.gain is not None:
        return "better" if test.gain.value > 0 else "worse"
    return "cannot tell"


def _by_chance(table: Results, first: str, second: str, metric: str, eval_set: str) -> str:
    """Say so where both ECEs are no larger than what chance makes of perfect calibration; empty where one is.

    Chance makes more of it for a less sharp model, so that the sharper of two calibrated ones would be found better.
    """
    if metric != "ece":
        return ""
    for name in (first, second):
        found, most = (table.sample(name, eval_set, key) for key in (metric, "ece_floor_high"))
        if found is None or most is None or found.mean > most.mean:
            return ""
    return "both within what chance alone gives: not told apart"


def _rows(source: Bootstrap | str, metric: str, eval_set: str, first: str, second: str) -> RowSpread | str:
    """Return what new test rows do to the difference, or why nothing is known of that."""
    if isinstance(source, str):
        return source
    if not source.resamples(metric, eval_set):
        return "rows not resampled: this set is not among those that are"
    found = source.row_spread(metric, eval_set, first, second)
    return "rows not resampled: no stored predictions for this pair and set" if found is None else found


def _row_variance(rows: RowSpread | str) -> tuple[float, str]:
    return (0.0, rows) if isinstance(rows, str) else (rows.shared_variance, "")


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
