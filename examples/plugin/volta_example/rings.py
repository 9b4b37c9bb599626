"""A task: which of three rings a point lies on; points beyond all rings are OOD."""

from __future__ import annotations

import numpy as np

from volta import Task


def rings() -> Task:
    """Three noisy rings in the plane, one column in thousandths."""
    random = np.random.default_rng(7)
    labels = np.arange(600) % 3
    rows = _points(random, 1.0 + labels + random.normal(0.0, 0.15, len(labels)))
    beyond = _points(random, random.uniform(6.0, 8.0, 200))
    between = _points(random, random.choice([1.5, 2.5], 200))
    return Task.from_arrays(
        train=(rows, labels), ood={"beyond": beyond, "between": between}, near=("between",), name="rings"
    )


def _points(random: np.random.Generator, radius: np.ndarray) -> np.ndarray:
    angle = random.uniform(0.0, 2.0 * np.pi, len(radius))
    return np.column_stack([radius * np.cos(angle), 1000.0 * radius * np.sin(angle), radius**2])
