"""The contact sheet of a task's corruptions: drawn for print, and as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta import figures
from volta.data import CORRUPTION_NAMES
from volta.report.figure_files import data_address
from volta.report.run import Group


@dataclass(frozen=True)
class Sheet:
    """The sheet as the page shows it: the picture's address, or why there is none."""

    address: str = ""
    problem: str = ""


def draw_sheet(group: Group, stored: Path, folder: Path, prefix: str) -> Sheet | None:
    """Draw the stored sheet into ``folder``; None where there is none."""
    if not stored.is_file() or not group.sets("shift"):
        return None
    from PIL import Image

    try:
        with Image.open(stored) as image:
            sheet = np.asarray(image.convert("RGB"))
    except OSError as error:
        return Sheet(problem=f"The contact sheet {stored.name} cannot be read ({error}).")
    if (sheet.shape[0] + 1) % len(CORRUPTION_NAMES) or (sheet.shape[1] + 1) % figures.N_SEVERITIES:
        size = f"{sheet.shape[1]} × {sheet.shape[0]} pixels"
        return Sheet(problem=f"The contact sheet {stored.name} is not one: it has {size}.")
    drawn = figures.corruption_sheet(group.context, sheet, CORRUPTION_NAMES)
    png, _ = figures.save_figure(drawn, folder, f"{prefix}corruption_sheet")
    return Sheet(data_address(png, "image/png"))
