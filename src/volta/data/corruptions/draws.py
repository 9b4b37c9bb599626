"""Random numbers per image: what image i gets depends on the seed, the corruption and i, never on the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from volta.core.seeding import rng
from volta.core.types import Array


class Draws:
    """One stream of random numbers for each image of a batch.

    The severity is no part of the stream: the five severities of an image share their draws wherever the
    number of draws allows it (noise at severity 5 is severity 1's noise, amplified), so severities differ by
    strength alone.
    """

    def __init__(self, seed: int, name: str, indices: Sequence[int]) -> None:
        self.seed = seed
        self.name = name
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def _streams(self) -> list[np.random.Generator]:
        return [rng(self.seed, "corruption", self.name, int(index)) for index in self.indices]

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Return N(0, 1) draws of ``shape`` for each image, (n, ...) float32."""
        draws = np.empty((len(self), *shape), dtype=np.float32)
        for stream, row in zip(self._streams, draws, strict=True):
            stream.standard_normal(out=row, dtype=np.float32)
        return draws

    def uniform(self, low: float, high: float, shape: tuple[int, ...] = ()) -> Array:
        """Return U[low, high) draws of ``shape`` for each image, (n, ...) float64."""
        return self._each(lambda stream: stream.uniform(low, high, shape), shape, np.float64)

    def integers(self, high: int, shape: tuple[int, ...] = ()) -> Array:
        """Return integers drawn evenly from 0 .. ``high`` − 1 for each image, (n, ...) int64."""
        return self._each(lambda stream: stream.integers(high, size=shape), shape, np.int64)

    def poisson(self, means: Array) -> Array:
        """Return one Poisson count for each entry of ``means`` (n, ...), as float32."""
        counts = np.empty(means.shape, dtype=np.float32)
        for stream, row, mean in zip(self._streams, counts, means, strict=True):
            row[...] = stream.poisson(mean)
        return counts

    def _each(
        self, draw: Callable[[np.random.Generator], Array], shape: tuple[int, ...], dtype: type[np.generic]
    ) -> Array:
        draws = np.empty((len(self), *shape), dtype=dtype)
        for position, stream in enumerate(self._streams):
            draws[position] = draw(stream)
        return draws
