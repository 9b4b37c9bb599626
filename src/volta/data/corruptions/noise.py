"""Gaussian, shot, impulse and speckle noise, independent over pixels and channels."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws


def gaussian_noise(images: Array, draws: Draws, std: float) -> Array:
    """Add noise of a fixed size: x + std·ε, ε ~ N(0, 1), x in [0, 1]."""
    return images + np.float32(255 * std) * draws.normal(images.shape[1:])


def shot_noise(images: Array, draws: Draws, photons: float) -> Array:
    """Count photons: Poisson(x·photons)/photons, x in [0, 1]; fewer photons, more noise."""
    counts = draws.poisson(images * (photons / 255))
    return np.asarray(counts * np.float32(255 / photons))


def impulse_noise(images: Array, draws: Draws, share: float) -> Array:
    """Set a ``share`` of the values, each with even odds, to 0 or to 255 (salt and pepper in each channel)."""
    draw = draws.uniform(0.0, 1.0, images.shape[1:])
    out = np.where(draw < share / 2, np.uint8(0), images)
    return np.where(draw >= 1 - share / 2, np.uint8(255), out)


def speckle_noise(images: Array, draws: Draws, std: float) -> Array:
    """Add noise in proportion to the value: x + x·std·ε, ε ~ N(0, 1)."""
    return images * (1 + np.float32(std) * draws.normal(images.shape[1:]))


NOISES: dict[str, Corruption] = {
    "gaussian_noise": Corruption(gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)), "noise"),
    "shot_noise": Corruption(shot_noise, ((500,), (250,), (100,), (75,), (50,)), "noise"),
    "impulse_noise": Corruption(impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)), "noise"),
    "speckle_noise": Corruption(speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)), "noise", extra=True),
}
