"""Uniform noise as an OOD set: nothing to download, the same images every time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array, Split
from volta.data.published.image_set import FoundSet

N_NOISE = 10_000


@dataclass(frozen=True)
class UniformNoise:
    """Uniform noise in the shape of a task's images."""

    task: str
    shape: tuple[int, int, int] = (3, 32, 32)
    n_rows: int = N_NOISE

    @property
    def described(self) -> str:
        """What the set is; it is never missing."""
        return "uniform noise"

    def is_there(self, root: Path) -> bool:
        """Return True: the set is made, not read."""
        return True

    def find(self, root: Path) -> FoundSet:
        """Draw the images."""
        images = uniform_noise_images(self.task, self.shape, self.n_rows)
        return FoundSet(Split(images, np.zeros(len(images), np.int64)))


def uniform_noise_images(task: str, shape: tuple[int, int, int] = (3, 32, 32), n_images: int = N_NOISE) -> Array:
    """Return n images whose every value is drawn from U[0, 1] and held as 8 bits, (n, 3, h, w) uint8.

    u ~ U[0, 1) becomes ⌊256 u⌋, which a network reads as ⌊256 u⌋ / 255: each of the 256 levels from 0 to 1 is equally
    likely, the nearest that an 8-bit image has to U[0, 1]. Drawn from the split seed and the task's name.
    """
    return rng(SPLIT_SEED, task, "uniform_noise").integers(0, 256, (n_images, *shape), dtype=np.uint8)
