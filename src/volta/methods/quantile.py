"""The conformal quantile that both kinds of prediction set use."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from volta.core.errors import InputError
from volta.methods.scores import Floats


def conformal_quantile(scores: Floats, alpha: float) -> float:
    """Return the ⌈(n+1)(1−α)⌉-th smallest of n scores, ∞ if that is beyond n.

    α is taken as the decimal number it prints as, so that n = 9, α = 0.1 asks for the 9th score, not the 10th.
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha is {alpha}; pass a number between 0 and 1")
    rank = math.ceil((len(scores) + 1) * (1 - Fraction(str(alpha))))
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else math.inf
