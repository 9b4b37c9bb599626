"""The smallest difference a test could have seen at all with this many seeds."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.stats.estimate import Estimate
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA, check_alpha, welch

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


def detectable_difference(first: Sample, second: Sample, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """Return the true difference that Welch's two-sided test finds with probability ``power``, or None if untestable.

    δ = λ se with se² = s₁²/n₁ + s₂²/n₂ and λ such that E[P(|Z + λ| > t_{ν̂, 1−α/2} ŝe/se)] = power, the mean over the
    sampling of both deviations, on which Welch's degrees of freedom ν̂ and error ŝe depend. Taking ν̂ as if it were known
    would promise too much: with three seeds and equal deviations 3.07 s instead of 3.5 s, which has 70 % power.

    The observed deviations stand in for the true ones. No variance on both sides gives 0: any difference would show.
    """
    comparison = welch(first, second, alpha)
    if comparison.standard_error is None:
        return None
    if comparison.degrees is None:
        return 0.0
    share = ((first.std or 0.0) / math.sqrt(first.n) / comparison.standard_error) ** 2
    return _welch_noncentrality(first.n, second.n, round(share, 6), alpha, power) * comparison.standard_error


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


@lru_cache(maxsize=4096)
def _welch_noncentrality(n_first: int, n_second: int, share: float, alpha: float, power: float) -> float:
    """Return λ of Welch's test; share: the first sample's part of se²."""
    _check_power(power, alpha)
    from scipy import special

    weights, first, second = _variances(n_first - 1, n_second - 1)
    own, other = np.meshgrid(share * first, (1 - share) * second, indexing="ij")
    variance = own + other
    degrees = variance**2 / (own**2 / (n_first - 1) + other**2 / (n_second - 1))
    critical = np.asarray(special.stdtrit(degrees, 1 - alpha / 2) * np.sqrt(variance), float)
    return _shift_of(power, critical, np.outer(weights, weights))


@lru_cache(maxsize=4096)
def _joint_noncentrality(degrees: float, share: float, alpha: float, power: float) -> float:
    """Return λ of an estimate's test; share: the seeds' part of se², whose rest is known."""
    check_alpha(alpha)
    _check_power(power, alpha)
    from scipy import special

    weights, variance = _variances(degrees)
    student, normal = (float(one) for one in (special.stdtrit(degrees, 1 - alpha / 2), special.ndtri(1 - alpha / 2)))
    return _shift_of(power, np.sqrt(student**2 * share * variance + normal**2 * (1 - share)), weights)


def _variances(*degrees: float) -> tuple[Floats, ...]:
    """Return weights, and for each of ``degrees`` the sample variances over the true one, χ²_ν/ν, that they weigh."""
    from scipy import special

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    # Gauss' nodes are taken as the quantiles.
    return weights / 2, *(np.asarray(special.chdtri(one, 1 - (nodes + 1) / 2) / one, float) for one in degrees)


def _shift_of(power: float, critical: Floats, weights: Floats) -> float:
    """Return the shift λ at which |Z + λ| > ``critical`` with probability ``power``, the mean by ``weights``."""
    from scipy import optimize, special

    def shortfall(shift: float) -> float:
        found = special.ndtr(shift - critical) + special.ndtr(-shift - critical)
        return power - float(np.sum(weights * found))

    upper = 4.0
    while shortfall(upper) > 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-9, rtol=1e-9))


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise InputError(f"power is {power}; pass a probability between alpha ({alpha}) and 1, for example 0.8")
