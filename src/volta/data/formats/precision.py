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
    total, squares, largest = (np.zeros(rows.shape[1]) for _ in range(3))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in row_parts(rows):
            np.maximum(largest, np.abs(rows[part].astype(np.float64)).max(axis=0), out=largest)
            total += rows[part].sum(axis=0, dtype=np.float64)
        centre = total / max(1, len(rows))
        for part in row_parts(rows):
            squares += np.square(rows[part] - centre).sum(axis=0)
    deviation = np.sqrt(squares / max(1, len(rows)))
    # NaN and infinities are refused, or their rows left out, elsewhere.
    blurred = (largest * _ROUNDING > _LOST * deviation) & (deviation > 1e-12 * largest) & np.isfinite(largest)
    return np.dtype(np.float64) if blurred.any() else np.dtype(np.float32)
