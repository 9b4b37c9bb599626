"""From computed values back to the 256 levels of an image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array

_SLACK = 1 / 256


def to_levels(values: Array) -> NDArray[np.uint8]:
    """Clip to 0..255 and cut to whole levels, as the recipe does: no rounding.

    1/256 of a level of slack keeps a value that is whole but for float error, 254.99999, from losing its
    level.
    """
    if values.dtype == np.uint8:
        return values
    return np.clip(values + _SLACK, 0, 255).astype(np.uint8)
