"""Gaussian, defocus, glass, motion and zoom blur."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.filters import correlate, disc_kernel, gaussian, smear
from volta.data.corruptions.levels import to_levels
from volta.data.corruptions.resample import mean_zoom
from volta.data.corruptions.sizes import length_scale


def gaussian_blur(images: Array, draws: Draws, sigma: float) -> Array:
    """Blur with a Gaussian of ``sigma`` pixels."""
    return gaussian(images, sigma * length_scale(images))


def defocus_blur(images: Array, draws: Draws, radius: float, softness: float) -> Array:
    """Blur with a disc of ``radius`` pixels whose rim is softened by a Gaussian of ``softness`` pixels.

    The radius scales with the image, the softness of the rim does not.
    """
    return correlate(images, disc_kernel(radius * length_scale(images), softness))


def glass_blur(images: Array, draws: Draws, sigma: float, reach: float, rounds: float) -> Array:
    """Blur, let every inner pixel take the value of a random neighbour, ``rounds`` times, and blur again.

    x'(p) = x(p + δ), δ uniform on {−d, .., d − 1}², d = ``reach``. The recipe's program sets out to swap the
    two pixels, but its assignment overwrites the second before reading it, so what the published images show
    is this copy; for d = 1 it is the same pixel for pixel.
    """
    scale = length_scale(images)
    reach_px = max(1, round(reach * scale))
    height, width = images.shape[1:3]
    shuffled = to_levels(gaussian(images, sigma * scale))
    rows, cols = np.arange(reach_px + 1, height - reach_px + 1), np.arange(reach_px + 1, width - reach_px + 1)
    starts = np.arange(len(images))[:, None, None] * (height * width)
    for _ in range(int(rounds)):
        delta = draws.integers(2 * reach_px, (2, len(rows), len(cols))) - reach_px
        sources = (rows[:, None] + delta[:, 0]) * width + cols + delta[:, 1] + starts
        moved = shuffled.reshape(-1, 3).take(sources, axis=0)
        shuffled[:, rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1] = moved
    return gaussian(shuffled, sigma * scale)


def motion_blur(images: Array, draws: Draws, radius: float, sigma: float) -> Array:
    """Smear one way, with Gaussian decay ``sigma``, at an angle uniform on [−45°, 45°)."""
    scale = length_scale(images)
    # Rounded, not cut, to whole levels: ImageMagick's way.
    return np.rint(smear(images, radius * scale, sigma * scale, draws.uniform(-45.0, 45.0)))


def zoom_blur(images: Array, draws: Draws, percent: float) -> Array:
    """Average the image, twice, with its enlargements by 1 %, 2 %, .., ``percent`` %."""
    # The recipe's factors come from a float range, whose last bit decides how half a pixel is rounded.
    one_percent = 1.01 - 1
    return mean_zoom(images, (1.0, *(1 + step * one_percent for step in range(int(percent) + 1))))


BLURS: dict[str, Corruption] = {
    "defocus_blur": Corruption(defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)), "blur"),
    "glass_blur": Corruption(glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)), "blur"),
    "motion_blur": Corruption(motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)), "blur"),
    "zoom_blur": Corruption(zoom_blur, ((6,), (11,), (15,), (20,), (25,)), "blur"),
    "gaussian_blur": Corruption(gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,)), "blur", extra=True),
}
