"""Selective prediction: the risk of the most certain rows, exact when scores tie."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_correct, check_same_length, check_scores

_SMALL = 64
_TABLE = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])


def harmonic_between(start: NDArray[np.intp], stop: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return Σ 1/i over start < i ≤ stop, elementwise, to a few units in the last place.

    Up to 64 the terms are summed; beyond, H_b − H_a is taken from the Euler-Maclaurin series of ln, whose first
    term left out is below 1/(240 · 64⁸) = 1.5e-17. start, stop: integers, 0 ≤ start ≤ stop.
    """
    near = _TABLE.take(np.minimum(stop, _SMALL)) - _TABLE.take(np.minimum(start, _SMALL))
    a = np.maximum(start, _SMALL).astype(np.float64)
    b = np.maximum(stop, _SMALL).astype(np.float64)
    u, v = 1 / (a * a), 1 / (b * b)
    tail = (u - v) * (1 / 12 - (u + v) / 120 + (u * u + u * v + v * v) / 252)
    far: NDArray[np.float64] = np.log1p((b - a) / a) - (b - a) / (2 * a * b) + tail
    far += near
    return far


@dataclass(frozen=True)
class RiskSteps:
    """Rows in order of certainty, one entry per distinct score.

    `ends`: rows with at most this score; `errors`: wrong rows among them; both (n_distinct,). Between two
    ends the expected number of errors over random orders of the tied rows is linear.
    """

    ends: NDArray[np.intp]
    errors: NDArray[np.intp]

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.ends[-1])

    @property
    def error_rate(self) -> float:
        """Share of wrong rows."""
        return int(self.errors[-1]) / self.n_samples

    @cached_property
    def group_sums(self) -> NDArray[np.float64]:
        """Return for each distinct score the sum of the risks at the coverages of its rows.

        After s rows with E errors, g tied rows with e errors add Σ_j (E + e·j/g) / (s + j)
        = e + (E − s·e/g) · Σ_j 1/(s + j), j = 1 … g.
        """
        sums: NDArray[np.float64] = self.errors / self.ends
        if len(self.ends) == self.n_samples:
            return sums
        sizes = np.diff(self.ends, prepend=0)
        tied = np.flatnonzero(sizes > 1)
        ends, sizes = self.ends[tied], sizes[tied]
        starts = ends - sizes
        errors_before = np.where(tied > 0, self.errors[tied - 1], 0)
        errors = self.errors[tied] - errors_before
        inverse = np.arange(1, self.n_samples + 2, dtype=np.float64)
        np.reciprocal(inverse, out=inverse)
        inverse_ranks = np.add.reduceat(inverse, np.column_stack([starts, ends]).reshape(-1))[::2]
        sums[tied] = errors + (errors_before - starts * (errors / sizes)) * inverse_ranks
        return sums


@dataclass(frozen=True)
class RiskCoverage:
    """`coverage` i/n and `risk` among the i most certain rows, i = 1 … n; both (n_samples,).

    >>> risk_coverage_curve([0.1, 0.2, 0.3, 0.4], [True, False, True, False]).coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]


def risk_steps(uncertainty: ArrayLike, correct: ArrayLike) -> RiskSteps:
    """Return the cumulative errors in order of certainty from checked arguments."""
    scores, right = check_scores(uncertainty, "uncertainty"), check_correct(correct)
    check_same_length(uncertainty=scores, correct=right)
    return steps_of(np.sort(scores), scores, right)


def steps_of(ordered: NDArray[np.float64], scores: NDArray[np.float64], correct: NDArray[np.bool_]) -> RiskSteps:
    """Return the steps given the sorted scores, the scores and correctness in row order.

    Only the rarer of right and wrong rows is placed among the sorted scores: cheaper than an argsort.
    """
    n = len(ordered)
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, n)
    wrong_is_rare = 2 * np.count_nonzero(correct) >= n
    rare = np.sort(scores[~correct if wrong_is_rare else correct])
    at_tie_start = np.searchsorted(ordered, rare, side="left")
    rare_up_to = np.bincount(at_tie_start, minlength=n)
    np.cumsum(rare_up_to, out=rare_up_to)
    if len(ends) < n:
        rare_up_to = rare_up_to[ends - 1]
    return RiskSteps(ends, rare_up_to if wrong_is_rare else ends - rare_up_to)


def aurc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk-coverage curve.

    (1/n) Σ_i (errors among the i most certain rows) / i; rows of equal score share the mean of their errors,
    which is the expected value over their random orders.
    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> aurc([0.1, 0.2, 0.3, 0.4], [True, False, True, False])  # (0 + 1/2 + 1/3 + 2/4) / 4
    0.3333333333333333
    """
    return aurc_of(risk_steps(uncertainty, correct))


def augrc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the generalized risk-coverage curve: the mean over coverages of the share of accepted errors.

    ∫₀¹ (errors among the accepted rows / n) d coverage, by trapezoids from (0, 0), rows of equal score entering
    together: ½ err² + err (1 − err) (1 − A), where A = P(score of a wrong row > of a right one) + ½ P(equal), so
    between ½ err² and err − ½ err². Unlike AURC it does not weight the most certain rows above the others.
    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.
    Reference: Traub et al., Overcoming common flaws in the evaluation of selective classification, NeurIPS 2024.

    >>> augrc([0.1, 0.2, 0.3, 0.4], [True, False, True, False])  # (0 + ½ + 1 + 1½) / 4²
    0.1875
    """
    return augrc_of(risk_steps(uncertainty, correct))


def eaurc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Excess AURC: AURC minus the AURC of the perfect order, all m wrong rows last.

    AURC − (1/n) Σ_{j=1..m} j / (n − m + j), the empirical optimum and not its closed-form limit.
    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> eaurc([0.1, 0.2, 0.3, 0.4], [True, False, True, False])  # 1/3 − (0 + 0 + 1/3 + 2/4) / 4
    0.125
    """
    return eaurc_of(risk_steps(uncertainty, correct))


def eaurc_paper(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Excess AURC as the VOLTA paper prints it: AURC − err · (1 − err); it can be negative.

    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> round(eaurc_paper([0.1, 0.2, 0.3, 0.4], [True, False, True, False]), 4)  # 1/3 − 1/4
    0.0833
    """
    return eaurc_paper_of(risk_steps(uncertainty, correct))


def selective_auc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the accuracy-coverage curve: 1 − AURC.

    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> round(selective_auc([0.1, 0.2, 0.3, 0.4], [True, False, True, False]), 4)  # 1 − 1/3
    0.6667
    """
    return selective_auc_of(risk_steps(uncertainty, correct))


def risk_at_80(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Risk at 80 % coverage: the share of errors among the ⌈0.8 n⌉ most certain rows, ties as in `aurc`.

    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> risk_at_80([0.1, 0.2, 0.3, 0.4], [True, False, True, False])  # 2 of the ⌈3.2⌉ = 4 rows
    0.5
    """
    return risk_at_80_of(risk_steps(uncertainty, correct))


def coverage_at_5(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Coverage at 5 % risk: the largest i/n whose i most certain rows have risk ≤ 0.05, or 0 if none.

    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> coverage_at_5([0.1, 0.2, 0.3, 0.4], [True, False, True, False])  # only the first row alone
    0.25
    """
    return coverage_at_5_of(risk_steps(uncertainty, correct))


def risk_coverage_curve(uncertainty: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Return the risk at each coverage i/n, whose mean is `aurc`.

    uncertainty: (n_samples,), higher = less certain; correct: (n_samples,) booleans.

    >>> risk_coverage_curve([0.1, 0.2, 0.3, 0.4], [True, False, True, False]).risk.round(3)
    array([0.   , 0.5  , 0.333, 0.5  ])
    """
    steps = risk_steps(uncertainty, correct)
    rank = np.arange(1, steps.n_samples + 1)
    errors = np.interp(rank, np.concatenate([[0], steps.ends]), np.concatenate([[0], steps.errors]))
    return RiskCoverage(coverage=rank / steps.n_samples, risk=errors / rank)


def aurc_of(steps: RiskSteps) -> float:
    """Return the AURC of `steps`."""
    return float(np.sum(steps.group_sums)) / steps.n_samples


def augrc_of(steps: RiskSteps) -> float:
    """Return the AUGRC of `steps`, exact in integers up to the last division."""
    twice = steps.errors.copy()
    twice[1:] += steps.errors[:-1]
    return int(np.dot(twice, np.diff(steps.ends, prepend=0))) / (2 * steps.n_samples**2)


def eaurc_of(steps: RiskSteps) -> float:
    """Return the excess AURC of `steps`."""
    n, n_wrong = steps.n_samples, int(steps.errors[-1])
    best = np.zeros(n)
    np.divide(np.arange(1, n_wrong + 1), np.arange(n - n_wrong + 1, n + 1), out=best[n - n_wrong :])
    if len(steps.ends) < n:
        best = np.add.reduceat(best, np.concatenate([[0], steps.ends[:-1]]))
    np.subtract(steps.group_sums, best, out=best)
    # No order beats the perfect one; a negative sum is rounding.
    return max(0.0, float(np.sum(best)) / n)


def eaurc_paper_of(steps: RiskSteps) -> float:
    """Return the paper's excess AURC of `steps`."""
    return aurc_of(steps) - steps.error_rate * (1 - steps.error_rate)


def selective_auc_of(steps: RiskSteps) -> float:
    """Return the area under the accuracy-coverage curve of `steps`."""
    return 1 - aurc_of(steps)


def risk_at_80_of(steps: RiskSteps) -> float:
    """Return the risk at 80 % coverage of `steps`."""
    rank = -(-4 * steps.n_samples // 5)
    start, errors_before, size, errors = _group(steps, int(np.searchsorted(steps.ends, rank)))
    return (errors_before + errors * (rank - start) / size) / rank


def coverage_at_5_of(steps: RiskSteps) -> float:
    """Return the coverage at 5 % risk of `steps`, in exact integer arithmetic.

    Past the last distinct score at which 20 · errors ≤ rows, the limit may fall inside the next tie:
    20 (E + e·j/g) ≤ s + j.
    """
    within = np.flatnonzero(20 * steps.errors <= steps.ends)
    last = int(within[-1]) if len(within) else -1
    covered = int(steps.ends[last]) if last >= 0 else 0
    if last + 1 < len(steps.ends):
        start, errors_before, size, errors = _group(steps, last + 1)
        covered += size * (start - 20 * errors_before) // (20 * errors - size)
    return covered / steps.n_samples


def _group(steps: RiskSteps, index: int) -> tuple[int, int, int, int]:
    start = int(steps.ends[index - 1]) if index else 0
    errors_before = int(steps.errors[index - 1]) if index else 0
    return start, errors_before, int(steps.ends[index]) - start, int(steps.errors[index]) - errors_before
