"""Where values stand among others: spread, Pareto front, place between worst and best, rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SMALL, LARGE = 0.05, 100.0
"""A column whose values are all below the one, and values above the other, are printed with two significant digits."""
DWARFED = 15.0
"""An axis is compressed where its longest bar is this many times the middle one."""


def spans_decades(values: Sequence[float], ratio: float = 10.0) -> bool:
    """Whether positive values spread over more than ``ratio``."""
    return len(values) > 1 and min(values) > 0 and max(values) / min(values) > ratio


def dwarfed_reach(reaches: Sequence[float]) -> float | None:
    """Return the middle of positive bar lengths where the longest would hide it on a linear axis, else None."""
    found = sorted(reaches)
    if not found or found[-1] <= DWARFED * found[len(found) // 2]:
        return None
    return found[len(found) // 2]


def beaten_by(x: Sequence[float], y: Sequence[float]) -> list[list[int]]:
    """Return, for each point, the indices of the points that beat it, x to be large and y to be small.

    A point beats another that it equals on one axis and betters on the other.
    """
    return [
        [j for j in range(len(x)) if j != i and x[j] >= x[i] and y[j] <= y[i] and (x[j] > x[i] or y[j] < y[i])]
        for i in range(len(x))
    ]


def pareto_front(x: Sequence[float], y: Sequence[float]) -> list[int]:
    """Return the indices of points that no other point beats, x to be large and y to be small."""
    return [index for index, stronger in enumerate(beaten_by(x, y)) if not stronger]


def unit_scale(
    values: Sequence[float], higher_is_better: bool | None, among: Sequence[float] | None = None
) -> list[float]:
    """Map values to [0, 1] by their place between the worst and best of ``among`` (or of themselves), 1 being best.

    Values beyond those ends count as the ends; where all of ``among`` are equal, every value gives 1.
    """
    ends = np.asarray(values if among is None else among, dtype=np.float64)
    spread = float(np.ptp(ends))
    if spread == 0:
        return [1.0] * len(values)
    scaled = np.clip((np.asarray(values, dtype=np.float64) - ends.min()) / spread, 0, 1)
    return [float(value) for value in (1 - scaled if higher_is_better is False else scaled)]


def as_printed(values: Sequence[float], digits: int) -> list[float]:
    """Return values as a grid prints them, so that cells which read alike are shaded alike.

    >>> as_printed([0.98891, 0.98889], 3)
    [0.989, 0.989]
    >>> as_printed([0.00123, 0.000456], 3)
    [0.0012, 0.00046]
    """
    largest = max(map(abs, values), default=0.0)
    return [
        round(value, digits) if largest >= SMALL and abs(value) < LARGE else float(f"{value:.2g}") for value in values
    ]


def rank_scale(values: Sequence[float], higher_is_better: bool | None) -> list[float]:
    """Map values to [0, 1] by rank, 1 being best; equal values share a rank, so one outlier cannot hide the rest."""
    return [
        rank_among(value, [*values[:place], *values[place + 1 :]], higher_is_better)
        for place, value in enumerate(values)
    ]


def rank_among(value: float, others: Sequence[float], higher_is_better: bool | None) -> float:
    """Return the share of ``others`` that a value beats, those equal to it counting half; 1 where there are none."""
    if not len(others):
        return 1.0
    sign = -1 if higher_is_better is False else 1
    beaten = sum(sign * value > sign * other for other in others) + sum(value == other for other in others) / 2
    return beaten / len(others)
