"""The landscape of accuracy and calibration error: where baselines gather, and where VOLTA stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import FAINT, add_axes, house_style, new_figure, plain
from volta.figures.chart import Json
from volta.figures.data import Context, Floats, GroupNumbers, MethodValues, with_metrics
from volta.figures.points import is_log, page_limits, reach
from volta.figures.scales import spans_decades
from volta.figures.style import style_of
from volta.figures.ticks import fit_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = 120
PAGE_GRID = (48, 36)
MIN_POINTS = 5
"""Fewer points than this carry no density; they are drawn as points alone."""


@house_style()
def accuracy_ece_density(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw the density of the baselines' per-seed points in the accuracy-ECE plane, and VOLTA's points on it.

    f(x) = (1/n) Σ_i N(x; x_i, h² diag(s²)), s the deviations per axis and h = n^(−1/6) (Scott's rule in two
    dimensions); ECE enters as its logarithm where it spans a decade. Contours hold shares of the highest density.
    """
    shown = with_metrics(methods, "accuracy", "ece")
    others = [m for m in shown if not m.ours]
    n_points = sum(len(m.values["ece"]) for m in others)
    note = f"shade: density of {n_points} baseline points (one per seed), as a share of its peak"
    figure = new_figure("Where methods stand: accuracy and calibration error", context, (6.4, 4.4), note)
    (axes,) = add_axes(figure)
    axes.set_xlabel("accuracy ↑")
    axes.set_ylabel("ECE ↓ (15 bins)")
    if not shown:
        return figure
    x = np.concatenate([np.asarray(m.values["accuracy"]) for m in shown])
    y = np.concatenate([np.asarray(m.values["ece"]) for m in shown])
    log = spans_decades(list(y))
    fit_axis(axes, "x", list(x))
    fit_axis(axes, "y", list(y), log=log, floor=0.0)
    points = [(m, np.asarray(m.values["accuracy"]), np.asarray(m.values["ece"])) for m in others]
    if n_points >= MIN_POINTS:
        flat = np.concatenate([p[1] for p in points]), np.concatenate([p[2] for p in points])
        _draw_density(axes, flat, log)
    for method, at_x, at_y in points:
        style = style_of(method.name)
        axes.scatter(at_x, at_y, s=16, color=style.color, marker=style.marker, edgecolor="white", linewidth=0.4)
    for method in shown:
        if method.ours:
            style = style_of(method.name)
            axes.scatter(
                method.values["accuracy"],
                method.values["ece"],
                s=80,
                color=style.color,
                marker="*",
                edgecolor="white",
                linewidth=0.6,
                label=plain(method.title),
                zorder=4,
            )
            axes.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none", fontsize=8)
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
