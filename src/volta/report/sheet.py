"""The contact sheet of a task's corruptions, drawn and put on the page for a person to look at."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from volta import figures
from volta.data import CORRUPTION_NAMES
from volta.report.markup import element, text
from volta.report.run import Group

WORDS = "Each corruption at severities 1 to 5, on the first test image."


def sheet_part(group: Group, stored: Path, folder: Path, prefix: str) -> str:
    """Draw the stored sheet into ``folder`` and return it as a figure of the page; empty where there is none."""
    if not stored.is_file() or not group.sets("shift"):
        return ""
    from PIL import Image

    try:
        with Image.open(stored) as image:
            sheet = np.asarray(image.convert("RGB"))
    except OSError as error:
        return element("p", text(f"The contact sheet {stored.name} cannot be read ({error})."), class_="legend")
    if (sheet.shape[0] + 1) % len(CORRUPTION_NAMES) or (sheet.shape[1] + 1) % figures.N_SEVERITIES:
        words = f"The contact sheet {stored.name} is not one: it has {sheet.shape[1]} × {sheet.shape[0]} pixels."
        return element("p", text(words), class_="legend")
    drawn = figures.corruption_sheet(group.context, sheet, CORRUPTION_NAMES)
    png, _ = figures.save_figure(drawn, folder, f"{prefix}corruption_sheet")
    picture = element(
        "img",
        src=f"data:image/png;base64,{base64.b64encode(png.read_bytes()).decode()}",
        alt="Contact sheet: 19 corruptions in rows, severities 1 to 5 in columns",
        loading="lazy",
    ).removesuffix("</img>")
    caption = element("figcaption", element("h3", "What the corruptions look like") + element("p", text(WORDS)))
    return element("figure", caption + picture, class_="sheet")
