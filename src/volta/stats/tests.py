"""Tests of differences over seeds: Welch, paired, Holm, equivalence, power."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.metrics import METRICS
from volta.stats.results import Sample, sample_of

ALPHA = 0.05


@dataclass(frozen=True)
class Comparison:
    """The difference of two means and what can be said of it; None with a ``reason`` where nothing can.

    ``difference`` is first − second; ``p`` two-sided; ``degrees`` the Welch-Satterthwaite degrees of freedom;
    ``standard_error`` that of the difference.
    """

    difference: float
    p: float | None = None
    degrees: float | None = None
    standard_error: float | None = None
    reason: str = ""


def welch(first: Sample, second: Sample) -> Comparison:
    """Compare two means without assuming equal variances.

    t = (x̄₁ − x̄₂) / se, se² = s₁²/n₁ + s₂²/n₂, ν = se⁴ / (s₁⁴/(n₁²(n₁−1)) + s₂⁴/(n₂²(n₂−1))), p = 2 P(T_ν > |t|).

    With no variance on both sides t does not exist: equal means give p = 1 (the samples are identical), different
    means give no p and a reason. A sample of one value gives no p and a reason.
    Reference: Welch, Biometrika 34 (1947).
    """
    difference = first.mean - second.mean
    for sample in (first, second):
        if not sample.testable:
            return Comparison(difference, reason=sample.why_untestable)
    # Deviations, not variances: the squares of tiny ones would underflow.
    parts = [(sample.std or 0.0) / math.sqrt(sample.n) for sample in (first, second)]
    error = math.hypot(*parts)
    if error == 0:
        if difference == 0:
            return Comparison(0.0, 1.0, None, 0.0)
        reason = "no variance on either side: Welch's t is undefined"
        return Comparison(difference, standard_error=0.0, reason=reason)
    import scipy.special

    degrees = 1 / sum((part / error) ** 4 / (sample.n - 1) for part, sample in zip(parts, (first, second), strict=True))
    p = 2 * float(scipy.special.stdtr(degrees, -abs(difference) / error))
    return Comparison(difference, min(p, 1.0), degrees, error)


def hedges_g(first: Sample, second: Sample) -> float | None:
    """Return the bias-corrected standardised mean difference, or None where the pooled deviation is 0 or unknown.

    g = J(ν) (x̄₁ − x̄₂) / s_p, s_p² = ((n₁−1)s₁² + (n₂−1)s₂²) / ν, ν = n₁ + n₂ − 2,
    J(ν) = Γ(ν/2) / (√(ν/2) Γ((ν−1)/2)), the exact factor rather than 1 − 3/(4ν − 1).
    Reference: Hedges, Journal of Educational Statistics 6 (1981).
    """
    if first.std is None or second.std is None or not (first.testable and second.testable):
        return None
    degrees = first.n + second.n - 2
    pooled = math.sqrt(((first.n - 1) * first.std**2 + (second.n - 1) * second.std**2) / degrees)
    if pooled == 0:
        return None
    return small_sample_factor(degrees) * (first.mean - second.mean) / pooled


def small_sample_factor(degrees: int) -> float:
    """Return Hedges' J(ν), by which a standardised difference is too large on average; 0 for one degree of freedom."""
    if degrees < 2:
        return 0.0
    return math.exp(math.lgamma(degrees / 2) - math.lgamma((degrees - 1) / 2) - math.log(degrees / 2) / 2)


def check_alpha(alpha: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; pass a level between 0 and 1, for example 0.05")


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return adjusted p-values that control the chance of one false finding in the family.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎: p̃₍ᵢ₎ = max_{j ≤ i} min(1, (m − j + 1) p₍ⱼ₎). Tests that could not be made (None) stay None
    and do not count in m. Reference: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    made = [(index, p) for index, p in enumerate(p_values) if p is not None]
    for index, p in made:
        if not 0 <= p <= 1:
            raise InputError(f"p_values[{index}] is {p}; pass probabilities, or None for a test that was not made")
    adjusted: list[float | None] = [None] * len(p_values)
    if not made:
        return adjusted
    values = np.array([p for _, p in made])
    order = np.argsort(values, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(made), 0, -1)))
    for position, value in zip(order, stepped, strict=True):
        adjusted[made[position][0]] = float(value)
    return adjusted


def holm_distinct(p_values: Sequence[float | None], keys: Sequence[Hashable]) -> list[float | None]:
    """Return Holm's adjusted p-values with tests of one key counted once: they are one test under several names."""
    first: dict[Hashable, float | None] = {}
    for key, p in zip(keys, p_values, strict=True):
        first.setdefault(key, p)
    adjusted = dict(zip(first, holm(list(first.values())), strict=True))
    return [adjusted[key] for key in keys]


MARGINS: dict[str, float] = {name: metric.margin for name, metric in METRICS.items() if metric.margin is not None}
"""Metric → its margin, for every metric that has one; without one nothing can be called equivalent."""


def margin_of(metric: str) -> float | None:
    """Return the margin of a metric, or None where none is declared."""
    return MARGINS.get(metric)


def higher_is_better(metric: str) -> bool:
    """Return the direction of a metric that has one."""
    known = METRICS.get(metric)
    if known is None or known.higher_is_better is None:
        raise InputError(
            f"metric {metric!r} has no better direction; pass one of those marked ↑ or ↓ in volta.metrics.METRICS"
        )
    return known.higher_is_better


MAX_SEEDS = 10_000
"""More seeds than this are not proposed: the difference is then called undecidable at any number."""

_FARTHEST_Z = 1e3
"""Stands for the infinite quantile of a tail that is 0 in float64, which is that from 38 on."""

_SLACK = 1e-9


@dataclass(frozen=True)
class Estimate:
    """A difference ``value`` over ``n`` seeds; se² = ``seed_error``² + ``row_error``².

    ``seed_error``: what another set of seeds would change, s_d/√n, with ``seed_degrees`` of freedom (n − 1 where seeds
    are paired, Welch's where not); ``row_error``: what another set of test rows would change for all seeds alike, 0
    where rows were not resampled or rotate with the seed. Rows are thousands, so their part counts as known.

    The one-sided bound of level 1 − p lies √((t seed_error)² + (z row_error)²) from the value, t and z the quantiles of
    Student's t and of the normal at that level; a p-value is the p whose bound just reaches. Each source alone has its
    exact test; of both together the test errs in simulations at most as often as it says, at every mixture, down to two
    seeds and at levels after Holm's correction. With Satterthwaite's degrees of freedom it would not: where few seeds
    happen to agree, they take that agreement for knowledge. ``n_rows``: how many test rows stand behind it, where they
    are in question. ``rankable`` is False of values that may both be what chance makes of 0: that the difference is
    not 0 shows nothing then, that it is below a margin does.
    Reference: Howe, Journal of the American Statistical Association 69 (1974).
    """

    value: float
    n: int
    seed_error: float
    seed_degrees: float
    row_error: float = 0.0
    n_rows: int | None = None
    rankable: bool = True

    @property
    def standard_error(self) -> float:
        """The standard error over new seeds and new rows."""
        return math.hypot(self.seed_error, self.row_error)

    @property
    def constant(self) -> bool:
        """Whether there is no variance at all, so that no statistic exists."""
        return self.standard_error == 0

    def p_above(self, bound: float) -> float:
        """Return the one-sided p against "the true difference is at most ``bound``".

        Without any variance there is no statistic: a constant difference of 0 is that of equal methods and settles
        the question (0 or 1), any other constant shows nothing (1).
        """
        return 1.0 if bound == 0 and not self.rankable else self._tail(self.value - bound)

    def p_below(self, bound: float) -> float:
        """Return the one-sided p against "the true difference is at least ``bound``"."""
        return 1.0 if bound == 0 and not self.rankable else self._tail(bound - self.value)

    def p_differs(self) -> float | None:
        """Return the two-sided p against "no difference"; equal values give 1, constant unequal ones none."""
        if self.constant:
            return 1.0 if self.value == 0 else None
        return min(1.0, 2 * min(self.p_above(0.0), self.p_below(0.0)))

    def p_equivalent(self, margin: float, least_share: float = 0.0) -> float:
        """Return the p of two one-sided tests against "the true difference is at least ``margin`` either way".

        Few rows on which nothing differs show little. If the true difference were the margin, a share ε of all rows at
        least would differ: ε = ``least_share`` of a metric that counts rows, as accuracy does, whose difference then
        varies by ε (1 − ε) / n at least, however little the n rows at hand show; of any other metric, whose row
        values lie within 1 of each other, ε is the margin, and rows none of which differs have p = (1 − ε)ⁿ.
        References: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987); Tango, Statistics in
        Medicine 17 (1998), for variances at the bound in place of those that are seen.
        """
        if not margin > 0:
            raise InputError(f"margin is {margin}; pass the smallest difference that matters, above 0")
        if self.n_rows is None:
            return max(self.p_above(-margin), self.p_below(margin))
        if self.constant and self.value == 0:
            return (1.0 - min(margin, 1.0)) ** self.n_rows
        least = math.sqrt(least_share * (1.0 - least_share) / self.n_rows)
        assumed = replace(self, row_error=max(self.row_error, least))
        return max(assumed.p_above(-margin), assumed.p_below(margin))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the two-sided 1 − α interval."""
        half = self.half_width(alpha / 2)
        return self.value - half, self.value + half

    def half_width(self, tail: float) -> float:
        """Return how far from the value the one-sided bound of level 1 − ``tail`` lies."""
        import scipy.special

        by_seeds = self.seed_error and self.seed_error * float(scipy.special.stdtrit(self.seed_degrees, 1 - tail))
        return math.hypot(by_seeds, self.row_error * float(scipy.special.ndtri(1 - tail)))

    def over_normal(self, level: float) -> float:
        """Return how much wider the two-sided interval of ``level`` is than a normal one with this standard error."""
        import scipy.special

        tail = (1 - level) / 2
        return self.half_width(tail) / (self.standard_error * float(scipy.special.ndtri(1 - tail)))

    def negated(self) -> Estimate:
        """Return the same difference the other way round."""
        return replace(self, value=-self.value)

    def _tail(self, distance: float) -> float:
        """Return the p at which the half-width is ``distance``."""
        import scipy.special

        if self.constant:
            return float(distance <= 0) if self.value == 0 else 1.0
        if distance < 0:
            return 1.0 - self._tail(-distance)
        if self.row_error == 0:
            return float(scipy.special.stdtr(self.seed_degrees, -distance / self.seed_error))
        # t is between what it would be if all of the error were the seeds' and if the rows had none.
        nearest, farthest = distance / self.standard_error, distance / self.seed_error if self.seed_error else math.inf
        if nearest == 0 or math.isinf(farthest):
            return float(scipy.special.ndtr(-distance / self.row_error))
        from scipy.optimize import brentq

        def excess(log_t: float) -> float:
            t = math.exp(log_t)
            z = -float(scipy.special.ndtri(scipy.special.stdtr(self.seed_degrees, -t)))
            return math.hypot(t * self.seed_error, min(z, _FARTHEST_Z) * self.row_error) / distance - 1.0

        log_t = brentq(excess, math.log(nearest) - _SLACK, math.log(farthest) + _SLACK, xtol=1e-12)
        return float(scipy.special.stdtr(self.seed_degrees, -math.exp(log_t)))

    def with_seeds(self, n: int) -> Estimate:
        """Return what the estimate would be with ``n`` seeds of the same deviation: rows do not shrink."""
        degrees = self.seed_degrees * (n - 1) / max(self.n - 1, 1)
        return replace(self, n=n, seed_error=self.seed_error * math.sqrt(self.n / n), seed_degrees=degrees)


def seeds_to_show(estimate: Estimate, bound: float, alpha: float) -> int | None:
    """Return how many seeds would show the difference to lie beyond ``bound`` on the side where it is seen now.

    It is the smallest n at which the one-sided test of level ``alpha`` has power 0.8 if the observed value is the true
    one: |value − bound| ≥ h_α + h_0.2, the half-widths with n seeds. None if no n ≤ 10,000 does, for instance
    since the test rows alone leave too much open.
    """
    if bound == 0 and not estimate.rankable:
        return None
    distance = abs(estimate.value - bound)

    def enough(n: int) -> bool:
        future = estimate.with_seeds(n)
        return distance > 0 and distance >= future.half_width(alpha) + future.half_width(1 - 0.8)

    if not enough(MAX_SEEDS):
        return None
    low, high = 2, MAX_SEEDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


ROUNDING = 1e-9
"""Values that agree to this part agree: the rest is rounding, or where an iteration (a temperature's) stopped."""


def equal_values(first: Mapping[int, float], second: Mapping[int, float]) -> bool:
    """Whether both have the same seeds and, but for rounding, the same value in each."""
    return first.keys() == second.keys() and all(
        math.isclose(first[seed], second[seed], rel_tol=ROUNDING) for seed in first
    )


def difference_sample(first: Mapping[int, float], second: Mapping[int, float]) -> Sample | None:
    """Return n, mean and deviation of the seeds' differences, or None where no seed is shared.

    A deviation that is only rounding is 0, and so is a mean then.
    """
    differences = {seed: first[seed] - second[seed] for seed in sorted(first) if seed in second}
    if not differences:
        return None
    sample = sample_of(differences.values())
    scale = max(abs(first[seed]) + abs(second[seed]) for seed in differences)
    if (sample.std or 0.0) > ROUNDING * scale:
        return sample
    mean = 0.0 if abs(sample.mean) <= ROUNDING * scale else sample.mean
    return Sample(sample.n, mean, None if sample.std is None else 0.0)


def paired_estimate(differences: Sample, row_variance: float = 0.0) -> Estimate | None:
    """Return the mean difference over shared seeds with its standard error, or None for a single seed.

    se² = s_d²/n + row_variance, s_d the deviation of the seeds' differences and row_variance what all seeds share
    under new test rows.
    """
    if differences.std is None or differences.n < 2:
        return None
    n = differences.n
    return Estimate(differences.mean, n, differences.std / math.sqrt(n), n - 1, math.sqrt(row_variance))


def fixed_models_estimate(difference: Sample, row_variance: float) -> Estimate:
    """Return the difference of two models as they are: se² = row_variance, what new test rows would change."""
    return Estimate(difference.mean, difference.n, 0.0, 0.0, math.sqrt(row_variance))


def welch_estimate(first: Sample, second: Sample, row_variance: float = 0.0) -> Estimate | None:
    """Return the difference of two independent means with Welch's standard error, or None where one has no variance."""
    test = welch(first, second)
    if test.standard_error is None:
        return None
    n = min(first.n, second.n)
    degrees = n - 1 if test.degrees is None else test.degrees
    return Estimate(test.difference, n, test.standard_error, degrees, math.sqrt(row_variance))


def hedges_g_paired(differences: Sample) -> float | None:
    """Return the bias-corrected mean difference in deviations of the differences, or None where that is 0 or unknown.

    g = J(n − 1) d̄ / s_d (g_z): how far the difference stands out from its own spread over seeds. Of two seeds there is
    none: J(1) = 0.
    """
    if differences.n < 3 or not differences.std:
        return None
    return small_sample_factor(differences.n - 1) * differences.mean / differences.std


def median_of(values: list[Mapping[int, float]]) -> dict[int, float]:
    """Return the median over methods of each seed that all of them have."""
    if not values:
        return {}
    shared = set.intersection(*(set(one) for one in values))
    return {seed: float(np.median([one[seed] for one in values])) for seed in sorted(shared)}


Floats = NDArray[np.float64]

POWER = 0.8
_NODES = 96


def detectable(estimate: Estimate, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the true difference that the two-sided test of an estimate finds with probability ``power``.

    δ = λ se with λ such that E[P(|Z + λ| > ĥ/se)] = power, the mean over the sampling of the seeds' deviation, on which
    the half-width ĥ depends. The observed error stands in for the true one, so with three seeds δ is itself a rough
    figure. No variance gives 0: any difference would show.
    """
    if estimate.constant:
        return 0.0
    if estimate.row_error == 0:
        return noncentrality(estimate.seed_degrees, alpha, power) * estimate.seed_error
    share = (estimate.seed_error / estimate.standard_error) ** 2
    # Models as they are have no seeds, and no degrees of freedom that count.
    degrees = max(estimate.seed_degrees, 1.0)
    return _joint_noncentrality(degrees, round(share, 6), alpha, power) * estimate.standard_error


@lru_cache(maxsize=4096)
def noncentrality(degrees: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the λ > 0 at which a two-sided t-test of level ``alpha`` with ``degrees`` of freedom has ``power``."""
    check_alpha(alpha)
    _check_power(power, alpha)
    from scipy import optimize, special

    critical = float(special.stdtrit(degrees, 1 - alpha / 2))

    def shortfall(shift: float) -> float:
        # The wrong-side tail is at most Φ(−shift); past 6 that is below 1e-9, where SciPy's series may give NaN.
        wrong_side = float(special.nctdtr(degrees, shift, -critical)) if shift < 6 else 0.0
        return power - (1 - float(special.nctdtr(degrees, shift, critical)) + wrong_side)

    upper = critical
    while shortfall(upper) > 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-12, rtol=1e-12))


@cache
def _gauss_nodes() -> tuple[Floats, Floats]:
    """Return Gauss' nodes and weights, whose eigenvalue problem takes longer than all else here."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


@lru_cache(maxsize=4096)
def _joint_noncentrality(degrees: float, share: float, alpha: float, power: float) -> float:
    """Return λ of an estimate's test; share: the seeds' part of se², whose rest is known."""
    check_alpha(alpha)
    _check_power(power, alpha)
    from scipy import optimize, special

    # Gauss' nodes are taken as the quantiles of the sample variance over the true one, χ²_ν/ν.
    nodes, weights = _gauss_nodes()
    variance = np.asarray(special.chdtri(degrees, 1 - (nodes + 1) / 2) / degrees, float)
    student, normal = (float(one) for one in (special.stdtrit(degrees, 1 - alpha / 2), special.ndtri(1 - alpha / 2)))
    critical = np.sqrt(student**2 * share * variance + normal**2 * (1 - share))

    def shortfall(shift: float) -> float:
        found = special.ndtr(shift - critical) + special.ndtr(-shift - critical)
        return power - float(np.sum(weights / 2 * found))

    upper = 4.0
    while shortfall(upper) > 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-9, rtol=1e-9))


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise InputError(f"power is {power}; pass a probability between alpha ({alpha}) and 1, for example 0.8")
