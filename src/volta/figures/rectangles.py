"""Many rectangles as one artist: Matplotlib pays for every artist several times over, hardly for what is in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_rectangles(
    axes: Axes, left: ArrayLike, right: ArrayLike, bottom: ArrayLike, top: ArrayLike, **look: Any
) -> None:
    """Draw rectangles with these sides, (n,) each or one number for all; the axes' limits are the caller's to set."""
    from matplotlib.collections import PolyCollection

    corners = np.broadcast_arrays(*(np.asarray(side, dtype=np.float64) for side in (left, right, bottom, top)))
    x0, x1, y0, y1 = (np.atleast_1d(side) for side in corners)
    outlines = np.stack([np.stack([x0, x1, x1, x0], axis=1), np.stack([y0, y0, y1, y1], axis=1)], axis=2)
    axes.add_collection(PolyCollection(list(outlines), **look), autolim=False)
