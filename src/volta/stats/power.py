"""The smallest difference a test could have seen at all with this many seeds."""

from __future__ import annotations

from functools import lru_cache

from volta.core.errors import InputError
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA, check_alpha, welch

POWER = 0.8


def detectable_difference(first: Sample, second: Sample, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """Return the true difference that Welch's two-sided test finds with probability ``power``, or None if untestable.

    δ = λ se with se² = s₁²/n₁ + s₂²/n₂ and λ the noncentrality at which
    P(|T_ν(λ)| > t_{ν, 1−α/2}) = power, ν the Welch-Satterthwaite degrees of freedom.

    The observed deviations stand in for the true ones, so with three seeds δ is itself a rough figure. No variance
    on both sides gives 0: any difference would show.
    """
    comparison = welch(first, second, alpha)
    if comparison.standard_error is None:
        return None
    if comparison.degrees is None:
        return 0.0
    return noncentrality(comparison.degrees, alpha, power) * comparison.standard_error


@lru_cache(maxsize=4096)
def noncentrality(degrees: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the λ > 0 at which a two-sided t-test of level ``alpha`` with ``degrees`` of freedom has ``power``."""
    check_alpha(alpha)
    if not alpha < power < 1:
        raise InputError(f"power is {power}; pass a probability between alpha ({alpha}) and 1, for example 0.8")
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
