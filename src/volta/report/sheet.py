"""The contact sheet of a task's corruptions: drawn for print, and as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volta import figures
from volta.core.errors import VoltaError
from volta.core.foreign import reading
from volta.core.sealed import read_file
from volta.data import CORRUPTION_NAMES
from volta.data.formats.image_decoding import decode
from volta.report.figure_files import data_address
from volta.report.run import Group

_SHEET_BYTES = 1 << 26


@dataclass(frozen=True)
class Sheet:
    """The sheet as the page shows it: the picture's address, or why there is none."""

    address: str = ""
    problem: str = ""


def draw_sheet(group: Group, stored: Path, folder: Path, prefix: str) -> Sheet | None:
    """Draw the stored sheet into ``folder``; None where there is none."""
    if not stored.is_file() or not group.sets("shift"):
        return None
    try:
        with reading(stored, "cannot be read"):
            sheet = decode(read_file(stored, _SHEET_BYTES))
    except VoltaError as error:
        return Sheet(problem=f"The contact sheet {stored.name} cannot be read ({error}).")
    if (sheet.shape[0] + 1) % len(CORRUPTION_NAMES) or (sheet.shape[1] + 1) % figures.N_SEVERITIES:
        size = f"{sheet.shape[1]} × {sheet.shape[0]} pixels"
        return Sheet(problem=f"The contact sheet {stored.name} is not one: it has {size}.")
    drawn = figures.corruption_sheet(group.context, sheet, CORRUPTION_NAMES)
    png, _ = figures.save_figure(drawn, folder, f"{prefix}corruption_sheet")
    return Sheet(data_address(png, "image/png"))
