"""A mean difference with its standard error from two sources, seeds and test rows, and every test of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from volta.core.errors import InputError

MAX_SEEDS = 10_000
"""More seeds than this are not proposed: the difference is then called undecidable at any number."""


@dataclass(frozen=True)
class Estimate:
    """A difference ``value`` over ``n`` seeds; se² = ``seed_error``² + ``row_error``².

    ``seed_error``: what another set of seeds would change, s_d/√n, with ``seed_degrees`` of freedom (n − 1 where seeds
    are paired, Welch's where not); ``row_error``: what another set of test rows would change for all seeds alike, 0
    where rows were not resampled or rotate with the seed. The statistic (value − c)/se is held against Student's t with
    Satterthwaite's degrees of freedom, ν = se⁴ / (seed_error⁴ / seed_degrees): rows are thousands, so their part counts
    as known.
    Reference: Satterthwaite, Biometrics Bulletin 2 (1946).
    """

    value: float
    n: int
    seed_error: float
    seed_degrees: float
    row_error: float = 0.0

    @property
    def standard_error(self) -> float:
        """The standard error over new seeds and new rows."""
        return math.hypot(self.seed_error, self.row_error)

    @property
    def degrees(self) -> float:
        """Satterthwaite's degrees of freedom."""
        return satterthwaite(self.seed_error**2, self.seed_degrees, self.row_error**2)

    @property
    def constant(self) -> bool:
        """Whether there is no variance at all, so that no statistic exists."""
        return self.standard_error == 0

    def p_above(self, bound: float) -> float:
        """Return the one-sided p against «the true difference is at most ``bound``».

        Without any variance there is no statistic: a constant difference of 0 is that of equal methods and settles
        the question (0 or 1), any other constant shows nothing (1).
        """
        return self._tail(self.value - bound)

    def p_below(self, bound: float) -> float:
        """Return the one-sided p against «the true difference is at least ``bound``»."""
        return self._tail(bound - self.value)

    def p_differs(self) -> float | None:
        """Return the two-sided p against «no difference»; equal values give 1, constant unequal ones none."""
        if self.constant:
            return 1.0 if self.value == 0 else None
        return min(1.0, 2 * min(self.p_above(0.0), self.p_below(0.0)))

    def p_equivalent(self, margin: float) -> float:
        """Return the p of two one-sided tests against «the true difference is at least ``margin`` either way».

        Reference: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).
        """
        check_margin(margin)
        return max(self.p_above(-margin), self.p_below(margin))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the two-sided 1 − α interval."""
        half = 0.0 if self.constant else t_quantile(1 - alpha / 2, self.degrees) * self.standard_error
        return self.value - half, self.value + half

    def negated(self) -> Estimate:
        """Return the same difference the other way round."""
        return Estimate(-self.value, self.n, self.seed_error, self.seed_degrees, self.row_error)

    def _tail(self, distance: float) -> float:
        import scipy.special

        if self.constant:
            return float(distance <= 0) if self.value == 0 else 1.0
        t, degrees = distance / self.standard_error, self.degrees
        return float(scipy.special.ndtr(-t) if math.isinf(degrees) else scipy.special.stdtr(degrees, -t))

    def with_seeds(self, n: int) -> Estimate:
        """Return what the estimate would be with ``n`` seeds of the same deviation: rows do not shrink."""
        degrees = self.seed_degrees * (n - 1) / max(self.n - 1, 1)
        return Estimate(self.value, n, self.seed_error * math.sqrt(self.n / n), degrees, self.row_error)


def seeds_to_show(estimate: Estimate, bound: float, alpha: float, power: float = 0.8) -> int | None:
    """Return how many seeds would show the difference to lie beyond ``bound`` on the side where it is seen now.

    It is the smallest n at which the one-sided test of level ``alpha`` has ``power`` if the observed value is the true
    one: |value − bound| ≥ (t_{ν,1−α} + t_{ν,power}) se(n). None if no n ≤ 10,000 does, for instance since the test rows
    alone leave too much open.
    """
    distance = abs(estimate.value - bound)

    def enough(n: int) -> bool:
        future = estimate.with_seeds(n)
        reach = t_quantile(1 - alpha, future.degrees) + t_quantile(power, future.degrees)
        return distance > 0 and distance >= reach * future.standard_error

    if not enough(MAX_SEEDS):
        return None
    low, high = 2, MAX_SEEDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def satterthwaite(seed_variance: float, seed_degrees: float, row_variance: float) -> float:
    """Return the degrees of freedom of a sum of an estimated and a known variance; infinite where only the known is."""
    if seed_variance == 0:
        return math.inf if row_variance > 0 else seed_degrees
    share = seed_variance / (seed_variance + row_variance)
    return seed_degrees / share**2


def t_over_z(degrees: float, level: float) -> float:
    """Return how much wider Student's two-sided interval of ``level`` is than the normal one."""
    import scipy.special

    return t_quantile((1 + level) / 2, degrees) / float(scipy.special.ndtri((1 + level) / 2))


def t_quantile(level: float, degrees: float) -> float:
    """Return the quantile of Student's t, or of the normal where the degrees are infinite."""
    import scipy.special

    return float(scipy.special.ndtri(level) if math.isinf(degrees) else scipy.special.stdtrit(degrees, level))


def check_margin(margin: float) -> None:
    """Refuse a margin that is not positive."""
    if not margin > 0:
        raise InputError(f"margin is {margin}; pass the smallest difference that matters, above 0")
