"""What figures are drawn from: plain values, no stores and no records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Context:
    """What a figure must say beneath itself: which task and protocol, how many rows and seeds, which budget."""

    task: str
    protocol: str
    n_rows: int
    n_seeds: int
    budget: str = "full budget"

    @property
    def line(self) -> str:
        """The context as one line of text."""
        seeds = "1 seed" if self.n_seeds == 1 else f"{self.n_seeds} seeds"
        return f"{self.task} · {self.protocol} protocol · n = {self.n_rows:,} test rows · {seeds} · {self.budget}"


@dataclass(frozen=True)
class MethodValues:
    """A method's values by metric, one per seed."""

    name: str
    title: str
    values: Mapping[str, Sequence[float]]

    def has(self, *metrics: str) -> bool:
        """Whether every metric has at least one value."""
        return all(len(self.values.get(metric, ())) > 0 for metric in metrics)

    def mean(self, metric: str) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values[metric]))

    def std(self, metric: str) -> float:
        """Sample standard deviation over seeds; 0 with one seed."""
        values = self.values[metric]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class MethodCurve:
    """A method's curve: mean over seeds on a common grid, and the lowest and highest seed; all (n_points,)."""

    name: str
    title: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    area: float


@dataclass(frozen=True)
class MethodBins:
    """A method's reliability bins, rows of all seeds pooled; bin b is (b/B, (b+1)/B]; empty bins have count 0.

    `count`, `confidence`, `accuracy`: (n_bins,); `ece`: mean over seeds.
    """

    name: str
    title: str
    count: NDArray[np.int64]
    confidence: Floats
    accuracy: Floats
    ece: float


@dataclass(frozen=True)
class ScoreHistogram:
    """A method's score on test rows and on OOD rows, as shares per bin.

    `edges`: (n_bins + 1,), increasing but not always evenly spaced: bins are drawn equally wide. `shares` and `auroc`
    go by set name, the test rows being "test".
    """

    name: str
    title: str
    edges: Floats
    shares: Mapping[str, Floats]
    auroc: Mapping[str, float] = field(default_factory=dict)


def with_metrics(methods: Sequence[MethodValues], *metrics: str) -> list[MethodValues]:
    """Return the methods that have all these metrics."""
    return [method for method in methods if method.has(*metrics)]
