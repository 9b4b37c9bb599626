"""Drawing for print: canvas, ticks, labels, bars, points, heat maps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from volta._version import __version__
from volta.core.files import write_atomic
from volta.figures.chart_data import (
    Choice,
    Context,
    GroupNumbers,
    Json,
    MethodBins,
    MethodCurve,
    MethodValues,
    ScoreHistogram,
    with_metrics,
)
from volta.figures.style import beaten_by, dwarfed_reach, metric_label, metric_of, spans_decades, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK = "#1c2024"
FAINT = "#6b7280"
RULE = "#d5d9de"
MUTED = "#b9bfc6"
"""Of methods that are neither ours nor among the best few."""
DPI = 300
PNG_LEVEL = 3
"""Files a tenth larger than at Pillow's level 6, in half the time."""
Width = Literal["column", "page"]
N_LEADING = 5
"""So many methods besides ours are drawn in colour."""


@dataclass(frozen=True)
class PrintStyle:
    """The widths of a column and of a page in inches, and the font."""

    column: float
    page: float
    font: str

    def inches(self, width: Width) -> float:
        """Return a width in inches."""
        return self.column if width == "column" else self.page


SANS = "DejaVu Sans"
SERIF = "STIXGeneral"
"""Comes with Matplotlib and has the proportions of Times."""
STYLES: Mapping[str, PrintStyle] = {
    "plain": PrintStyle(3.3, 6.8, SANS),
    "neurips": PrintStyle(2.7, 5.5, SERIF),
    "icml": PrintStyle(3.25, 6.75, SERIF),
    "ieee": PrintStyle(3.5, 7.16, SERIF),
}
"""Styles of figures for print, by the venue whose columns they fit."""

_SETTINGS: Any = {
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
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
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "text.color": INK,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.0,
    "legend.labelspacing": 0.3,
    "mathtext.fontset": "stix",
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


_LETTERS = (*range(0x20, 0x180), *range(0x391, 0x3CA), *range(0x2010, 0x2027), *range(0x2190, 0x22FF))
_UNUSED = ["FFTM", "GDEF", "GPOS", "GSUB", "MATH"]


@cache
def lean_sans() -> str:
    """Add a copy of DejaVu Sans without rare letters to Matplotlib's fonts, once, and return its name.

    A PDF embeds the letters that it uses. Cutting them out of DejaVu Sans, with 6,000 letters and large layout tables,
    takes 60 ms, 46 times a report; out of the copy 4 ms. Outlines and kerning are the same; ligatures are left out.
    """
    import matplotlib
    from fontTools import subset
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    name = f"{SANS} lean"
    for weight in ("normal", "bold"):
        path = Path(matplotlib.get_cachedir()) / f"volta-{__version__}-{name}-{weight}-{matplotlib.__version__}.ttf"
        if not path.is_file():
            options = subset.Options(layout_features=[], legacy_kern=True, drop_tables=_UNUSED)
            font = subset.load_font(findfont(FontProperties(family=SANS, weight=weight)), options)
            subsetter = subset.Subsetter(options)
            subsetter.populate(unicodes=_LETTERS)
            subsetter.subset(font)
            for record in font["name"].names:
                if record.nameID == 1:  # the family
                    record.string = name
            write_atomic(path, font.save)
        fontManager.addfont(path)
    return name


_inside: list[PrintStyle] = []


@contextmanager
def base_style(style: PrintStyle = STYLES["plain"]) -> Iterator[None]:
    """Draw and save with Matplotlib's defaults and a style of the package, whatever the caller's rcParams say.

    Much is looked up only when an artist is made or drawn: whatever makes a figure or saves one is decorated with it.
    Within another call the style of that one stays.
    """
    if _inside:
        yield
        return
    from matplotlib import rc_context, rcParams, rcParamsDefault

    # The backend is not the figures' business: to look it up would choose one. What stands as wanted stays.
    defaults = {name: rcParamsDefault[name] for name in rcParamsDefault if name != "backend"}
    families = [style.font, SANS] if style.font != SANS else [lean_sans(), SANS]
    wanted = {**defaults, **_SETTINGS, "font.family": families}
    changed = {name: value for name, value in wanted.items() if rcParams[name] != value}
    with rc_context(changed):
        _inside.append(style)
        try:
            yield
        finally:
            _inside.pop()


@base_style()
def new_figure(title: str, context: Context, size: tuple[Width, float], note: str = "") -> Figure:
    """Return an empty figure, as wide as a column or a page of the style and so many inches high.

    Nothing is written into it: a paper has its own captions. Title, context and note are its label, which its files
    carry as their description.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = _inside[-1].inches(size[0])
    figure = Figure(figsize=(width, size[1]), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_label(". ".join(part for part in (title, context.line, note) if part))
    return figure


@base_style()
def add_axes(figure: Figure, rows: int = 1, columns: int = 1, **options: Any) -> list[Axes]:
    """Return the figure's axes in reading order, in the house style."""
    return list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def plot_axes(
    title: str, context: Context, size: tuple[Width, float], note: str, x: str, y: str
) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, named and with a grid."""
    figure = new_figure(title, context, size, note)
    (axes,) = add_axes(figure)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.locator_params(axis="x", nbins=5 if size[0] == "column" else 9)
    axes.grid(True)
    return figure, axes


@base_style()
def panel_axes(
    title: str, context: Context, n: int, columns: int, heights: tuple[float, float], note: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as a page with ``n`` panels; ``heights``: of what is around them and of a panel."""
    rows = max(1, math.ceil(n / columns))
    figure = new_figure(title, context, ("page", heights[0] + heights[1] * rows), note)
    found = add_axes(figure, rows, columns)
    for axes in found[n:]:
        axes.set_visible(False)
    return figure, found[:n]


@base_style()
def add_legend(figure: Figure, handles: Sequence[Any], title: str = "") -> None:
    """Put a legend below the axes, in as many columns as the figure has room for."""
    columns = 2 if figure.get_figwidth() < 4 else 4
    legend = figure.legend(
        handles=list(handles), title=title or None, loc="outside lower center", ncols=min(columns, len(handles) or 1)
    )
    legend.get_title().set_fontsize(6.5)


Named = TypeVar("Named", MethodValues, MethodCurve, MethodBins, ScoreHistogram)


def leading(methods: Sequence[Named]) -> list[Named]:
    """Return our own methods and the first few others, of methods in order from the best."""
    others = [method.name for method in methods if not method.ours][:N_LEADING]
    return [method for method in methods if method.ours or method.name in others]


def name_methods(
    figure: Figure,
    methods: Sequence[MethodValues | MethodCurve],
    words: Sequence[str] | None = None,
    *,
    line: bool,
    n_others: int = 0,
    title: str = "",
) -> None:
    """Put a legend of methods below the axes, with ``words`` behind their titles, and one of the grey others."""
    from matplotlib.lines import Line2D

    titles = [shorten(method.title, 24 if words is None else 20) for method in methods]
    titles = titles if words is None else [f"{one}  {more}" for one, more in zip(titles, words, strict=True)]
    handles = [method_handle(m.name, one, line=line, ours=m.ours) for m, one in zip(methods, titles, strict=True)]
    if n_others:
        look: Any = {"linestyle": "-"} if line else {"linestyle": "", "marker": "o", "markersize": 3.5}
        handles.append(Line2D([], [], color=MUTED, linewidth=0.8, label=f"{n_others} others", **look))
    add_legend(figure, handles, title)


def method_handle(name: str, title: str, *, line: bool, ours: bool = False) -> Any:
    """Return a legend entry in the method's look: a dashed line, wide for our own, or a marker."""
    from matplotlib.lines import Line2D

    style = style_of(name)
    if line:
        width = 1.8 if ours else 1.1
        return Line2D([], [], color=style.color, linestyle=style.line, linewidth=width, label=plain(title))
    return Line2D([], [], color=style.color, marker=style.marker, linestyle="", markersize=4, label=plain(title))


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


@base_style()
def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name``.png and ``name``.pdf, each whole or not at all; equal figures give equal bytes.

    ``Figure.savefig`` draws everything twice to settle the layout; calling the canvases draws it once per format, with
    one layout for both.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    label = str(figure.get_label())

    def write_png(file: IO[bytes]) -> None:
        settle_layout(figure)
        png_canvas: Any = FigureCanvasAgg(figure)
        png_canvas.print_png(
            file, metadata={"Software": None, "Description": label}, pil_kwargs={"compress_level": PNG_LEVEL}
        )

    def write_pdf(file: IO[bytes]) -> None:
        pdf_canvas: Any = FigureCanvasPdf(figure)
        pdf_canvas.print_pdf(file, metadata={"CreationDate": None, "Subject": label})

    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    with quiet_glyphs():
        write_atomic(png, write_png)
        write_atomic(pdf, write_pdf)
    return [png, pdf]


def fit_axis(axes: Axes, which: str, values: Sequence[float], *, log: bool = False, floor: float | None = None) -> None:
    """Set the limits of the x or y axis around the values with a margin, on a log scale with plain numbers if asked."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

    low, high = min(values), max(values)
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    if log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        low, high = low / 1.25, high * 1.25
        ticks = log_ticks(low, high)
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([f"{tick:,g}".replace("-", "−") for tick in ticks]))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        set_limits(low, high)
        return
    set_limits(*page_limits(values, log=False, floor=floor))


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two positive limits: 1, 2, 5 per decade, or powers of ten over many decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]


def fit_differences(axes: Axes, ends: Sequence[tuple[float, float]]) -> None:
    """Set an x axis around 0 for bars that reach from 0 to (low, high) each.

    Symmetric and linear; but where one bar dwarfs the middle one, logarithmic beyond a round number, so that small bars
    stay visible.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    reaches = [reach for low, high in ends if (reach := max(abs(low), abs(high))) > 0]
    if not reaches:
        return
    longest, middle = max(reaches), dwarfed_reach(reaches)
    if middle is None:
        step = 10.0 ** math.floor(math.log10(longest))
        tick = step * math.floor(longest / step)
        axes.set_xticks([-tick, 0, tick], [f"−{tick:g}", "0", f"{tick:g}"])
        axes.set_xlim(-1.25 * longest, 1.25 * longest)
        return
    linear = 10.0 ** math.ceil(math.log10(middle))
    axes.set_xscale("symlog", linthresh=linear, linscale=1.5)
    decades = range(round(math.log10(linear)), math.floor(math.log10(longest)) + 1)
    positive = [10.0**decade for decade in decades]
    ticks = [*(-tick for tick in reversed(positive)), 0.0, *positive]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:,g}".replace("-", "−") for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    axes.set_xlim(*(side * max(0.8 * linear, 4 * side * end) for side, end in ((-1, low), (1, high))))


def draw_rectangles(
    axes: Axes, left: ArrayLike, right: ArrayLike, bottom: ArrayLike, top: ArrayLike, **look: Any
) -> None:
    """Draw rectangles with these sides, (n,) each or one number for all; the axes' limits are the caller's to set."""
    from matplotlib.collections import PolyCollection

    corners = np.broadcast_arrays(*(np.asarray(side, dtype=np.float64) for side in (left, right, bottom, top)))
    x0, x1, y0, y1 = (np.atleast_1d(side) for side in corners)
    outlines = np.stack([np.stack([x0, x1, x1, x0], axis=1), np.stack([y0, y0, y1, y1], axis=1)], axis=2)
    axes.add_collection(PolyCollection(list(outlines), **look), autolim=False)


def draw_front(axes: Axes, x: Sequence[float], y: Sequence[float], front: Sequence[int]) -> None:
    """Join the methods on the Pareto front by a line."""
    ordered = sorted(front, key=lambda i: x[i])
    axes.plot([x[i] for i in ordered], [y[i] for i in ordered], color=FAINT, linewidth=0.7, zorder=1)


def clip_outliers(values: Sequence[float]) -> list[float]:
    """Return values with outliers, beyond four interquartile ranges of the quartiles, moved next to the others."""
    if len(values) < 4:
        return list(values)
    first, last = np.quantile(values, [0.25, 0.75])
    room = 4 * (last - first)
    inner = [value for value in values if first - room <= value <= last + room]
    step = 0.12 * (max(inner) - min(inner))
    return [min(max(value, min(inner) - step), max(inner) + step) if room else value for value in values]


def mark_outlier(axes: Axes, at: tuple[float, float], value: tuple[float, float]) -> None:
    """Write the true value and an arrow next to a point that was moved."""
    if at == value:
        return
    arrow = "→" if value[0] > at[0] else "←" if value[0] < at[0] else "↑" if value[1] > at[1] else "↓"
    shown = value[0] if value[0] != at[0] else value[1]
    axes.annotate(
        f"{arrow} {shown:.3g}", at, xytext=(0, 4), textcoords="offset points", ha="center", va="bottom",
        fontsize=5.5, color=FAINT, fontfamily=lean_sans(),
    )  # fmt: skip


SHADES = ("#fffaf0", "#084a7a")
"""Light to dark in luminance, as on the page, so that it reads in grey and by colour-blind readers."""


def draw_heatmap(
    axes: Axes,
    methods: Sequence[MethodValues],
    labels: Sequence[str],
    cells: Mapping[tuple[int, int], tuple[float, str]],
    size: float = 5.5,
    rotation: int = 45,
) -> None:
    """Draw a row a method and a column a label: by (row, column) a shade in [0, 1] and a text, a dash where none is."""
    from matplotlib.colors import LinearSegmentedColormap

    shade = np.full((len(methods), len(labels)), np.nan)
    for place, (tone, _) in cells.items():
        shade[place] = tone
    axes.imshow(
        np.ma.masked_invalid(shade),
        cmap=LinearSegmentedColormap.from_list("shades", SHADES),
        vmin=0,
        vmax=1,
        aspect="auto",
    )
    for row, column in np.ndindex(shade.shape):
        tone, text = cells.get((row, column), (math.nan, "–"))
        color = FAINT if math.isnan(tone) else "white" if tone > 0.5 else INK
        write_inside(axes, column, row, text, fontsize=size, color=color)
    draw_cell_edges(axes, shade.shape, color="white", linewidth=1.2)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    name_grid(axes, labels, methods, rotation)


def write_inside(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write a text centred on a point of a grid; it lies within the axes, so that the layout need not measure it."""
    axes.text(x, y, text, ha="center", va="center", in_layout=False, **look)


def draw_cell_edges(axes: Axes, shape: tuple[int, ...], **look: Any) -> None:
    """Draw the edges of cells at whole numbers, ``shape`` being (n_rows, n_columns)."""
    n_rows, n_columns = shape
    axes.vlines(np.arange(n_columns + 1) - 0.5, -0.5, n_rows - 0.5, **look)
    axes.hlines(np.arange(n_rows + 1) - 0.5, -0.5, n_columns - 0.5, **look)


def name_grid(
    axes: Axes, columns: Sequence[str], methods: Sequence[MethodValues], rotation: int = 45, limit: int = 24
) -> None:
    """Write the columns' names above a grid and the methods' names next to it, our own in bold."""
    axes.set_xticks(range(len(columns)), columns, rotation=rotation, ha="left", rotation_mode="anchor", fontsize=6.5)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(method.title, limit)) for method in methods], fontsize=6.5)
    mark_ours(axes.get_yticklabels(), methods)


def draw_curves(axes: Axes, curves: Sequence[MethodCurve]) -> None:
    """Draw the mean of each curve, from the best, as a line; the best few in colour, VOLTA with a range over seeds."""
    in_colour = {curve.name for curve in leading(curves)}
    for curve in curves:
        style, ours = style_of(curve.name), curve.ours
        shown = curve.name in in_colour
        axes.plot(
            curve.x,
            curve.mean,
            color=style.color if shown else MUTED,
            linestyle=style.line if shown else "-",
            linewidth=1.8 if ours else 1.1 if shown else 0.6,
            zorder=4 if ours else 3 if shown else 2,
        )
        if ours:
            axes.fill_between(curve.x, curve.low, curve.high, color=style.color, alpha=0.15, linewidth=0)
    axes.grid(True)


def draw_point(
    axes: Axes, method: MethodValues, at: tuple[float, float], spread: tuple[float, float], muted: bool = False
) -> None:
    """Draw a method's marker at (x, y) with bars of so much to either side, grey where it is ``muted``."""
    style, ours = style_of(method.name), method.ours
    axes.errorbar(
        *at,
        xerr=spread[0],
        yerr=spread[1],
        color=MUTED if muted else style.color,
        marker="o" if muted else style.marker,
        markersize=6 if ours else 3.5 if muted else 4.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        elinewidth=0.6,
        linestyle="",
        zorder=4 if ours else 2 if muted else 3,
    )


def draw_dots(
    axes: Axes, methods: Sequence[MethodValues], metric: str, named: bool, start: float | None = None
) -> None:
    """Draw the mean of a metric as dots with their values, one standard deviation as a line, first method on top.

    A method without the metric leaves its row empty, so that rows line up across panels; ``named`` writes the methods'
    names next to the axis; a line marks ``start``.
    """
    found = [(place, method) for place, method in enumerate(methods) if method.has(metric)]
    means = [method.mean(metric) for _, method in found]
    places = clip_outliers(means)
    ends = [] if start is None else [start]
    for (row, method), mean, at in zip(found, means, places, strict=True):
        color = style_of(method.name).color if method.ours else INK
        std = method.std(metric) if at == mean else 0.0
        axes.hlines(row, at - std, at + std, color=color, linewidth=0.8)
        axes.plot(at, row, marker="o", markersize=4 if method.ours else 3, color=color)
        arrow = "" if at == mean else " →" if mean > at else " ←"
        axes.annotate(
            f"{mean:#.3g}{arrow}", (1, row), xycoords=("axes fraction", "data"), xytext=(1, 0),
            textcoords="offset points", va="center", fontsize=5.5, color=color, fontfamily=lean_sans(),
        )  # fmt: skip
        ends += [at - std, at + std]
    if start is not None:
        axes.axvline(start, color=FAINT, linewidth=0.7)
    if ends:
        axes.set_xlim(*page_limits(ends, log=False))
    if named:
        titles = [plain(shorten(method.title, 24)) for method in methods]
        axes.set_yticks(range(len(methods)), titles, fontsize=6.5)
        mark_ours(axes.get_yticklabels(), methods)
    else:
        axes.set_yticks([])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.locator_params(axis="x", nbins=3)


def bars_json(numbers: GroupNumbers, metrics: Sequence[str], start: Mapping[str, float] | None = None) -> Json:
    """Return mean, deviation and the value of each seed, by metric and method; bars begin at ``start`` or at 0."""
    start = start or {}
    return {
        "metrics": {
            metric: {
                "label": metric_label(metric),
                "axis": f"{metric_label(metric)}, from chance" if metric in start else metric_label(metric),
                "up": metric_of(metric).higher_is_better is not False,
                "start": start.get(metric, 0.0),
                "rows": {m.name: cell_json(m, metric) for m in with_metrics(numbers.methods, metric)},
            }
            for metric in metrics
        }
    }


def cell_json(method: MethodValues, metric: str) -> Json:
    """Return a method's mean, deviation and value of each seed in one metric."""
    seeds = method.seeds.get(metric, range(1, len(method.values[metric]) + 1))
    pairs = sorted(zip(seeds, method.values[metric], strict=True))
    return {"mean": method.mean(metric), "std": method.std(metric), "seeds": pairs}


def metric_choice(metrics: Sequence[str]) -> Choice:
    """Return the choice between metrics."""
    return Choice("metric", "metric", tuple((metric, metric_label(metric)) for metric in metrics))


def points_json(numbers: GroupNumbers, x: str, y: str, label: str, size: str | None = None) -> Json:
    """Return mean and deviation of each method on both metrics, its size, and the methods that beat it on both.

    An axis is logarithmic where the compared methods span more than a decade.
    """
    shown = with_metrics(numbers.methods, x, y, *((size,) if size else ()))
    stronger = beaten_by([_up(m, x) for m in shown], [-_up(m, y) for m in shown])
    return {
        "label": label,
        "x": {"label": metric_label(x), "log": is_log(numbers, x)},
        "y": {"label": metric_label(y), "log": is_log(numbers, y)},
        "size": metric_label(size) if size else None,
        "points": {
            m.name: {
                "x": m.mean(x),
                "x_std": m.std(x),
                "y": m.mean(y),
                "y_std": m.std(y),
                "size": m.mean(size) if size else None,
                "beaten_by": [shown[index].name for index in beaters],
            }
            for m, beaters in zip(shown, stronger, strict=True)
        },
    }


def is_log(numbers: GroupNumbers, metric: str) -> bool:
    """Whether an axis of the page is logarithmic: an error or a cost, all values positive, the compared ones over more
    than a decade. What is at best 1 stays linear: a logarithm would spread out the worst.
    """
    if metric_of(metric).higher_is_better is not False:
        return False
    positive = all(method.mean(metric) > 0 for method in with_metrics(numbers.methods, metric))
    return positive and spans_decades(reach(with_metrics(numbers.compared_methods, metric), metric))


def reach(methods: list[MethodValues], metric: str) -> list[float]:
    """Return the ends of each method's bar of one deviation; a bar that would reach 0 ends at its mean."""
    ends = []
    for method in methods:
        mean, std = method.mean(metric), method.std(metric)
        ends += [mean - std if mean > std else mean, mean + std]
    return ends


def page_limits(values: Sequence[float], log: bool, floor: float | None = None) -> tuple[float, float]:
    """Return where an axis begins and ends, with a margin around the values."""
    low, high = min(values), max(values)
    if log:
        return low / 1.2, high * 1.2
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin if floor is None else max(floor, low - margin), high + margin


def _up(method: MethodValues, metric: str) -> float:
    return -method.mean(metric) if metric_of(metric).higher_is_better is False else method.mean(metric)
