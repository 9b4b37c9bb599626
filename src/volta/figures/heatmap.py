"""A grid of numbers shaded from worst to best, each cell with its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import FAINT, INK
from volta.figures.data import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = "YlGnBu"
"""Light to dark in luminance, so it reads in grey and by colour-blind readers."""


def draw_heatmap(axes: Axes, shade: Floats, texts: Sequence[Sequence[str]], size: float = 7.0) -> None:
    """Draw cells shaded by ``shade`` in [0, 1], NaN for a cell without a value, with a text each."""
    axes.imshow(np.ma.masked_invalid(shade), cmap=SHADES, vmin=-0.12, vmax=1.25, aspect="auto", interpolation="nearest")
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            value = shade[row, column]
            color = FAINT if not np.isfinite(value) else "white" if value > 0.62 else INK
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
    n_rows, n_columns = shade.shape
    axes.set_xticks(np.arange(n_columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(n_rows + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
