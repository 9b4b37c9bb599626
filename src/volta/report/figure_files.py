"""The figures for print of a group: drawn, saved, and offered on the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volta import figures
from volta.figures import Chart, GroupNumbers

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


def draw_charts(
    charts: Sequence[Chart], numbers: GroupNumbers, folder: Path, prefix: str, room: Room
) -> dict[str, tuple[FigureFile, ...]]:
    """Write every figure for print of the charts into ``folder``; return what the page offers, by chart."""
    offered = {}
    for chart in charts:
        files = []
        for version in chart.prints:
            _, pdf = figures.save_figure(version.draw(numbers), folder, f"{prefix}{version.name}")
            label = f"PDF ({version.word})" if version.word else "PDF"
            files.append(FigureFile(label, pdf.name, room.address(pdf)))
        offered[chart.name] = tuple(files)
    return offered


def data_address(path: Path, media_type: str) -> str:
    """Return a file's content as an address that a page can hold."""
    return f"data:{media_type};base64,{base64.b64encode(path.read_bytes()).decode()}"
