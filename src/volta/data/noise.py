"""Uniform noise as an OOD set."""

from __future__ import annotations

import numpy as np

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array

N_NOISE = 10_000


def uniform_noise_images(task: str, shape: tuple[int, int, int] = (3, 32, 32), n_images: int = N_NOISE) -> Array:
    """Return n images whose every value is drawn from U[0, 1] and held as 8 bits, (n, 3, h, w) uint8.

    u ~ U[0, 1) becomes ⌊256 u⌋, which a network reads as ⌊256 u⌋ / 255: each of the 256 levels from 0 to 1 is equally
    likely, the nearest that an 8-bit image has to U[0, 1]. Drawn from the split seed and the task's name.
    """
    return rng(SPLIT_SEED, task, "uniform_noise").integers(0, 256, (n_images, *shape), dtype=np.uint8)
