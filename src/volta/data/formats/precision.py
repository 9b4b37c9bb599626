"""In which precision features are kept: float32, unless a column would lose what it says."""

from __future__ import annotations

import numpy as np

from volta.core.scaling import row_parts
from volta.core.types import Array

_ROUNDING = 2.0**-24
"""Half the distance of two neighbours in float32, of the larger one."""
_LOST = 1e-4
"""A column whose values are rounded by more than this share of its standard deviation is kept in float64."""


def feature_dtype(rows: Array) -> np.dtype[np.float32] | np.dtype[np.float64]:
    """Return float32, or float64 where rounding rows (n, d) to float32 would blur a column, as it does time stamps.

    >>> seconds = 1.7e9 + np.arange(60.0)[:, None]
    >>> feature_dtype(seconds), feature_dtype(seconds - seconds.mean())
    (dtype('float64'), dtype('float32'))
    """
    if np.can_cast(rows.dtype, np.float32, "safe"):
        return np.dtype(np.float32)
    counts, total, squares, largest = (np.zeros(rows.shape[1]) for _ in range(4))
    # NaN and infinities are refused, or their rows left out, elsewhere; here they say nothing.
    for part in row_parts(rows):
        values = rows[part].astype(np.float64)
        known = np.isfinite(values)
        np.maximum(largest, np.abs(values).max(axis=0, where=known, initial=0.0), out=largest)
        counts += known.sum(axis=0)
        total += values.sum(axis=0, where=known)
    counts = np.maximum(counts, 1.0)
    centre = total / counts
    for part in row_parts(rows):
        values = rows[part].astype(np.float64)
        with np.errstate(over="ignore"):
            squares += np.square(values - centre).sum(axis=0, where=np.isfinite(values))
    deviation = np.sqrt(squares / counts)
    blurred = (largest * _ROUNDING > _LOST * deviation) & (deviation > 1e-12 * largest)
    return np.dtype(np.float64) if blurred.any() else np.dtype(np.float32)
