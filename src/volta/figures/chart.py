"""What a chart is: one value that says its name, what it needs, its numbers, and how it is drawn for print and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from volta.figures.data import GroupNumbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Needs = Literal["records", "predictions", "tests"]
Json = Mapping[str, object]
"""Numbers on their way to the page: mappings, sequences, texts, numbers and arrays."""


@dataclass(frozen=True)
class PrintVersion:
    """A figure for print: its file name without suffix, how it is drawn, and a word where a chart has several."""

    name: str
    draw: Callable[[GroupNumbers], Figure]
    word: str = ""


@dataclass(frozen=True)
class Choice:
    """A list to choose from above a chart: the name of what is chosen, a label, and (key, words) pairs."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Switch:
    """A box to tick above a chart, off at first."""

    name: str
    label: str


def no_choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    """Return no choices."""
    return ()


@dataclass(frozen=True)
class Chart:
    """A chart.

    Parameters
    ----------
    name
        Its name on the page and in files; the name of its Python file.
    title, caption
        What stands above it on the page.
    kind
        The JavaScript drawing that is registered under this name.
    available
        Whether the numbers it needs are there; otherwise it is left out everywhere.
    data
        The numbers of the page's drawing. Whatever is to be computed is computed here, not in the browser.
    prints
        The figures for print.
    choices, switches
        What a reader may choose on the page; the drawing finds the chosen keys by name.
    wide
        Whether it takes the page's whole width.
    shared
        Whether it shows only what probabilities decide, so that methods on one network are drawn once.
    needs
        What its numbers come from: the ``records`` alone, the stored ``predictions`` too (bins, curves, histograms), or
        the ``tests`` (``differences``, ``pairs``). It is drawn for print as soon as that is there, while the rest is
        computed.
    """

    name: str
    title: str
    caption: str
    kind: str
    available: Callable[[GroupNumbers], bool]
    data: Callable[[GroupNumbers], Json]
    prints: tuple[PrintVersion, ...]
    choices: Callable[[GroupNumbers], tuple[Choice, ...]] = no_choices
    switches: tuple[Switch, ...] = ()
    wide: bool = False
    shared: bool = False
    needs: Needs = "tests"
