"""Equal-width bins (lo, hi] on [0, 1], the first closed at 0."""

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import Floats

N_BINS = 15


def bin_edges(n_bins: int) -> NDArray[np.float64]:
    """Return the n_bins + 1 edges j / n_bins, each the nearest float64."""
    return np.arange(n_bins + 1) / n_bins


def bin_index(values: Floats, n_bins: int) -> NDArray[np.intp]:
    """Return for each value in [0, 1] the j with edge_j < value ≤ edge_{j+1}; j = 0 also holds value 0.

    ⌈value · n_bins⌉ − 1 can be one off where the product rounds, so it is compared with the edges; the
    product of a float32 and n_bins < 2²⁰ is exact in float64 and needs no comparison.
    A value above 1 by rounding of the input counts in the last bin. values: (n,); result: (n,).
    """
    exact: NDArray[np.float64] = values.astype(np.float64, copy=False)
    scaled = exact * n_bins
    np.ceil(scaled, out=scaled)
    scaled -= 1
    np.clip(scaled, 0, n_bins - 1, out=scaled)
    index = scaled.astype(np.intp)
    if values.dtype.itemsize > 4 or n_bins >= 1 << 20:
        edges = bin_edges(n_bins)
        index -= exact <= edges.take(index)
        index += exact > edges.take(index + 1)
        np.clip(index, 0, n_bins - 1, out=index)
    return index


def first_bin_limit(n_bins: int, dtype: np.dtype[np.floating]) -> np.floating:
    """Return the largest number of `dtype` that lies in the first bin."""
    limit = dtype.type(1 / n_bins)
    return limit if float(limit) <= 1 / n_bins else np.nextafter(limit, dtype.type(0))
