"""What the corruptions look like: one image, 19 rows by 5 severities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.figures.canvas import add_axes, house_style, new_figure, plain
from volta.figures.data import Context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SEVERITIES = 5
TILE_INCHES = 0.62


@house_style()
def corruption_sheet(context: Context, sheet: NDArray[np.uint8], names: Sequence[str]) -> Figure:
    """Draw a contact sheet with its rows and columns named, in two halves side by side.

    Parameters
    ----------
    context
        What is written beneath.
    sheet
        (rows · (h + 1) − 1, 5 · (w + 1) − 1, 3) tiles with 1-pixel gaps.
    names
        The rows' names.
    """
    height = (sheet.shape[0] + 1) // len(names)
    width = (sheet.shape[1] + 1) // N_SEVERITIES
    half = -(-len(names) // 2)
    size = (2 * (1.3 + N_SEVERITIES * TILE_INCHES), 1.0 + half * TILE_INCHES)
    note = "the first test image; columns: severities 1 to 5"
    figure = new_figure("What the corruptions look like", context, size, note)
    canvas = np.full((2 * half * height, *sheet.shape[1:]), 255, dtype=np.uint8)
    canvas[: len(sheet)] = sheet
    for axes, first in zip(add_axes(figure, 1, 2), (0, half), strict=True):
        shown = names[first : first + half]
        axes.imshow(canvas[first * height : (first + half) * height], interpolation="nearest")
        axes.set_xticks([(column + 0.5) * width for column in range(N_SEVERITIES)], list("12345"))
        axes.set_yticks(
            [(row + 0.5) * height for row in range(len(shown))], [plain(name.replace("_", " ")) for name in shown]
        )
        axes.xaxis.tick_top()
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
    return figure
