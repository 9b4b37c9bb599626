"""A metric of one method over seeds, reduced to what a test needs: n, mean, sample standard deviation."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError


@dataclass(frozen=True)
class Sample:
    """``n`` values with their ``mean`` and sample standard deviation ``std``, None where there is none to give."""

    n: int
    mean: float
    std: float | None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"n is {self.n}; a sample needs at least one value")
        if not math.isfinite(self.mean):
            raise InputError(f"mean is {self.mean}; pass finite values")
        if self.std is not None and not (math.isfinite(self.std) and self.std >= 0):
            raise InputError(f"std is {self.std}; pass a finite value of at least 0, or None where it is unknown")

    @property
    def testable(self) -> bool:
        """Whether the sample carries a variance: two values or more and a known deviation."""
        return self.n >= 2 and self.std is not None

    @property
    def why_untestable(self) -> str:
        """Why the sample carries no variance; empty if it does."""
        if self.testable:
            return ""
        return "one seed: no standard deviation, no test" if self.n < 2 else "no standard deviation is given"


def sample_of(values: Iterable[float]) -> Sample:
    """Return n, mean and sample standard deviation s = √(Σ (x − x̄)² / (n − 1)) of per-seed values.

    Equal values give s = 0 exactly, never a rounding error that a test would take for a variance. One value gives
    no s.
    """
    array = np.asarray(list(values), dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(f"values has shape {array.shape}; pass at least one number")
    return _samples(array[None])[0]


def samples_of(many: Sequence[Collection[float]]) -> list[Sample]:
    """Return what :func:`sample_of` does, of many collections of values at once.

    >>> [sample.mean for sample in samples_of([[1.0, 2.0], [3.0], [5.0, 6.0]])]
    [1.5, 3.0, 5.5]
    """
    by_length: dict[int, list[int]] = {}
    for place, values in enumerate(many):
        by_length.setdefault(len(values), []).append(place)
    found: dict[int, Sample] = {}
    for length, places in by_length.items():
        if not length:
            raise InputError("values is empty; pass at least one number")
        array = np.array([list(many[place]) for place in places], dtype=np.float64)
        found |= zip(places, _samples(array), strict=True)
    return [found[place] for place in range(len(many))]


def _samples(array: NDArray[np.float64]) -> list[Sample]:
    """Return the sample of each row of (n_samples, n)."""
    if not np.isfinite(array).all():
        raise InputError(f"values holds {array[~np.isfinite(array)][0]}; pass finite numbers")
    n = array.shape[1]
    # Shifting by a value of the sample makes the differences of equal values exactly 0.
    shifted = array - array[:, :1]
    means = (array[:, 0] + shifted.mean(axis=1)).tolist()
    deviations = np.std(shifted, axis=1, ddof=1).tolist() if n > 1 else [None] * len(means)
    return [Sample(n, mean, std) for mean, std in zip(means, deviations, strict=True)]
