"""A figure's frame: size, type, title, the line beneath, and saving. No pyplot; the caller's settings do not matter."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any

from volta.core.files import write_atomic
from volta.figures.data import Context, MethodValues
from volta.figures.small_fonts import families
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c2024"
FAINT = "#6b7280"
RULE = "#d5d9de"
DPI = 150
PNG_LEVEL = 3
"""Files a tenth larger than at Pillow's level 6, in half the time."""
MIN_WIDTH = 4.6
CAPTION_LETTERS = 17.5
"""Letters of the line beneath that fit into an inch."""
OUTSIDE_RIGHT: dict[str, Any] = {"loc": "outside right upper"}

_SETTINGS: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": INK,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


_inside: list[bool] = []


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save with Matplotlib's defaults and the package's own settings, whatever the caller's rcParams say.

    Much is looked up only when an artist is made or drawn: whatever makes a figure or saves one is decorated with it.
    """
    if _inside:
        yield
        return
    from matplotlib import rc_context, rcParams, rcParamsDefault

    # The backend is not the figures' business: to look it up would choose one. What stands as wanted stays.
    defaults = {name: rcParamsDefault[name] for name in rcParamsDefault if name != "backend"}
    wanted = {**defaults, **_SETTINGS, "font.family": list(families())}
    changed = {name: value for name, value in wanted.items() if rcParams[name] != value}
    with rc_context(changed):
        _inside.append(True)
        try:
            yield
        finally:
            _inside.pop()


def new_figure(title: str, context: Context, size: tuple[float, float], note: str = "") -> Figure:
    """Return an empty figure with its title above and its context beneath."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with house_style():
        width = max(MIN_WIDTH, size[0])
        figure = Figure(figsize=(width, size[1]), dpi=DPI, layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        figure.suptitle(plain(title), x=0.012, ha="left", fontsize=11, fontweight="bold")
        lines = [part for words in (context.line, note) for part in wrap(words, int(CAPTION_LETTERS * width))]
        figure.supxlabel(plain("\n".join(lines)), x=0.012, ha="left", fontsize=7, color=FAINT)
    return figure


def add_axes(figure: Figure, rows: int = 1, columns: int = 1, **options: Any) -> list[Axes]:
    """Return the figure's axes in reading order, in the house style."""
    with house_style():
        return list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def add_legend(figure: Figure, handles: Sequence[Any], title: str = "", **options: Any) -> None:
    """Put a legend beside the axes, in the house style."""
    with house_style():
        legend = figure.legend(handles=list(handles), title=title or None, **(OUTSIDE_RIGHT | options))
        legend.get_title().set_fontsize(7.5)


def method_handle(name: str, title: str, *, line: bool, ours: bool = False) -> Any:
    """Return a legend entry in the method's look: a dashed line, wide for our own, or a marker."""
    from matplotlib.lines import Line2D

    style = style_of(name)
    if line:
        width = 2.2 if ours else 1.3
        return Line2D([], [], color=style.color, linestyle=style.line, linewidth=width, label=plain(title))
    return Line2D([], [], color=style.color, marker=style.marker, linestyle="", markersize=5.5, label=plain(title))


def plain(text: str) -> str:
    """Return text that Matplotlib will not read as mathematics."""
    return text.replace("$", r"\$")


def shorten(text: str, limit: int = 30) -> str:
    """Return the text, cut with an ellipsis where it is longer than ``limit``."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def mark_ours(labels: Iterable[Any], methods: Sequence[MethodValues]) -> None:
    """Set the labels of our own methods in bold."""
    for label, method in zip(labels, methods, strict=True):
        if method.ours:
            label.set_fontweight("bold")


@contextmanager
def quiet_glyphs() -> Iterator[None]:
    """Draw a name in a script the font lacks as boxes, without a warning: that is no reason to disturb the user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def settle_layout(figure: Figure) -> None:
    """Find where everything stands, once; what is added later moves nothing."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with quiet_glyphs():
            engine.execute(figure)
        figure.set_layout_engine("none")


@house_style()
def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name``.png and ``name``.pdf, each whole or not at all; equal figures give equal bytes.

    ``Figure.savefig`` draws everything twice to settle the layout; calling the canvases draws it once per format, with
    one layout for both.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    def write_png(file: IO[bytes]) -> None:
        settle_layout(figure)
        png_canvas: Any = FigureCanvasAgg(figure)
        png_canvas.print_png(file, metadata={"Software": None}, pil_kwargs={"compress_level": PNG_LEVEL})

    def write_pdf(file: IO[bytes]) -> None:
        pdf_canvas: Any = FigureCanvasPdf(figure)
        pdf_canvas.print_pdf(file, metadata={"CreationDate": None})

    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    with quiet_glyphs():
        write_atomic(png, write_png)
        write_atomic(pdf, write_pdf)
    return [png, pdf]
