"""Charts of calibration and selective prediction: reliability, ECE, accuracy against ECE, risk-coverage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.bench.cell_metrics import TEST, EvalSet
from volta.figures.chart_data import (
    Chart,
    Choice,
    Floats,
    GroupNumbers,
    Json,
    MethodBins,
    PrintVersion,
    with_metrics,
)
from volta.figures.draw import (
    FAINT,
    INK,
    RULE,
    add_axes,
    bars_json,
    base_style,
    clip_outliers,
    draw_curves,
    draw_dots,
    draw_front,
    draw_point,
    draw_rectangles,
    fit_axis,
    is_log,
    leading,
    mark_outlier,
    metric_choice,
    name_methods,
    new_figure,
    page_limits,
    panel_axes,
    plain,
    plot_axes,
    points_json,
    reach,
    shorten,
)
from volta.figures.style import metric_label, pareto_front, set_name, spans_decades, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ZOOM = 0.5
"""Where the coverage axis begins when it is zoomed on the page."""
PRINTED_FROM = 0.85
"""Where it begins in print."""


@base_style()
def risk_coverage(numbers: GroupNumbers) -> Figure:
    """Draw risk against coverage per method, mean over seeds; the range over seeds is shaded for VOLTA.

    Our method and the five of the lowest AURC are in colour. The axis begins where curves lie apart: below it few
    samples make any curve jump.
    """
    shown = sorted(numbers.of_compared(numbers.curves), key=lambda m: m.area)
    note = "mean over seeds, methods in order of AURC; shade: lowest and highest seed (VOLTA)"
    labels = "coverage: share of samples kept", "risk ↓"
    figure, axes = plot_axes("Risk against coverage", numbers.context, ("column", 2.9), note, *labels)
    draw_curves(axes, shown)
    top = max((float(np.max(m.mean[m.x >= PRINTED_FROM], initial=0.0)) for m in shown), default=0.0)
    axes.set_xlim(PRINTED_FROM, 1)
    axes.set_ylim(0, 1.06 * top if top > 0 else 0.01)
    named = leading(shown)
    name_methods(
        figure, named, [f"{1000 * m.area:.3g}" for m in named], line=True, n_others=len(shown) - len(named),
        title="AURC × 1000 ↓",
    )  # fmt: skip
    return figure


def _data(numbers: GroupNumbers) -> Json:
    views = {"risk": numbers.curves, "excess": numbers.excess}
    return {
        "x": next(iter(numbers.curves.values())).x,
        "zoom": ZOOM,
        "labels": {"risk": "risk ↓", "excess": "risk above perfect ↓"},
        "views": {
            view: {
                name: {"mean": curve.mean, "low": curve.low, "high": curve.high, "area": curve.area}
                for name, curve in curves.items()
            }
            for view, curves in views.items()
            if curves
        },
    }


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    views = (("risk", "risk"), *((("excess", "risk above a perfect order"),) if numbers.excess else ()))
    return Choice("view", "show", views), Choice("axis", "axis", (("zoom", "from coverage 0.5"), ("all", "whole")))


RISK_COVERAGE = Chart(
    name="risk_coverage",
    title="Risk against coverage",
    caption="Error rate of the most certain samples, by the share that is kept; mean over seeds. A perfect order keeps "
    "every correct sample before any wrong one.",
    kind="risk",
    available=lambda numbers: bool(numbers.of_compared(numbers.curves)),
    data=_data,
    prints=(PrintVersion("risk_coverage", risk_coverage),),
    choices=_choices,
)


COLUMNS = 6
FEW_ROWS = 10
"""Bins with fewer rows a seed say next to nothing and are grey."""
Z = 1.959964
GREY = "#b4b9c0"


@base_style()
def reliability_diagrams(numbers: GroupNumbers) -> Figure:
    """Draw a small diagram for our method and for the five with the lowest ECE.

    Accuracy of each confidence bin, its gap to the diagonal, and below them the shares of rows.

    Rows of all seeds are pooled into the 15 bins of ECE; the ECE and its expected value are means over seeds. Bins with
    few rows are grey; thin lines are 95 % binomial intervals of the accuracy.
    """
    found = numbers.bins["test"]
    every = [replace(found[name], title=title) for name, title in numbers.network_titles.items() if name in found]
    methods = leading(sorted(every, key=lambda method: method.ece))
    note = (
        "bars: accuracy per confidence bin, seeds pooled; lines: 95 % binomial; hatched: gap to confidence; grey bars: "
        f"below {FEW_ROWS} samples a seed; below the axis: share of samples"
    )
    columns = min(COLUMNS, max(1, len(methods)))
    figure, panels = panel_axes("Reliability", numbers.context, len(methods), columns, (0.3, 1.55), note)
    for index, (axes, method) in enumerate(zip(panels, methods, strict=True)):
        draw_reliability(axes, method)
        if index % columns == 0:
            axes.set_ylabel("accuracy")
        expected = "" if method.expected is None else f"\nexpected {method.expected:.3f}"
        axes.set_xlabel(f"confidence\nECE {method.ece:.3f}{expected}", fontsize=6.5)
        axes.tick_params(labelleft=index % columns == 0)
    return figure


def draw_reliability(axes: Axes, method: MethodBins) -> None:
    """Draw one diagram: accuracy of each bin, its gap to the mean confidence, and below them the share of rows."""
    n_bins = len(method.count)
    filled = method.count > 0
    width = 1 / n_bins
    left = np.arange(n_bins)[filled] * width
    accuracy, confidence = method.accuracy[filled], method.confidence[filled]
    color = style_of(method.name).color
    few = rows_per_seed(method)[filled] < FEW_ROWS
    colors = [GREY if one else color for one in few]
    draw_rectangles(
        axes, left, left + width, 0, accuracy, facecolors=colors, alpha=0.85, edgecolors="white", linewidths=0.4
    )
    low, high = np.minimum(accuracy, confidence), np.maximum(accuracy, confidence)
    for hatched, look in ((~few, color), (few, GREY)):
        if hatched.any():
            edges = left[hatched], left[hatched] + width, low[hatched], high[hatched]
            draw_rectangles(axes, *edges, facecolors="none", edgecolors=look, hatch="//////", linewidths=0.4, alpha=0.7)
    bottom, top = (ends[filled] for ends in accuracy_interval(method))
    axes.vlines(left + width / 2, bottom, top, color=INK, linewidth=0.7, zorder=4)
    shares = method.count[filled] / max(1, int(method.count.sum()))
    draw_rectangles(axes, left, left + width, -0.16 * shares, 0, facecolors=FAINT, alpha=0.8, linewidths=0)
    axes.axhline(0, color=RULE, linewidth=0.6)
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.17, 1.02)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    weight = "bold" if method.ours else "normal"
    axes.set_title(plain(shorten(method.title, 20)), fontsize=6.5, fontweight=weight, loc="left", pad=3)
    axes.set_aspect(0.84)


def rows_per_seed(method: MethodBins) -> Floats:
    """Return how many rows of one seed each bin holds; seeds may share their rows, so that pooled ones say too much."""
    return np.asarray(method.count / method.n_seeds)


def accuracy_interval(method: MethodBins) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95 % interval of each bin's accuracy, for as many rows as one seed has in it.

    (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n), z = 1.96.
    Reference: Wilson, Journal of the American Statistical Association 22 (1927).
    """
    n = np.maximum(rows_per_seed(method), 1.0)
    middle = (method.accuracy + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(method.accuracy * (1 - method.accuracy) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _reliability_data(numbers: GroupNumbers) -> Json:
    sets: dict[str, dict[str, Json]] = {}
    for name, by_method in numbers.bins.items():
        for method, bins in by_method.items():
            low, high = accuracy_interval(bins)
            sets.setdefault(name, {})[method] = {
                "n": bins.count,
                "confidence": bins.confidence,
                "accuracy": bins.accuracy,
                "low": low,
                "high": high,
                "few": rows_per_seed(bins) < FEW_ROWS,
                "ece": bins.ece,
                "expected": bins.expected,
            }
    return {"sets": sets}


def _reliability_choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    sets = sorted(map(EvalSet, numbers.bins), key=lambda one: one != TEST)
    options = ((str(one), "test samples" if one == TEST else f"{one.kind}: {set_name(str(one))}") for one in sets)
    return (Choice("set", "samples", tuple(options)),)


RELIABILITY = Chart(
    name="reliability",
    title="Reliability",
    caption="Bars: accuracy of each confidence bin, seeds pooled, with a 95 % binomial interval; grey: fewer than "
    f"{FEW_ROWS} samples a seed; short line: mean confidence; shaded: the gap; below: share of samples. "
    "ECE: mean over seeds; expected: under perfect calibration.",
    kind="reliability",
    available=lambda numbers: bool(numbers.of_compared(numbers.bins.get("test", {}))),
    data=_reliability_data,
    prints=(PrintVersion("reliability", reliability_diagrams),),
    choices=_reliability_choices,
    wide=True,
    shared=True,
)


METRICS_SHOWN = ("ece", "mce", "ece_equal_mass", "ece_classwise")


@base_style()
def calibration_bars(numbers: GroupNumbers) -> Figure:
    """Draw four calibration errors per method, methods in order of ECE, one standard deviation as a line."""
    shown = sorted(with_metrics(numbers.compared_networks, *METRICS_SHOWN), key=lambda m: m.mean("ece"))
    height = 0.6 + 0.13 * max(4, len(shown))
    note = "methods in order of ECE; lines: one standard deviation over seeds"
    figure = new_figure("Calibration errors", numbers.context, ("page", height), note)
    all_axes = add_axes(figure, 1, len(METRICS_SHOWN))
    for axes, metric in zip(all_axes, METRICS_SHOWN, strict=True):
        draw_dots(axes, shown, metric, named=axes is all_axes[0])
        axes.set_title(metric_label(metric), loc="left")
    return figure


def _metrics(numbers: GroupNumbers) -> list[str]:
    return [metric for metric in METRICS_SHOWN if numbers.has(metric)]


CALIBRATION_BARS = Chart(
    name="calibration_bars",
    title="Calibration errors",
    caption="Line: one standard deviation over seeds.",
    kind="bars",
    available=lambda numbers: numbers.has("ece"),
    data=lambda numbers: bars_json(numbers, _metrics(numbers)),
    prints=(PrintVersion("calibration_bars", calibration_bars),),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
    shared=True,
)


GRID = 120
PAGE_GRID = (48, 36)
MIN_POINTS = 5
"""Fewer points than this carry no density; they are drawn as points alone."""


ACCURACY_AXIS, ECE_AXIS = "accuracy ↑", "ECE ↓ (15 bins)"


@base_style()
def accuracy_ece_density(numbers: GroupNumbers) -> Figure:
    """Draw the density of the baselines' per-seed points in the accuracy-ECE plane, and VOLTA's points on it.

    f(x) = (1/n) Σ_i N(x; x_i, h² diag(s²)), s the deviations per axis and h = n^(−1/6) (Scott's rule in two
    dimensions); ECE enters as its logarithm where it spans a decade. Contours hold shares of the highest density.
    """
    shown = with_metrics(numbers.compared_methods, "accuracy", "ece")
    others = [m for m in shown if not m.ours]
    n_points = sum(len(m.values["ece"]) for m in others)
    note = f"shade: density of {n_points} baseline points (one per seed), as a share of its peak"
    title = "Where methods stand: accuracy and calibration error"
    figure, axes = plot_axes(title, numbers.context, ("column", 2.6), note, ACCURACY_AXIS, ECE_AXIS)
    axes.grid(False)
    if not shown:
        return figure
    y = [value for m in shown for value in m.values["ece"]]
    log = spans_decades(y)
    x = [value for m in shown for value in m.values["accuracy"]]
    # Room for the density around the outermost points.
    fit_axis(axes, "x", [min(x) - 0.12 * (max(x) - min(x)), max(x) + 0.12 * (max(x) - min(x))])
    fit_axis(axes, "y", [min(y) / 1.3, max(y) * 1.3] if log else y, log=log, floor=0.0)
    if n_points >= MIN_POINTS:
        flat = [np.concatenate([np.asarray(m.values[metric]) for m in others]) for metric in ("accuracy", "ece")]
        _draw_density(axes, (flat[0], flat[1]), log)
    for method in sorted(shown, key=lambda m: m.ours):
        style = style_of(method.name)
        look: dict[str, Any] = {"s": 6, "marker": "o", "linewidth": 0.2, "color": FAINT}
        if method.ours:
            look = {"s": 45, "marker": "*", "linewidth": 0.4, "zorder": 4, "color": style.color}
            look["label"] = plain(method.title)
        axes.scatter(method.values["accuracy"], method.values["ece"], edgecolor="white", **look)
    if any(method.ours for method in shown):
        axes.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none")
    return figure


def density(points: tuple[Floats, Floats], grid_x: Floats, grid_y: Floats) -> Floats:
    """Return the kernel density on a grid, (len(grid_y), len(grid_x)), as a share of its peak."""
    bandwidth = len(points[0]) ** (-1 / 6)
    parts = []
    for values, grid in zip(points, (grid_x, grid_y), strict=True):
        # Points in one spot still deserve a spot of visible size: a fiftieth of the axis.
        width = bandwidth * max(float(np.std(values)), float(np.ptp(grid)) / 50)
        parts.append(np.exp(-0.5 * ((grid[:, None] - values[None, :]) / width) ** 2))
    surface: Floats = parts[1] @ parts[0].T
    share: Floats = surface / surface.max()
    return share


def _draw_density(axes: Axes, flat: tuple[Floats, Floats], log: bool) -> None:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    grid_x = np.linspace(x0, x1, GRID)
    grid_y = np.geomspace(y0, y1, GRID) if log else np.linspace(y0, y1, GRID)
    along_y = np.log if log else np.asarray
    surface = density((flat[0], along_y(flat[1])), grid_x, along_y(grid_y))
    levels = [0.05, 0.2, 0.4, 0.6, 0.8, 1.0]
    axes.contourf(grid_x, grid_y, surface, levels=levels, cmap="Blues", alpha=0.75, vmin=0, vmax=1.4)
    axes.contour(grid_x, grid_y, surface, levels=levels[:-1], colors=FAINT, linewidths=0.4)


def density_json(numbers: GroupNumbers) -> Json | None:
    """Return the density on a grid of cells for the page: the cells' edges on both axes, and a share of the peak each.

    The grid spans what the compared methods reach, on the page's axes; None where there are too few points.
    """
    compared = with_metrics(numbers.compared_methods, "accuracy", "ece")
    others = [method for method in compared if not method.ours]
    if sum(len(method.values["ece"]) for method in others) < MIN_POINTS:
        return None
    edges, centers, points = [], [], []
    for metric, n_cells, floor in (("accuracy", PAGE_GRID[0], None), ("ece", PAGE_GRID[1], 0.0)):
        log = is_log(numbers, metric)
        low, high = page_limits(reach(compared, metric), log, floor)
        on_axis, back = (np.log, np.exp) if log else (np.asarray, np.asarray)
        steps = np.linspace(on_axis(low), on_axis(high), n_cells + 1)
        edges.append(back(steps))
        centers.append((steps[1:] + steps[:-1]) / 2)
        values = np.concatenate([np.asarray(method.values[metric], dtype=np.float64) for method in others])
        points.append(on_axis(np.maximum(values, low)))
    shares = density((points[0], points[1]), centers[0], centers[1])
    return {"x": edges[0], "y": edges[1], "shares": np.round(shares, 3)}


@base_style()
def accuracy_ece(numbers: GroupNumbers) -> Figure:
    """Draw each method at (mean accuracy, mean ECE) with bars of one standard deviation over seeds.

    The line joins the methods that no other beats on both; ECE is on a log scale where it spans a decade.
    """
    shown = with_metrics(numbers.compared_networks, "accuracy", "ece")
    note = "bars: one standard deviation over seeds; line: the Pareto front"
    title = "Accuracy against calibration error"
    figure, axes = plot_axes(title, numbers.context, ("column", 3.0), note, ACCURACY_AXIS, ECE_AXIS)
    means = [m.mean("accuracy") for m in shown]
    x, y = clip_outliers(means), [m.mean("ece") for m in shown]
    named = leading(sorted(shown, key=lambda m: m.mean("ece")))
    for method, mean, at_x, at_y in zip(shown, means, x, y, strict=True):
        spread = method.std("accuracy") if at_x == mean else 0.0, min(method.std("ece"), 0.9 * at_y)
        draw_point(axes, method, (at_x, at_y), spread, muted=method not in named)
        mark_outlier(axes, (at_x, at_y), (mean, at_y))
    if x:
        reach_x = [v for m, at in zip(shown, x, strict=True) for v in (at - m.std("accuracy"), at + m.std("accuracy"))]
        fit_axis(axes, "x", [min(max(v, min(x) - 0.05), max(x) + 0.05) for v in reach_x])
        reach_y = [
            v for m, at in zip(shown, y, strict=True) for v in (max(at - m.std("ece"), 0.1 * at), at + m.std("ece"))
        ]
        fit_axis(axes, "y", reach_y, log=spans_decades(y, 5), floor=0.0)
    name_methods(figure, named, line=False, n_others=len(shown) - len(named))
    draw_front(axes, x, y, pareto_front(x, y))
    return figure


ACCURACY_ECE = Chart(
    name="accuracy_ece",
    title="Accuracy against calibration error",
    caption="Down and to the right is better. Bars: one standard deviation; line: the Pareto front.",
    kind="points",
    available=lambda numbers: numbers.has("accuracy", "ece"),
    data=lambda numbers: {
        **points_json(numbers, "accuracy", "ece", "Accuracy against ECE"),
        "density": density_json(numbers),
    },
    prints=(
        PrintVersion("accuracy_ece", accuracy_ece),
        PrintVersion("accuracy_ece_density", accuracy_ece_density, "density"),
    ),
    switches=(("density", "density of the other methods’ seeds"),),
    shared=True,
)
