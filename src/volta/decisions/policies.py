"""Abstention: which rows to answer, with a bound on the error among them or on how many they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_correct, check_count, check_fraction, check_labels, check_same_length, check_scores
from volta.core.errors import InputError
from volta.decisions.conformal import (
    Floats,
    beta_quantile,
    binomial_cdf,
    conformal_threshold,
    exact_level,
    first_names,
    most_errors,
    rows_needed,
)

START_COVERAGES = (0.25, 0.5, 0.75)
MAX_SET_ASIDE = 50
# A start point is worth its share of δ if it answers, in expectation, this many times the rows that prove anything.
ROWS_AT_START = 1.5
# Of start points that pass about as often, the largest is taken: a run has fewer points to get through.
_AS_OFTEN = 0.01
# Tails are sums in float64: one that equals its level may round to above it.
_ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True)
class Policy:
    """Answer where uncertainty ≤ ``threshold``: −inf abstains always, inf never.

    ``coverage`` is the expected share of rows answered, in [``coverage_low``, ``coverage_high``] with probability
    ``confidence``. ``n`` calibration rows decided, of which ``n_answered`` would be answered; ``n_errors`` of those are
    wrong (None where only a coverage was asked for). ``exists`` is False where no threshold gives the guarantee with
    these rows: ``note`` says why, or which other condition the reader has to know.
    """

    threshold: float
    exists: bool
    coverage: float
    coverage_low: float
    coverage_high: float
    confidence: float
    n: int
    n_answered: int
    n_errors: int | None = None
    max_error: float | None = None
    note: str = ""
    cross_fitted: bool = False

    @property
    def statement(self) -> str:
        """Say in one sentence what holds of the error among answered samples, and when."""
        if self.max_error is None:
            return "nothing is guaranteed of the error among answered samples"
        if not self.exists:
            return f"no sample is answered: {self.note}"
        drawn = f"with probability {self.confidence:g} over calibration draws"
        error = f"at most {100 * self.max_error:g} % of answered samples are wrong, for i.i.d. samples"
        if self.cross_fitted:
            return f"{drawn} {error} and a model that depends little on each of them; measured, not proven"
        return f"{drawn} {error}"

    def answers(self, uncertainty: ArrayLike) -> NDArray[np.bool_]:
        """Return True for each row that is answered; uncertainty: (n_samples,)."""
        return self.unchecked_answers(check_scores(uncertainty, "uncertainty"))

    def unchecked_answers(self, uncertainty: Floats) -> NDArray[np.bool_]:
        """Return ``answers`` for a float64 array without NaN, which is not looked at again."""
        return np.asarray((uncertainty <= self.threshold) & self.exists)


def fit_policy(
    uncertainty: ArrayLike,
    correct: ArrayLike,
    *,
    max_error: float = 0.02,
    confidence: float = 0.95,
    reference: ArrayLike | None = None,
    reference_correct: ArrayLike | None = None,
    cross_fitted: bool = False,
    rng: np.random.Generator | None = None,
) -> Policy:
    """Find the largest coverage whose error among answered rows is at most ``max_error``, with ``confidence``.

    Guarantee: with probability ≥ 1 − δ over the calibration rows, R(λ̂) = P(wrong | u ≤ λ̂) ≤ ε for new rows.
    ε = max_error, δ = 1 − confidence, λ̂ the threshold found. Condition: calibration and new rows are i.i.d. Nothing is
    assumed of how the error depends on the uncertainty, and ties are allowed.

    Learn then test. For a fixed t let N(t) calibration rows have u ≤ t, and E(t) of them be wrong. Given N(t), E(t) is
    Bin(N(t), R(t)), so p(t) = P(Bin(N(t), ε) ≤ E(t)) is an exact p-value for "R(t) ≥ ε". Thresholds are tried in rising
    order from start points s_1 < … < s_D, with a share δ_d of δ each, Σ δ_d = δ. A start point passes if p(s_d) ≤ its
    level: δ_d, and what an unbroken run from earlier start points brings along. A run goes on through every larger t as
    long as p(t) does not exceed its level; λ̂ is the largest t that passed.

    Why this is exact: let t_d be the first t ≥ s_d with R(t) > ε, or where that comes next (R is continuous from the
    right, so R(t_d) ≥ ε). It is a fixed number as long as s_d is, though which thresholds are tried, all values that
    calibration rows have, is not. A run that ends at a bad threshold has passed through t_d for its first start point
    s_d, at a level of at most the sum of those δ_j with t_j = t_d; each of these events has at most that probability,
    and together they have δ. Were start points taken from the same rows, knowing where they fall would tell about the
    errors below them, unless R rises throughout.

    So start points come from other rows: the 25, 50 and 75 % quantiles of ``reference``, uncertainties of any other
    rows (validation rows, unlabelled rows), and inf, "answer every row", which needs none. Without ``reference`` a
    random fifth of the rows, 50 at most, is set aside for it (drawn by ``rng``, seed 0 unless set). Start points with
    too few rows to prove anything are left out, by their expected number alone. Shares are δ/2, δ/4, … from the lowest
    on: most runs that end well begin there. Where it is known which ``reference`` rows are right, as of held-out
    training rows, ``reference_correct`` replaces these by one start point with all of δ: the one that passes most often
    where the error of the reference rows is that of the calibration rows.

    ``cross_fitted`` says that each row was scored by a model fitted without its fold (and its duplicates). Given the
    models of a learner that no row moves, all of the above holds. In general it does not: the losses of fold k are
    i.i.d. given the other folds, but those of all folds together depend on one another through the models, and for some
    learner the pooled error strays as far as that of a single fold does (model and held-out rows swap their signs). So
    the guarantee is then measured, not proven. Validation rows of one fold calibrate another: ``reference_correct`` is
    then left aside, since a start point by labels of calibration rows passes too often.

    ``coverage`` is the share of all calibration rows with u ≤ λ̂, and its interval is that of Dvoretzky, Kiefer,
    Wolfowitz and Massart, ± √(log(2/δ) / 2n), which holds for all thresholds at once and so for the one found.
    Reference: Angelopoulos, Bates, Candès, Jordan and Lei (2021), Learn then Test; Geifman and El-Yaniv (2017),
    Selective Classification for Deep Neural Networks; Wiens and Dmitrienko (2005) for the levels; Massart (1990);
    Blum, Kalai and Langford (1999), Beating the Hold-Out, for folds.
    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> u = np.linspace(0, 1, 1000)
    >>> policy = fit_policy(u, u < 0.9, max_error=0.02)
    >>> policy.exists, 0.85 < policy.coverage < 0.92
    (True, True)
    >>> fit_policy(u[:50], u[:50] < 0.9, max_error=0.02).note
    'max_error=0.02 needs at least 149 calibration samples; got 50'
    """
    scores, right = check_scores(uncertainty, "uncertainty"), check_correct(correct)
    n = check_same_length(uncertainty=scores, correct=right)
    needed, delta = rows_needed(max_error, confidence), float(1 - exact_level(confidence, "confidence"))
    every_score = np.sort(scores)
    if reference is None:
        aside = np.zeros(n, dtype=np.bool_)
        drawn = (rng or np.random.default_rng(0)).permutation(n)[: min(MAX_SET_ASIDE, n // 5)]
        # Rows are given up only where there are enough of them for a start point below "answer every row".
        aside[drawn] = (n - len(drawn)) * START_COVERAGES[-1] >= ROWS_AT_START * needed
        other, scores, right = scores[aside], scores[~aside], right[~aside]
    else:
        other = check_scores(reference, "reference")
    if reference_correct is None or cross_fitted:
        starts = _start_points(other, len(scores), needed)
    else:
        if reference is None:
            raise InputError("reference_correct is set without reference; pass the uncertainty of the same rows too")
        right_before = check_correct(reference_correct, "reference_correct")
        check_same_length(reference=other, reference_correct=right_before)
        starts = [_likeliest_start(other, right_before, len(scores), max_error, delta)]
    threshold, n_answered, n_errors = _largest_passing(scores, right, starts, max_error, delta)
    exists = threshold is not None
    coverage = float(np.searchsorted(every_score, threshold, side="right")) / n if threshold is not None else 0.0
    margin = math.sqrt(math.log(2 / delta) / (2 * n)) if exists and threshold != math.inf else 0.0
    return Policy(
        threshold=threshold if threshold is not None else -math.inf,
        exists=exists,
        coverage=coverage,
        coverage_low=max(0.0, coverage - margin),
        coverage_high=min(1.0, coverage + margin),
        confidence=confidence,
        n=len(scores),
        n_answered=n_answered,
        n_errors=n_errors,
        max_error=max_error,
        note="" if exists else _why_none(n, needed, max_error, confidence),
        cross_fitted=cross_fitted,
    )


def fit_coverage(uncertainty: ArrayLike, *, coverage: float = 0.9, confidence: float = 0.95) -> Policy:
    """Answer a given share of rows: the threshold is the ⌈(n + 1) coverage⌉-th smallest uncertainty, inf beyond n.

    Guarantee: P(answered) ≥ coverage over calibration and new rows together, and less than coverage + 1/(n + 1) for
    uncertainties without ties; rows exchangeable. Given the calibration rows the share answered is Beta(r, n + 1 − r)
    distributed, which gives the interval. Rows that tie with the threshold are answered too: with m ≥ r calibration
    rows answered the coverage is taken for m / (n + 1), and the interval ends where Beta(m + 1, n − m) does. Nothing is
    guaranteed of the error.
    Reference: Vovk (2012), Conditional Validity of Inductive Conformal Predictors.
    uncertainty: (n_samples,) of calibration rows, higher = less certain.

    >>> policy = fit_coverage(np.arange(99.0), coverage=0.9)
    >>> policy.threshold, policy.coverage
    (89.0, 0.9)
    """
    scores = check_scores(uncertainty, "uncertainty")
    found = conformal_threshold(scores, 1 - check_fraction(coverage, "coverage"))
    low, high = found.rank.interval(confidence)
    n_answered = int(np.count_nonzero(scores <= found.value))
    share = found.rank.expected
    if found.rank.enough and n_answered > found.rank.rank:
        share = n_answered / (len(scores) + 1)
        n_left = len(scores) - n_answered
        high = beta_quantile((1 + confidence) / 2, n_answered + 1, n_left) if n_left else 1.0
    few = (
        f"{len(scores)} calibration samples are too few for coverage = {coverage:g}, which needs at least "
        f"{found.rank.smallest_n}: every row is answered"
    )
    return Policy(
        threshold=found.value,
        exists=True,
        coverage=share,
        coverage_low=low,
        coverage_high=high,
        confidence=confidence,
        n=len(scores),
        n_answered=n_answered,
        note="" if found.rank.enough else few,
    )


@dataclass(frozen=True)
class GroupPolicies:
    """One policy for each group, of groups 0 … K − 1; made by `fit_group_policies`."""

    policies: tuple[Policy, ...]

    def answers(self, uncertainty: ArrayLike, groups: ArrayLike) -> NDArray[np.bool_]:
        """Return True for each sample that the policy of its group answers; both (n_samples,)."""
        scores = check_scores(uncertainty, "uncertainty")
        members = check_labels(groups, len(self.policies), "groups")
        check_same_length(uncertainty=scores, groups=members)
        limits = np.array([policy.threshold for policy in self.policies])
        exist = np.array([policy.exists for policy in self.policies])
        return np.asarray((scores <= limits[members]) & exist[members])

    def note(self, names: Sequence[Any] | None = None) -> str:
        """Say in words which groups are never answered; empty where each is."""
        few = [group for group, policy in enumerate(self.policies) if not policy.exists]
        if not few:
            return ""
        called = first_names(few if names is None else [names[group] for group in few])
        return f"groups {called} are never answered: {self.policies[few[0]].note}"


def fit_group_policies(
    uncertainty: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    n_groups: int,
    max_error: float | Sequence[float] = 0.02,
    confidence: float = 0.95,
    together: bool = False,
    rng: np.random.Generator | None = None,
) -> GroupPolicies:
    """Find for each group the policy of `fit_policy`: its answered samples are wrong at most ``max_error`` of the time.

    With predicted classes as groups this is control of precision: of the samples answered as class k at most ε_k are
    wrong. Any other column that a new sample has may be the group too; the true class may not, a new sample has none.
    Guarantee: for each group g by itself, with probability ≥ 1 − δ over calibration rows, P(wrong | answered, g) ≤ ε_g;
    with ``together`` for all K groups at once, as each gets δ / K (Bonferroni). Given how many rows group g has they
    are i.i.d. rows of that group, so `fit_policy` holds as it stands. A group without enough rows is never answered.
    uncertainty, correct: as in `fit_policy`; groups: (n_samples,) numbers below ``n_groups``; ``max_error``: one for
    all or one for each.

    >>> u = np.linspace(0, 1, 1000)
    >>> found = fit_group_policies(u, u < 0.9, np.arange(1000) % 2, n_groups=2, max_error=[0.05, 0.001])
    >>> found.answers([0.5, 0.5], [0, 1])
    array([ True, False])
    """
    scores, right = check_scores(uncertainty, "uncertainty"), check_correct(correct)
    members = check_labels(groups, check_count(n_groups, "n_groups"), "groups")
    check_same_length(uncertainty=scores, correct=right, groups=members)
    errors = [float(error) for error in np.atleast_1d(np.asarray(max_error, dtype=np.float64))]
    if len(errors) not in (1, n_groups):
        raise InputError(f"max_error has {len(errors)} numbers; pass one, or one for each of the {n_groups} groups")
    level = 1 - (1 - check_fraction(confidence, "confidence")) / (n_groups if together else 1)
    draws = rng or np.random.default_rng(0)
    policies = []
    for group, error in enumerate(errors * (n_groups // len(errors))):
        own = members == group
        if own.any():
            policies.append(fit_policy(scores[own], right[own], max_error=error, confidence=level, rng=draws))
        else:
            policies.append(_no_policy(error, level))
    return GroupPolicies(tuple(policies))


def _no_policy(max_error: float, confidence: float) -> Policy:
    """Return the policy of a group without calibration samples."""
    return Policy(
        threshold=-math.inf,
        exists=False,
        coverage=0.0,
        coverage_low=0.0,
        coverage_high=0.0,
        confidence=confidence,
        n=0,
        n_answered=0,
        n_errors=0,
        max_error=max_error,
        note=_why_none(0, rows_needed(max_error, confidence), max_error, confidence),
    )


def _start_points(other: Floats, n: int, needed: int) -> list[float]:
    levels = [level for level in START_COVERAGES if n * level >= ROWS_AT_START * needed] if len(other) else []
    return [*(float(np.quantile(other, level, method="higher")) for level in levels), math.inf]


def _likeliest_start(other: Floats, correct: NDArray[np.bool_], n: int, max_error: float, delta: float) -> float:
    """Return the 5, 10, … or 95 % quantile of other rows, or inf, whose test on n rows is likeliest to pass."""
    ordered, errors = _ordered(other, correct)
    levels = np.arange(1, 20) / 20
    points: list[float] = [*np.unique(np.quantile(other, levels, method="higher")).tolist(), math.inf]
    power = []
    for end in np.searchsorted(ordered, points, side="right").tolist():
        n_answered = n * end // len(ordered)
        expected = (float(errors[end]) + 0.5) / (end + 1)
        power.append(binomial_cdf(most_errors(n_answered, max_error, delta), n_answered, expected))
    return points[max(np.flatnonzero(np.array(power) >= max(power) - _AS_OFTEN))]


def _ordered(scores: Floats, correct: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.intp]]:
    """Return the scores sorted, and how many errors are among the 0 … n smallest."""
    order = np.argsort(scores, kind="stable")
    return scores[order], np.concatenate([[0], np.cumsum(~correct[order])])


def _shares(n_starts: int, delta: float) -> list[float]:
    """Split δ into δ/2, δ/4, …, the last as large as the one before it."""
    return [delta * 0.5 ** min(place, n_starts - 1) for place in range(1, n_starts + 1)]


def _largest_passing(
    scores: Floats, correct: NDArray[np.bool_], starts: list[float], max_error: float, delta: float
) -> tuple[float | None, int, int]:
    """Return the largest threshold that passed, or None, with the rows and errors it answers."""
    ordered, errors = _ordered(scores, correct)

    def pvalue(n_answered: int) -> float:
        return binomial_cdf(int(errors[n_answered]), n_answered, max_error)

    points, index = np.unique(starts, return_inverse=True)
    shares = np.bincount(index, _shares(len(starts), delta))
    ends = np.searchsorted(ordered, points, side="right")
    befores = np.append(np.searchsorted(ordered, points[1:], side="left"), len(ordered))
    best: tuple[float | None, int, int] = (None, 0, 0)
    level, alive = 0.0, False
    for point, share, end, before in zip(points.tolist(), shares.tolist(), ends, befores, strict=True):
        level = level + share * _ROUNDING if alive else share * _ROUNDING
        alive = pvalue(int(end)) <= level
        if not alive:
            continue
        best = (point, int(end), int(errors[end]))
        following = _distinct_ends(ordered, int(end), int(before))
        # Only a further error can end the run: a further right answer lowers the p-value.
        worse = following[np.diff(errors[following], prepend=errors[end]) > 0]
        broken = next((int(stop) for stop in worse if pvalue(int(stop)) > level), None)
        alive = broken is None
        passed = following if broken is None else following[following < broken]
        if len(passed):
            last = int(passed[-1])
            best = (float(ordered[last - 1]), last, int(errors[last]))
    return best


def _distinct_ends(ordered: Floats, start: int, stop: int) -> NDArray[np.intp]:
    """Return for each distinct value among the sorted rows start … stop − 1 how many rows are at most as large."""
    if start == stop:
        return np.empty(0, dtype=np.intp)
    inner = np.flatnonzero(ordered[start + 1 : stop] != ordered[start : stop - 1]) + start + 1
    return np.append(inner, stop)


def _why_none(n: int, needed: int, max_error: float, confidence: float) -> str:
    if n < needed:
        return f"max_error={max_error:g} needs at least {needed} calibration samples; got {n}"
    return (
        f"no threshold shows an error of at most {max_error:g} with confidence {confidence:g} on {n} calibration rows; "
        "allow more error, ask for less confidence, or calibrate on more rows"
    )
