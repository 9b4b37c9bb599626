"""Differences of harmonic numbers, without a table as long as the rows."""

import numpy as np
from numpy.typing import NDArray

_SMALL = 64
_TABLE = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])


def harmonic_between(start: NDArray[np.intp], stop: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return Σ 1/i over start < i ≤ stop, elementwise, to a few units in the last place.

    Up to 64 the terms are summed; beyond, H_b − H_a is taken from the Euler-Maclaurin series of ln, whose first
    term left out is below 1/(240 · 64⁸) = 1.5e-17. start, stop: integers, 0 ≤ start ≤ stop.
    """
    near = _TABLE.take(np.minimum(stop, _SMALL)) - _TABLE.take(np.minimum(start, _SMALL))
    a = np.maximum(start, _SMALL).astype(np.float64)
    b = np.maximum(stop, _SMALL).astype(np.float64)
    u, v = 1 / (a * a), 1 / (b * b)
    tail = (u - v) * (1 / 12 - (u + v) / 120 + (u * u + u * v + v * v) / 252)
    far: NDArray[np.float64] = np.log1p((b - a) / a) - (b - a) / (2 * a * b) + tail
    far += near
    return far
