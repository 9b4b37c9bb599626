"""Drawing for print: canvas, ticks, labels, bars, points, heat maps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from volta.core.files import write_atomic
from volta.figures.chart_data import (
    Choice,
    Context,
    Floats,
    GroupNumbers,
    Json,
    MethodCurve,
    MethodValues,
    with_metrics,
)
from volta.figures.style import beaten_by, dwarfed_reach, metric_label, metric_of, spans_decades, style_of

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
def base_style() -> Iterator[None]:
    """Draw and save with Matplotlib's defaults and the package's own settings, whatever the caller's rcParams say.

    Much is looked up only when an artist is made or drawn: whatever makes a figure or saves one is decorated with it.
    """
    if _inside:
        yield
        return
    from matplotlib import rc_context, rcParams, rcParamsDefault

    # The backend is not the figures' business: to look it up would choose one. What stands as wanted stays.
    defaults = {name: rcParamsDefault[name] for name in rcParamsDefault if name != "backend"}
    wanted = {**defaults, **_SETTINGS, "font.family": ["DejaVu Sans"]}
    changed = {name: value for name, value in wanted.items() if rcParams[name] != value}
    with rc_context(changed):
        _inside.append(True)
        try:
            yield
        finally:
            _inside.pop()


@base_style()
def new_figure(title: str, context: Context, size: tuple[float, float], note: str = "") -> Figure:
    """Return an empty figure with its title above and its context beneath."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = max(MIN_WIDTH, size[0])
    figure = Figure(figsize=(width, size[1]), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(plain(title), x=0.012, ha="left", fontsize=11, fontweight="bold")
    lines = [part for words in (context.line, note) for part in wrap(words, int(CAPTION_LETTERS * width))]
    figure.supxlabel(plain("\n".join(lines)), x=0.012, ha="left", fontsize=7, color=FAINT)
    return figure


@base_style()
def add_axes(figure: Figure, rows: int = 1, columns: int = 1, **options: Any) -> list[Axes]:
    """Return the figure's axes in reading order, in the house style."""
    return list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def plot_axes(
    title: str, context: Context, size: tuple[float, float], note: str, x: str, y: str
) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, named and with a grid."""
    figure = new_figure(title, context, size, note)
    (axes,) = add_axes(figure)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True)
    return figure, axes


@base_style()
def panel_axes(
    title: str,
    context: Context,
    n: int,
    columns: int,
    inches: tuple[tuple[float, float], tuple[float, float]],
    note: str,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n`` panels; ``inches``: width and height, each of what is around them and of a panel."""
    rows = max(1, math.ceil(n / columns))
    (left, width), (top, height) = inches
    figure = new_figure(title, context, (left + width * columns, top + height * rows), note)
    found = add_axes(figure, rows, columns)
    for axes in found[n:]:
        axes.set_visible(False)
    return figure, found[:n]


@base_style()
def add_legend(figure: Figure, handles: Sequence[Any], title: str = "") -> None:
    """Put a legend beside the axes, in the house style."""
    legend = figure.legend(handles=list(handles), title=title or None, loc="outside right upper")
    legend.get_title().set_fontsize(7.5)


def name_methods(
    figure: Figure,
    methods: Sequence[MethodValues | MethodCurve],
    words: Sequence[str] | None = None,
    *,
    line: bool,
    limit: int = 26,
    title: str = "",
) -> None:
    """Put a legend of methods beside the axes, with ``words`` behind their titles."""
    titles = [shorten(method.title, limit) for method in methods]
    titles = titles if words is None else [f"{one}  {more}" for one, more in zip(titles, words, strict=True)]
    handles = [method_handle(m.name, one, line=line, ours=m.ours) for m, one in zip(methods, titles, strict=True)]
    add_legend(figure, handles, title)


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


@base_style()
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
        axis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
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
    stay visible beside the large one.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    reaches = [reach for low, high in ends if (reach := max(abs(low), abs(high))) > 0]
    if not reaches:
        return
    longest, middle = max(reaches), dwarfed_reach(reaches)
    if middle is None:
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(-1.25 * longest, 1.25 * longest)
        return
    linear = 10.0 ** math.ceil(math.log10(middle))
    axes.set_xscale("symlog", linthresh=linear, linscale=1.5)
    decades = range(round(math.log10(linear)), math.floor(math.log10(longest)) + 1)
    positive = [10.0**decade for decade in decades]
    ticks = [*(-tick for tick in reversed(positive)), 0.0, *positive]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
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


_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_RADII = (7.0, 14.0, 22.0, 32.0)
_PLACES = [(dx, dy, radius) for radius in _RADII for dx, dy in _DIRECTIONS]
"""Where a label may stand, in points from the edge of its box to its point; the first wins among equals."""


def label_points(axes: Axes, points: Sequence[tuple[float, float, str, bool]], size: float = 7.5) -> None:
    """Write each (x, y, text, bold) beside its point, trying near places first; a thin line ties a far label.

    Text widths are estimated from the number of characters, which is enough to keep labels apart. Labels stand where
    the layout has put the points, so they come last, and the layout is settled by them.
    """
    figure = axes.get_figure(root=True)
    if figure is None or not points:
        return
    settle_layout(figure)
    scale = figure.dpi / 72
    centers = axes.transData.transform([(x, y) for x, y, _, _ in points])
    taken = np.hstack([centers - 3.5 * scale, centers + 3.5 * scale])
    frame = np.array([axes.get_window_extent().extents])
    directions, radii = np.array(_PLACES)[:, :2], np.array(_PLACES)[:, 2:]
    for place in sorted(range(len(points)), key=lambda place: not points[place][3]):
        x, y, text, bold = points[place]
        extent = np.array([0.58 * size * len(text) * scale * (1.06 if bold else 1), 1.25 * size * scale])
        corners = centers[place] + directions * (radii * scale) - extent * (1 - directions) / 2
        boxes = np.hstack([corners, corners + extent])
        outside = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - _overlaps(boxes, frame)[:, 0]
        best = int(np.argmin(_overlaps(boxes, taken).sum(axis=1) + 3 * outside))
        taken = np.vstack([taken, boxes[best]])
        dx, dy, radius = _PLACES[best]
        axes.annotate(
            plain(text),
            (x, y),
            xytext=(dx * radius, dy * radius),
            textcoords="offset points",
            ha={1: "left", 0: "center", -1: "right"}[dx],
            va={1: "bottom", 0: "center", -1: "top"}[dy],
            fontsize=size,
            fontweight="bold" if bold else "normal",
            annotation_clip=False,
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "boxstyle": "square,pad=0.1"},
            zorder=5,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.5} if radius > _RADII[0] else None,
        )


def _overlaps(boxes: Floats, others: Floats) -> Floats:
    """Return the area that boxes (left, bottom, right, top), (n, 4), share with others, (m, 4)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.maximum(high - low, 0.0).prod(axis=2))


LABEL_ALL = 12
"""Up to this many methods every point carries its name; beyond it, VOLTA and the Pareto front do."""


def draw_front(
    axes: Axes, methods: Sequence[MethodValues], x: Sequence[float], y: Sequence[float], front: Sequence[int]
) -> None:
    """Join the methods on the front by a line, and write names: of few methods all, else our own and the front's."""
    ordered = sorted(front, key=lambda i: x[i])
    axes.plot([x[i] for i in ordered], [y[i] for i in ordered], color=FAINT, linewidth=0.8, zorder=1)
    named = [i for i in range(len(methods)) if len(methods) <= LABEL_ALL or i in front or methods[i].ours]
    label_points(axes, [(x[i], y[i], shorten(methods[i].title, 24), methods[i].ours) for i in named])


SHADES = "YlGnBu"
"""Light to dark in luminance, so it reads in grey and by colour-blind readers."""


def draw_heatmap(
    axes: Axes,
    methods: Sequence[MethodValues],
    labels: Sequence[str],
    cells: Mapping[tuple[int, int], tuple[float, str]],
    size: float = 7.0,
    rotation: int = 45,
) -> None:
    """Draw a row a method and a column a label: by (row, column) a shade in [0, 1] and a text, a dash where none is."""
    shade = np.full((len(methods), len(labels)), np.nan)
    for place, (tone, _) in cells.items():
        shade[place] = tone
    axes.imshow(np.ma.masked_invalid(shade), cmap=SHADES, vmin=-0.12, vmax=1.25, aspect="auto", interpolation="nearest")
    for row, column in np.ndindex(shade.shape):
        tone, text = cells.get((row, column), (math.nan, "–"))
        color = FAINT if math.isnan(tone) else "white" if tone > 0.62 else INK
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
    axes: Axes, columns: Sequence[str], methods: Sequence[MethodValues], rotation: int = 45, limit: int = 30
) -> None:
    """Write the columns' names above a grid and the methods' names beside it, our own in bold."""
    axes.set_xticks(range(len(columns)), columns, rotation=rotation, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), [plain(shorten(method.title, limit)) for method in methods])
    mark_ours(axes.get_yticklabels(), methods)


def draw_curves(axes: Axes, curves: Sequence[MethodCurve]) -> None:
    """Draw the mean of each curve as a line; for VOLTA the range over seeds too, as a shade."""
    for curve in curves:
        style, ours = style_of(curve.name), curve.ours
        axes.plot(
            curve.x,
            curve.mean,
            color=style.color,
            linestyle=style.line,
            linewidth=2.4 if ours else 1.1,
            alpha=1 if ours else 0.85,
            zorder=4 if ours else 2,
        )
        if ours:
            axes.fill_between(curve.x, curve.low, curve.high, color=style.color, alpha=0.15, linewidth=0)
    axes.grid(True)


def draw_point(axes: Axes, method: MethodValues, at: tuple[float, float], spread: tuple[float, float]) -> None:
    """Draw a method's marker at (x, y) with bars of so much to either side."""
    style, ours = style_of(method.name), method.ours
    axes.errorbar(
        *at,
        xerr=spread[0],
        yerr=spread[1],
        color=style.color,
        marker=style.marker,
        markersize=9 if ours else 6,
        markeredgecolor="white",
        markeredgewidth=0.6,
        elinewidth=0.8,
        linestyle="",
        zorder=4 if ours else 3,
    )


def draw_bars(axes: Axes, methods: Sequence[MethodValues], metric: str, named: bool, start: float = 0.0) -> None:
    """Draw the mean of a metric as bars from ``start``, one standard deviation as a line, first method on top.

    A method without the metric leaves its row empty, so that rows line up across panels; ``named`` writes the methods'
    names beside the axis.
    """
    found = [(place, method) for place, method in enumerate(methods) if method.has(metric)]
    places = np.array([place for place, _ in found], dtype=np.float64)
    means = np.array([method.mean(metric) for _, method in found], dtype=np.float64)
    stds = np.array([method.std(metric) for _, method in found], dtype=np.float64)
    colors = [style_of(method.name).color for _, method in found]
    draw_rectangles(axes, start, means, places - 0.34, places + 0.34, facecolors=colors, alpha=0.88, linewidths=0)
    axes.hlines(places, means - stds, means + stds, color=INK, linewidth=0.9)
    ends = np.concatenate([means - stds, means + stds, means, [start]])
    margin = 0.05 * float(np.ptp(ends)) or 0.05
    low = float(ends.min())
    axes.set_xlim(low if low == start else low - margin, float(ends.max()) + margin)
    if named:
        axes.set_yticks(range(len(methods)), [plain(shorten(method.title)) for method in methods])
        mark_ours(axes.get_yticklabels(), methods)
    else:
        axes.set_yticks([])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(True, axis="x")
    axes.locator_params(axis="x", nbins=4)


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
