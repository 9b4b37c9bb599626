"""The conformal quantile, shared by methods that make prediction sets and by the metrics that judge them."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from volta.core.checks import check_fraction, check_scores


def conformal_quantile(scores: ArrayLike, alpha: float) -> float:
    """Return the split-conformal threshold: the ⌈(n + 1)(1 − α)⌉-th smallest score, inf beyond n.

    α is read as the nearest fraction with a denominator up to 10⁹, so 0.1 is 1/10 and n = 9 gives rank 9.
    scores: (n_samples,) calibration scores, higher = less conforming.

    >>> conformal_quantile([0.1, 0.2, 0.3, 0.4], alpha=0.4)  # ⌈5 · 0.6⌉ = 3
    0.3
    >>> conformal_quantile([0.1, 0.2, 0.3, 0.4], alpha=0.1)  # ⌈5 · 0.9⌉ = 5 is beyond 4
    inf
    """
    values = check_scores(scores)
    level = 1 - nearest_fraction(check_fraction(alpha, "alpha"))
    exact = (len(values) + 1) * level
    rank = max(1, -(-exact.numerator // exact.denominator))
    if rank > len(values):
        return float("inf")
    return float(np.partition(values, rank - 1)[rank - 1])


@lru_cache(maxsize=256)
def nearest_fraction(level: float) -> Fraction:
    """Read a level in (0, 1) as the nearest fraction with a denominator up to 10⁹; closer to 0 or 1 as it stands."""
    nearest = Fraction(level).limit_denominator(10**9)
    return nearest if 0 < nearest < 1 else Fraction(level)
