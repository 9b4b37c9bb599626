"""Direct labels beside points, placed so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT, plain, settle_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_RADII = (7.0, 14.0, 22.0, 32.0)

Box = tuple[float, float, float, float]


def label_points(axes: Axes, points: Sequence[tuple[float, float, str, bool]], size: float = 7.5) -> None:
    """Write each (x, y, text, bold) beside its point, trying near places first; a thin line ties a far label.

    Text widths are estimated from the number of characters, which is enough to keep labels apart. Labels stand where
    the layout has put the points, so they come last, and the layout is settled by them.
    """
    figure = axes.get_figure(root=True)
    if figure is None:
        return
    settle_layout(figure)
    to_pixels = axes.transData.transform
    scale = figure.dpi / 72
    frame = axes.get_window_extent()
    taken: list[Box] = [_around(tuple(to_pixels((x, y))), 3.5 * scale) for x, y, _, _ in points]
    for x, y, text, bold in sorted(points, key=lambda point: not point[3]):
        center = to_pixels((x, y))
        width, height = 0.58 * size * len(text) * scale * (1.06 if bold else 1), 1.25 * size * scale
        place = _best_place(tuple(center), (width, height), scale, taken, (frame.x0, frame.y0, frame.x1, frame.y1))
        taken.append(place[0])
        (dx, dy), radius = place[1], place[2]
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


def _best_place(
    center: tuple[float, float], extent: tuple[float, float], scale: float, taken: list[Box], frame: Box
) -> tuple[Box, tuple[int, int], float]:
    places = [
        (_box(center, extent, direction, radius * scale), direction, radius)
        for radius in _RADII
        for direction in _DIRECTIONS
    ]
    # The first place wins among equals, so near places come before far ones.
    return min(places, key=lambda place: sum(_overlap(place[0], box) for box in taken) + 3 * _outside(place[0], frame))


def _around(center: Sequence[float], half: float) -> Box:
    x, y = float(center[0]), float(center[1])
    return (x - half, y - half, x + half, y + half)


def _box(center: tuple[float, float], extent: tuple[float, float], direction: tuple[int, int], radius: float) -> Box:
    x = center[0] + direction[0] * radius - extent[0] * (1 - direction[0]) / 2
    y = center[1] + direction[1] * radius - extent[1] * (1 - direction[1]) / 2
    return (x, y, x + extent[0], y + extent[1])


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, frame: Box) -> float:
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, frame)
