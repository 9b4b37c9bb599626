"""Fog from a plasma fractal."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws


def fog(images: Array, draws: Draws, thickness: float, decay: float) -> Array:
    """Add a cloud f in [0, 1], a plasma fractal, and rescale to the image's brightest value M: (x + t·f)·M/(M + t)."""
    height, width = images.shape[1:3]
    cloud = plasma(draws, max(height, width), decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float32)
    added = np.float32(255 * thickness)
    return np.asarray((images + added * cloud) * (brightest / (brightest + added)))


def plasma(draws: Draws, side: int, decay: float) -> Array:
    """Return one fractal height map in [0, 1] for each image, (n, m, m) float32, m the power of two from ``side`` on.

    Diamond-square on a torus: each level halves the step, sets every new point to the mean of its four
    neighbours plus U[−a, a), and divides a by decay² (the recipe divides both factors of its amplitude by
    ``decay``).
    """
    size = 1 << (side - 1).bit_length()
    heights = np.zeros((len(draws), size, size))
    amplitude, step = 1.0, size
    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        noise = draws.uniform(-1.0, 1.0, (3, *corners.shape[1:])) * amplitude
        across = corners + np.roll(corners, -1, axis=2)
        centres = (across + np.roll(across, -1, axis=1)) / 4 + noise[:, 0]
        heights[:, half::step, half::step] = centres
        heights[:, ::step, half::step] = (centres + np.roll(centres, 1, axis=1) + across) / 4 + noise[:, 1]
        down = corners + np.roll(corners, -1, axis=1)
        heights[:, half::step, ::step] = (centres + np.roll(centres, 1, axis=2) + down) / 4 + noise[:, 2]
        amplitude /= decay**2
        step = half
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return np.asarray((heights / heights.max(axis=(1, 2), keepdims=True)).astype(np.float32))


FOG: dict[str, Corruption] = {
    "fog": Corruption(fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)), "weather"),
}
