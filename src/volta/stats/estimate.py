"""A mean difference with its standard error from two sources, seeds and test rows, and every test of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from volta.core.errors import InputError

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
    are in question. ``told_apart`` is False of values that may both be what chance makes of 0: that the difference is
    not 0 shows nothing then, that it is below a margin does.
    Reference: Howe, Journal of the American Statistical Association 69 (1974).
    """

    value: float
    n: int
    seed_error: float
    seed_degrees: float
    row_error: float = 0.0
    n_rows: int | None = None
    told_apart: bool = True

    @property
    def standard_error(self) -> float:
        """The standard error over new seeds and new rows."""
        return math.hypot(self.seed_error, self.row_error)

    @property
    def constant(self) -> bool:
        """Whether there is no variance at all, so that no statistic exists."""
        return self.standard_error == 0

    def p_above(self, bound: float) -> float:
        """Return the one-sided p against «the true difference is at most ``bound``».

        Without any variance there is no statistic: a constant difference of 0 is that of equal methods and settles
        the question (0 or 1), any other constant shows nothing (1).
        """
        return 1.0 if bound == 0 and not self.told_apart else self._tail(self.value - bound)

    def p_below(self, bound: float) -> float:
        """Return the one-sided p against «the true difference is at least ``bound``»."""
        return 1.0 if bound == 0 and not self.told_apart else self._tail(bound - self.value)

    def p_differs(self) -> float | None:
        """Return the two-sided p against «no difference»; equal values give 1, constant unequal ones none."""
        if self.constant:
            return 1.0 if self.value == 0 else None
        return min(1.0, 2 * min(self.p_above(0.0), self.p_below(0.0)))

    def p_equivalent(self, margin: float, least_share: float = 0.0) -> float:
        """Return the p of two one-sided tests against «the true difference is at least ``margin`` either way».

        Few rows on which nothing differs show little. If the true difference were the margin, a share ε of all rows at
        least would differ: ε = ``least_share`` of a metric that counts rows, as accuracy does, whose difference then
        varies by ε (1 − ε) / n at least, however little the n rows at hand show; of any other metric, whose row
        values lie within 1 of each other, ε is the margin, and rows none of which differs have p = (1 − ε)ⁿ.
        References: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987); Tango, Statistics in
        Medicine 17 (1998), for variances at the bound in place of those that are seen.
        """
        check_margin(margin)
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


def seeds_to_show(estimate: Estimate, bound: float, alpha: float, power: float = 0.8) -> int | None:
    """Return how many seeds would show the difference to lie beyond ``bound`` on the side where it is seen now.

    It is the smallest n at which the one-sided test of level ``alpha`` has ``power`` if the observed value is the true
    one: |value − bound| ≥ h_α + h_{1−power}, the half-widths with n seeds. None if no n ≤ 10,000 does, for instance
    since the test rows alone leave too much open.
    """
    if bound == 0 and not estimate.told_apart:
        return None
    distance = abs(estimate.value - bound)

    def enough(n: int) -> bool:
        future = estimate.with_seeds(n)
        return distance > 0 and distance >= future.half_width(alpha) + future.half_width(1 - power)

    if not enough(MAX_SEEDS):
        return None
    low, high = 2, MAX_SEEDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def check_margin(margin: float) -> None:
    """Refuse a margin that is not positive."""
    if not margin > 0:
        raise InputError(f"margin is {margin}; pass the smallest difference that matters, above 0")
