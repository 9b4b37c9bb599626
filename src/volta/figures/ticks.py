"""Axes that suit the data: linear, or logarithmic with plain numbers where values span more than a decade."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.scales import dwarfed_reach

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def fit_axis(axes: Axes, which: str, values: Sequence[float], *, log: bool = False, floor: float | None = None) -> None:
    """Set the limits of the x or y axis around the values with a margin, on a log scale with plain numbers if asked."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

    low, high = min(values), max(values)
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    if log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        low, high = low / 1.25, high * 1.25
        ticks = log_ticks(low, high)
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        set_limits(low, high)
        return
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    set_limits(low - margin if floor is None else max(floor, low - margin), high + margin)


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two positive limits: 1, 2, 5 per decade, or powers of ten over many decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]


def fit_differences(axes: Axes, ends: Sequence[tuple[float, float]]) -> None:
    """Set an x axis around 0 for bars that reach from 0 to (low, high) each.

    Symmetric and linear; but where one bar dwarfs the middle one, logarithmic beyond a round number, so that small bars
    stay visible beside the large one.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    reaches = [reach for low, high in ends if (reach := max(abs(low), abs(high))) > 0]
    if not reaches:
        return
    longest, middle = max(reaches), dwarfed_reach(reaches)
    if middle is None:
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(-1.25 * longest, 1.25 * longest)
        return
    linear = 10.0 ** math.ceil(math.log10(middle))
    axes.set_xscale("symlog", linthresh=linear, linscale=1.5)
    decades = range(round(math.log10(linear)), math.floor(math.log10(longest)) + 1)
    positive = [10.0**decade for decade in decades]
    ticks = [*(-tick for tick in reversed(positive)), 0.0, *positive]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    axes.set_xlim(*(side * max(0.8 * linear, 4 * side * end) for side, end in ((-1, low), (1, high))))
