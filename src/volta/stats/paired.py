"""Two methods on the same seeds: the difference of each seed, and Hedges' g of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from volta.stats.estimate import Estimate
from volta.stats.samples import Sample, sample_of
from volta.stats.welch import small_sample_factor, welch

ROUNDING = 1e-9
"""Values that agree to this part agree: the rest is rounding, or where an iteration (a temperature's) stopped."""


def equal_values(first: Mapping[int, float], second: Mapping[int, float]) -> bool:
    """Whether both have the same seeds and, but for rounding, the same value in each."""
    return first.keys() == second.keys() and all(
        math.isclose(first[seed], second[seed], rel_tol=ROUNDING) for seed in first
    )


def seed_differences(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return first − second for every seed both have, in order."""
    return {seed: first[seed] - second[seed] for seed in sorted(first) if seed in second}


def difference_sample(first: Mapping[int, float], second: Mapping[int, float]) -> Sample | None:
    """Return n, mean and deviation of the seeds' differences, or None where no seed is shared.

    A deviation that is only rounding is 0, and so is a mean then.
    """
    differences = seed_differences(first, second)
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
