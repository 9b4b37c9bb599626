"""Welch's two-sided t-test, the interval that belongs to it, and Hedges' g, from n, mean and deviation alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from volta.core.errors import InputError
from volta.stats.samples import Sample

ALPHA = 0.05


@dataclass(frozen=True)
class Comparison:
    """The difference of two means and what can be said of it; None with a ``reason`` where nothing can.

    ``difference`` is first − second; ``p`` two-sided; ``low``, ``high`` the 1 − α interval of the difference;
    ``degrees`` the Welch-Satterthwaite degrees of freedom; ``standard_error`` that of the difference.
    """

    difference: float
    p: float | None
    low: float | None
    high: float | None
    degrees: float | None
    standard_error: float | None
    reason: str = ""


def welch(first: Sample, second: Sample, alpha: float = ALPHA) -> Comparison:
    """Compare two means without assuming equal variances.

    t = (x̄₁ − x̄₂) / se, se² = s₁²/n₁ + s₂²/n₂, ν = se⁴ / (s₁⁴/(n₁²(n₁−1)) + s₂⁴/(n₂²(n₂−1))), p = 2 P(T_ν > |t|).

    With no variance on both sides t does not exist: equal means give p = 1 (the samples are identical), different
    means give no p and a reason. A sample of one value gives no p and a reason.
    Reference: Welch, Biometrika 34 (1947).
    """
    check_alpha(alpha)
    difference = first.mean - second.mean
    for sample in (first, second):
        if not sample.testable:
            return Comparison(difference, None, None, None, None, None, sample.why_untestable)
    # Deviations, not variances: the squares of tiny ones would underflow.
    parts = [(sample.std or 0.0) / math.sqrt(sample.n) for sample in (first, second)]
    error = math.hypot(*parts)
    if error == 0:
        if difference == 0:
            return Comparison(0.0, 1.0, 0.0, 0.0, None, 0.0)
        return Comparison(difference, None, None, None, None, 0.0, "no variance on either side: Welch's t is undefined")
    import scipy.special

    degrees = 1 / sum((part / error) ** 4 / (sample.n - 1) for part, sample in zip(parts, (first, second), strict=True))
    p = 2 * float(scipy.special.stdtr(degrees, -abs(difference) / error))
    half_width = float(scipy.special.stdtrit(degrees, 1 - alpha / 2)) * error
    return Comparison(difference, min(p, 1.0), difference - half_width, difference + half_width, degrees, error)


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
