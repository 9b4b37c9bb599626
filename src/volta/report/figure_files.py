"""The figures for print of a group as the page offers them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from volta.figures import Chart

FIGURES = "figures"
EMBEDDED_BYTES = 4_000_000
"""PDFs travel inside the page up to this much; beyond it the page links to the folder beside it."""


@dataclass(frozen=True)
class FigureFile:
    """A figure for print as the page offers it: the word on its button, the file's name, and its address."""

    label: str
    name: str
    href: str


class Room:
    """How many bytes of PDF the page still takes."""

    def __init__(self, n_bytes: int = EMBEDDED_BYTES) -> None:
        self._left = n_bytes

    def address(self, path: Path) -> str:
        """Return a PDF's address: the file itself while there is room for it, else where it lies."""
        size = path.stat().st_size
        if size > self._left:
            return f"{FIGURES}/{path.name}"
        self._left -= size
        return data_address(path, "application/pdf")


def figure_files(chart: Chart, folder: Path, prefix: str, room: Room) -> tuple[FigureFile, ...]:
    """Return what the page offers of a chart whose figures are in ``folder``."""
    files = []
    for version in chart.prints:
        pdf = folder / f"{prefix}{version.name}.pdf"
        label = f"PDF ({version.word})" if version.word else "PDF"
        files.append(FigureFile(label, pdf.name, room.address(pdf)))
    return tuple(files)


def data_address(path: Path, media_type: str) -> str:
    """Return a file's content as an address that a page can hold."""
    return f"data:{media_type};base64,{base64.b64encode(path.read_bytes()).decode()}"
