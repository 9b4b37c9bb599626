"""Filters over the two spatial axes of a batch (n, h, w, channels), one image never touching another."""

from __future__ import annotations

import math

import numpy as np

from volta.core.types import Array

_NEGLIGIBLE_WEIGHT = 1e-5


def gaussian(images: Array, sigma: float) -> Array:
    """Return ``images`` under a Gaussian of ``sigma`` pixels, cut at 4 sigma, edge pixels repeated outwards."""
    from scipy.ndimage import gaussian_filter

    spatial = (0.0, sigma, sigma, 0.0)
    return np.asarray(gaussian_filter(images.astype(np.float32), spatial, mode="nearest", truncate=4.0))


def disc_kernel(radius: float, softness: float) -> Array:
    """Return the normalised disc {x² + y² ≤ radius²}, softened by a Gaussian of ``softness`` over 3×3 (5×5 above 8)."""
    from scipy.ndimage import correlate1d

    reach = 1 if radius <= 8 else 2
    half = math.floor(radius) + reach
    offsets = np.arange(-half, half + 1)
    disc = (offsets[:, None] ** 2 + offsets[None, :] ** 2 <= radius**2).astype(np.float64)
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * softness**2))
    taps /= taps.sum()
    for axis in (0, 1):
        disc = correlate1d(disc, taps, axis=axis, mode="constant")
    return np.asarray(disc / disc.sum())


def correlate(images: Array, kernel: Array) -> Array:
    """Return ``images`` correlated with a small (k, k) kernel, mirrored at the edges without repeating the edge."""
    rows, cols = (size // 2 for size in kernel.shape)
    height, width = images.shape[1:3]
    padded = np.pad(images.astype(np.float32), ((0, 0), (rows, rows), (cols, cols), (0, 0)), mode="reflect")
    out = np.zeros(images.shape, dtype=np.float32)
    for (row, col), weight in np.ndenumerate(kernel):
        if weight != 0:
            out += np.float32(weight) * padded[:, row : row + height, col : col + width]
    return out


def smear(images: Array, radius: float, sigma: float, angles: Array) -> Array:
    """Return ``images`` smeared one way along ``angles`` (n,) in degrees, edge pixels repeated outwards.

    out(p) = Σ_i k_i · image(p + round(i·(cos θ, sin θ))), k_i ∝ exp(−i²/(2σ²)), i = 0 .. 2⌈radius⌉: half a
    Gaussian, which is ImageMagick's motion blur. Taps that weigh less than 1e-5 are left out.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    steps, weights = steps[weights >= _NEGLIGIBLE_WEIGHT], weights[weights >= _NEGLIGIBLE_WEIGHT]
    weights = (weights / weights.sum()).astype(np.float32)

    height, width = images.shape[1:3]
    reach = int(steps[-1])
    padded = np.pad(images.astype(np.float32), ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    radians = np.deg2rad(angles)[:, None]
    # ceil(v − 1/2) rounds halves down, as ImageMagick places its taps.
    rows = np.ceil(steps * np.sin(radians) - 0.5).astype(np.int64) + reach
    cols = np.ceil(steps * np.cos(radians) - 0.5).astype(np.int64) + reach
    out = np.zeros(images.shape, dtype=np.float32)
    for target, source, image_rows, image_cols in zip(out, padded, rows, cols, strict=True):
        for row, col, weight in zip(image_rows, image_cols, weights, strict=True):
            target[...] += weight * source[row : row + height, col : col + width]
    return out
