"""A grid of numbers shaded from worst to best, each cell with its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
            write_inside(axes, column, row, text, fontsize=size, color=color)
    draw_cell_edges(axes, shade.shape, color="white", linewidth=1.2)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def write_inside(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write a text centred on a point of a grid; it lies within the axes, so that the layout need not measure it."""
    axes.text(x, y, text, ha="center", va="center", in_layout=False, **look)


def draw_cell_edges(axes: Axes, shape: tuple[int, ...], **look: Any) -> None:
    """Draw the edges of cells at whole numbers, ``shape`` being (n_rows, n_columns)."""
    n_rows, n_columns = shape
    axes.vlines(np.arange(n_columns + 1) - 0.5, -0.5, n_rows - 0.5, **look)
    axes.hlines(np.arange(n_rows + 1) - 0.5, -0.5, n_columns - 0.5, **look)
