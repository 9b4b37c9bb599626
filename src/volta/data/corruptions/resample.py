"""Bilinear resampling of batches: fixed zooms as one sparse matrix, free displacements as gathers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from volta.core.types import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Edge = Literal["mirror", "reflect"]


def mean_zoom(images: Array, factors: tuple[float, ...]) -> Array:
    """Return the mean over ``factors`` ≥ 1 of ``images`` (n, h, w, c) enlarged about their centre and cropped back."""
    return _apply(_mean_zoom_matrix(*images.shape[1:3], factors), images, images.shape[1:3])


def enlarge(images: Array, shape: tuple[int, int]) -> Array:
    """Return ``images`` (n, h, w, c) stretched to ``shape``, corners on corners; the same array where it fits."""
    if images.shape[1:3] == shape:
        return images
    return _apply(_enlarge_matrix(images.shape[1], images.shape[2], *shape), images, shape)


def sample(images: Array, rows: Array, cols: Array, edge: Edge) -> Array:
    """Return ``images`` (n, h, w, c) read at the real positions ``rows``, ``cols`` (n, h', w'), bilinearly.

    Outside, the image is mirrored about the centre of the edge pixel (``mirror``) or its outer side
    (``reflect``).
    """
    n_images, height, width, channels = images.shape
    flat = images.astype(np.float32, copy=False).reshape(-1, channels)
    first_row, first_col = np.floor(rows).astype(np.int64), np.floor(cols).astype(np.int64)
    row_share = (rows - first_row).astype(np.float32)[..., None]
    col_share = (cols - first_col).astype(np.float32)[..., None]
    offsets = np.arange(n_images)[:, None, None] * (height * width)
    row_starts = [_fold(first_row + step, height, edge) * width + offsets for step in (0, 1)]
    col_positions = [_fold(first_col + step, width, edge) for step in (0, 1)]
    upper, lower = (
        (1 - col_share) * flat.take(start + col_positions[0], axis=0)
        + col_share * flat.take(start + col_positions[1], axis=0)
        for start in row_starts
    )
    return np.asarray((1 - row_share) * upper + row_share * lower)


def _fold(positions: Array, size: int, edge: Edge) -> Array:
    if edge == "mirror":
        period = 2 * (size - 1)
        folded = np.abs(positions) % period
        return np.asarray(np.minimum(folded, period - folded))
    folded = positions % (2 * size)
    return np.asarray(np.minimum(folded, 2 * size - 1 - folded))


def _apply(matrix: csr_array, images: Array, shape: tuple[int, ...]) -> Array:
    # Pixels as rows: a sparse product adds up each column on its own and in a fixed order, so that, unlike a dense
    # product, its last bit does not depend on how many images come together.
    n_images, height, width, channels = images.shape
    pixels = np.ascontiguousarray(images.astype(np.float32, copy=False).reshape(n_images, -1, channels).swapaxes(0, 1))
    out = matrix @ pixels.reshape(height * width, -1)
    return np.ascontiguousarray(out.reshape(-1, n_images, channels).swapaxes(0, 1)).reshape(n_images, *shape, channels)


@lru_cache(maxsize=16)
def _mean_zoom_matrix(height: int, width: int, factors: tuple[float, ...]) -> csr_array:
    from scipy.sparse import csr_array, kron

    total = csr_array((height * width, height * width), dtype=np.float32)
    for factor in factors:
        rows, cols = (_interpolation(_zoom_positions(size, factor), size) for size in (height, width))
        total = total + kron(rows, cols, format="csr")
    return csr_array(total / np.float32(len(factors)))


@lru_cache(maxsize=16)
def _enlarge_matrix(height: int, width: int, new_height: int, new_width: int) -> csr_array:
    from scipy.sparse import csr_array, kron

    rows = _interpolation(np.linspace(0, height - 1, new_height), height)
    cols = _interpolation(np.linspace(0, width - 1, new_width), width)
    return csr_array(kron(rows, cols, format="csr"))


def _zoom_positions(size: int, factor: float) -> Array:
    """Return where the ``size`` pixels of the zoomed image lie in the original.

    The central ⌈size/factor⌉ pixels are stretched to round(⌈size/factor⌉·factor) pixels, ends on ends, and
    the surplus is trimmed from both sides.
    """
    crop = math.ceil(size / factor)
    stretched = round(crop * factor)
    positions = np.arange(stretched) * ((crop - 1) / (stretched - 1)) + (size - crop) // 2
    trim = (stretched - size) // 2
    return np.asarray(positions[trim : trim + size])


def _interpolation(positions: Array, size: int) -> csr_array:
    from scipy.sparse import csr_array

    first = np.clip(np.floor(positions).astype(np.int64), 0, size - 2)
    share = positions - first
    rows = np.arange(len(positions))
    weights = np.concatenate([1 - share, share]).astype(np.float32)
    entries = (weights, (np.tile(rows, 2), np.concatenate([first, first + 1])))
    matrix = csr_array(entries, shape=(len(positions), size))
    matrix.eliminate_zeros()
    return matrix
