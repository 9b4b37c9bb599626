"""A contact sheet: every corruption at every severity, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.data.corruptions.corrupt import check_images, corrupt
from volta.data.corruptions.corruption import SEVERITIES
from volta.data.corruptions.families import CORRUPTIONS

GAP = 1
GAP_LEVEL = 255


def contact_sheet(images: Array, *, seed: int = 0) -> NDArray[np.uint8]:
    """Return a sheet of 19 rows, the corruptions in table order, by 5 columns, the severities, with 1-pixel white gaps.

    Parameters
    ----------
    images
        One uint8 image (h, w, 3), shown in every row, or several (n, h, w, 3): row r shows image r mod n.
    seed
        As in :func:`~volta.data.corruptions.corrupt`; the image of row r has index r mod n.

    Returns
    -------
    uint8 array (19·(h + 1) − 1, 5·(w + 1) − 1, 3).
    """
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[None]
    check_images(images)
    if len(images) == 0:
        raise InputError("images is empty; pass at least one image")
    return lay_out(
        [
            [
                corrupt(images[shown : shown + 1], name, severity, seed=seed, first_index=shown)[0]
                for severity in SEVERITIES
            ]
            for name, shown in zip(CORRUPTIONS, cycle(range(len(images))), strict=False)
        ]
    )


def lay_out(rows: Sequence[Sequence[Array]]) -> NDArray[np.uint8]:
    """Return tiles (h, w, 3) of one size as one image, row by row, with 1-pixel white gaps."""
    height, width = rows[0][0].shape[0] + GAP, rows[0][0].shape[1] + GAP
    sheet = np.full((len(rows) * height - GAP, len(rows[0]) * width - GAP, 3), GAP_LEVEL, dtype=np.uint8)
    for row, tiles in enumerate(rows):
        for column, tile in enumerate(tiles):
            sheet[row * height :, column * width :][: len(tile), : tile.shape[1]] = tile
    return sheet
