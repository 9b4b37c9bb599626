"""Scaling inside the model: learned on training rows, applied in float64, safe for every finite input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import CHUNK_ELEMENTS, FLOAT32_MAX
from volta.core.errors import InputError
from volta.core.types import Array, EncoderKind

ScaleName: TypeAlias = Literal["auto", "standard", "none"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)

Precision = TypeVar("Precision", bound=np.floating[Any])

DIFFERENT_SCALES = 30.0
"""Columns differ in scale where the largest one's root mean square is this many times the median one's."""

BEYOND = 1e6
LARGEST_INPUT = 1e15


@dataclass(frozen=True, eq=False)
class Scaler:
    """z = (x − centre) / scale, column by column; without ``centre`` and ``scale`` z = x.

    ``limit``: the network sees z cut to ±limit, a million times beyond the training rows, so that no square of it
    overflows float32. Rows that far out are told from others by the range check, which sees them uncut.
    """

    centre: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None
    limit: float

    @property
    def kind(self) -> Literal["standard", "none"]:
        """Whether anything is scaled."""
        return "none" if self.centre is None else "standard"

    def exact(self, rows: Array) -> NDArray[np.float64]:
        """Return (n, d) float64, cut only to float32's range: what the range check sees."""
        with np.errstate(over="ignore"):
            if self.centre is None or self.scale is None:
                wide = rows.astype(np.float64)
            else:
                wide = np.subtract(rows, self.centre, dtype=np.float64)
                wide /= self.scale
        return wide.clip(-FLOAT32_MAX, FLOAT32_MAX, out=wide)

    def apply(self, rows: Array, dtype: type[Precision] = np.float32) -> NDArray[Precision]:  # type: ignore[assignment]
        """Return (n, d) of ``dtype``, cut to ±limit: what the network sees."""
        if rows.size <= CHUNK_ELEMENTS or len(rows) == 1:
            return self.exact(rows).clip(-self.limit, self.limit).astype(dtype, copy=False)
        scaled = np.empty(rows.shape, dtype=dtype)
        for part in row_parts(rows):
            scaled[part] = self.apply(rows[part], dtype)
        return scaled

    def inverse(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scaled rows (n, d) in the units they came in."""
        return rows if self.centre is None or self.scale is None else rows * self.scale + self.centre

    def restore(self, column: int, value: float) -> float:
        """Return a scaled value of a column in the units it came in."""
        if self.centre is None or self.scale is None:
            return value
        return float(value * self.scale[column] + self.centre[column])


def fit_scaler(rows: Array, scale: ScaleName, encoder: EncoderKind) -> Scaler:
    """Learn the columns' means and standard deviations on training rows (n, d).

    ``auto`` standardises for the tabular encoder; features of a vision backbone stay as they are unless their columns
    differ in scale. A column that does not vary is centred only.
    """
    if scale not in SCALES:
        raise InputError(f"scale is {scale!r}; pass one of {', '.join(SCALES)}")
    centre, deviation = _moments(rows)
    if scale == "none" or (scale == "auto" and encoder == "vision" and not _scales_differ(centre, deviation)):
        return Scaler(None, None, _limit(float(_largest(rows).max())))
    # The spread that rounding leaves in a constant column is none.
    varies = deviation > 1e-12 * np.abs(centre)
    chosen = np.where(varies, deviation, 1.0)
    largest = max(float(np.abs((rows[part] - centre) / chosen).max()) for part in row_parts(rows))
    return Scaler(centre, chosen, _limit(largest))


def row_parts(rows: Array) -> Iterator[slice]:
    """Walk rows in pieces whose float64 copy is small."""
    step = max(1, CHUNK_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield slice(start, start + step)


def _limit(largest: float) -> float:
    return max(min(BEYOND * max(largest, 1.0), LARGEST_INPUT), min(largest, FLOAT32_MAX))


def _largest(rows: Array) -> NDArray[np.float64]:
    """Return each column's largest absolute value."""
    largest = np.zeros(rows.shape[1])
    for part in row_parts(rows):
        np.maximum(largest, np.abs(rows[part]).max(axis=0), out=largest)
    return largest


def _moments(rows: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each column's mean and standard deviation, in units of its largest value, so that no square overflows."""
    unit = _largest(rows)
    unit[unit == 0.0] = 1.0
    total, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for part in row_parts(rows):
        total += (rows[part] / unit).sum(axis=0)
    mean = total / len(rows)
    for part in row_parts(rows):
        squares += ((rows[part] / unit - mean) ** 2).sum(axis=0)
    return mean * unit, np.sqrt(squares / len(rows)) * unit


def _scales_differ(centre: NDArray[np.float64], deviation: NDArray[np.float64]) -> bool:
    size = np.hypot(centre, deviation)
    size = size[size > 0.0]
    return len(size) > 1 and bool(size.max() > DIFFERENT_SCALES * np.median(size))
