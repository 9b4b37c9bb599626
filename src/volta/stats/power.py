"""The smallest difference a test could have seen at all with this many seeds."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from volta.core.errors import InputError
from volta.stats.estimate import Estimate
from volta.stats.samples import Sample
from volta.stats.welch import ALPHA, check_alpha, welch

POWER = 0.8
_NODES = 96


def detectable(estimate: Estimate, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the true difference that the two-sided t-test of an estimate finds with probability ``power``.

    δ = λ se with λ the noncentrality at which P(|T_ν(λ)| > t_{ν, 1−α/2}) = power. The observed error stands in for the
    true one, so with three seeds δ is itself a rough figure. No variance gives 0: any difference would show.
    """
    if estimate.constant:
        return 0.0
    # Beyond this the noncentral t is the normal to six digits, and SciPy's series is slow.
    return noncentrality(min(estimate.degrees, 1e5), alpha, power) * estimate.standard_error


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
    from scipy import optimize, special

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    levels, weights = (nodes + 1) / 2, weights / 2
    # Each sample variance over the true one is χ²_ν/ν; Gauss' nodes are taken as its quantiles.
    first, second = (special.chdtri(n - 1, 1 - levels) / (n - 1) for n in (n_first, n_second))
    own, other = np.meshgrid(share * first, (1 - share) * second, indexing="ij")
    variance = own + other
    degrees = variance**2 / (own**2 / (n_first - 1) + other**2 / (n_second - 1))
    critical = special.stdtrit(degrees, 1 - alpha / 2) * np.sqrt(variance)
    joint = np.outer(weights, weights)

    def shortfall(shift: float) -> float:
        found = special.ndtr(shift - critical) + special.ndtr(-shift - critical)
        return power - float(np.sum(joint * found))

    upper = 4.0
    while shortfall(upper) > 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-9, rtol=1e-9))


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise InputError(f"power is {power}; pass a probability between alpha ({alpha}) and 1, for example 0.8")
