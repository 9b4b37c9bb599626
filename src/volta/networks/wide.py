"""VOLTA+'s body: features made even, one wide hidden layer on them, and both joined for a linear head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.scaling import row_parts
from volta.core.types import Array
from volta.networks.layers import Dropout

LARGEST_INPUT = 1e6
SKEWED = 0.5


@dataclass(frozen=True)
class Even:
    """Features made even: x = (r − centre) / scale, cut to ±10⁶ so that no square of it overflows.

    r = sign(h − low)·√|h − low| in the columns that ``rooted`` marks and r = h in others; one value a column each.
    """

    low: tuple[float, ...]
    rooted: tuple[bool, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Wide(Even):
    """f = [a(x), x]: linear, LayerNorm, GELU and dropout on prepared inputs, joined to these.

    Dropout of inputs is on both parts of f.
    """

    hidden: int = 1024
    dropout: float = 0.6
    input_dropout: float = 0.1

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return self.hidden + len(self.centre)

    def build(self, input_shape: tuple[int, ...]) -> nn.Module:
        """Return the module for feature rows."""
        return _WideModule(self)


def fit_even(rows: Array) -> Even:
    """Learn on training rows (n, d) which columns are skewed, and what all are standardised by.

    A column is rooted, from its least value on, where its skewness is above 0.5 by two standard errors √(6/n): what a
    ReLU or a count leaves is even after that, whatever the column's scale and offset. The scale is σ + a tenth of the
    columns' mean σ, so that columns that hardly vary stay small.
    """
    low = np.full(rows.shape[1], np.inf)
    total, squares, cubes = (np.zeros(rows.shape[1]) for _ in range(3))
    for part in row_parts(rows):
        wide = rows[part].astype(np.float64)
        low = np.minimum(low, wide.min(axis=0))
        total += wide.sum(axis=0)
    for part in row_parts(rows):
        centred = rows[part].astype(np.float64) - total / len(rows)
        power = centred * centred
        squares += power.sum(axis=0)
        power *= centred
        cubes += power.sum(axis=0)
    # Skewness is m₃ / m₂^1.5; written as a product, a column that does not vary has none.
    skewed = SKEWED + 2.0 * math.sqrt(6.0 / len(rows))
    rooted = cubes / len(rows) > skewed * (squares / len(rows)) ** 1.5
    centre, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for part in row_parts(rows):
        centre += _rooted(rows[part], low, rooted).sum(axis=0) / len(rows)
    for part in row_parts(rows):
        squares += ((_rooted(rows[part], low, rooted) - centre) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / len(rows))
    scale = deviation + 0.1 * deviation.mean() if deviation.any() else np.ones_like(deviation)
    return Even(*(tuple(values.tolist()) for values in (low, rooted, centre, scale)))


def _rooted(rows: Array, low: NDArray[np.float64], rooted: NDArray[np.bool_]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return np.where(rooted, np.sqrt(wide - low), wide)


@torch.inference_mode()
def prepared(even: Even, rows: Array) -> NDArray[np.float32]:
    """Return x of :class:`Even` for rows (n, d), as the network computes it."""
    prepare, found = Prepare(even), np.empty(rows.shape, dtype=np.float32)
    for part in row_parts(rows):
        found[part] = prepare(torch.from_numpy(rows[part].astype(np.float32))).numpy()
    return found


class Prepare(nn.Module):
    """From features to x of :class:`Even`."""

    low: Tensor
    rooted: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, spec: Even) -> None:
        super().__init__()
        for name in ("low", "rooted", "centre", "scale"):
            self.register_buffer(name, torch.tensor(getattr(spec, name)), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return prepared rows (n, d)."""
        above = features - self.low
        # In place from here on: this runs in every step of training.
        rows = torch.where(self.rooted, above.sign().mul_(above.abs_().sqrt_()), features)
        return rows.sub_(self.centre).div_(self.scale).clamp_(-LARGEST_INPUT, LARGEST_INPUT)


class _WideModule(nn.Module):
    def __init__(self, spec: Wide) -> None:
        super().__init__()
        self.prepare = Prepare(spec)
        self.input_dropout = Dropout(spec.input_dropout)
        self.layers = nn.Sequential(
            nn.Linear(len(spec.centre), spec.hidden), nn.LayerNorm(spec.hidden), nn.GELU(), Dropout(spec.dropout)
        )

    def forward(self, features: Tensor) -> Tensor:
        inputs = self.input_dropout(self.prepare(features))
        return torch.cat([self.layers(inputs), inputs], dim=1)
