"""Critical-difference diagram: mean ranks on a line, bars over methods that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT, INK, add_axes, house_style, new_figure, plain, shorten
from volta.figures.data import Context, MethodRank
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@house_style()
def critical_difference(
    context: Context,
    ranks: Sequence[MethodRank],
    difference: float | None,
    groups: Sequence[tuple[float, float]],
    title: str,
    n_blocks: int,
) -> Figure:
    """Draw mean ranks on a rank line, best left, and each group of ranks as a bar.

    ``difference`` is the critical difference, drawn as a ruler; ``groups`` are (lowest, highest) mean ranks of methods
    that the test cannot tell apart. Reference: Demšar, JMLR 7 (2006).
    """
    ordered = sorted(ranks, key=lambda item: item.rank)
    half = (len(ordered) + 1) // 2
    note = f"mean rank over {n_blocks} blocks, 1 is best; a bar joins methods that the test cannot tell apart"
    figure = new_figure(title, context, (7.4, 1.9 + 0.17 * half + 0.1 * len(groups)), note)
    (axes,) = add_axes(figure)
    n = max(2, len(ordered))
    axes.set_xlim(1 - 0.38 * (n - 1), n + 0.38 * (n - 1))
    bars_depth = 0.55 * len(groups) + 0.6
    axes.set_ylim(-(bars_depth + half + 0.3), 2.2)
    axes.axis("off")
    axes.plot([1, n], [0, 0], color=INK, linewidth=1)
    step = max(1, (n - 1) // 8)
    for tick in range(1, n + 1, step):
        axes.plot([tick, tick], [0, 0.25], color=INK, linewidth=0.8)
        axes.text(tick, 0.4, str(tick), ha="center", va="bottom", fontsize=7.5)
    if difference is not None:
        axes.plot([1, 1 + difference], [1.6, 1.6], color=INK, linewidth=1.4)
        axes.text(
            1 + difference / 2, 1.7, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=7
        )
    for index, (low, high) in enumerate(groups):
        height = -0.45 - 0.5 * index
        axes.plot([low - 0.06, high + 0.06], [height, height], color=INK, linewidth=3, solid_capstyle="round")
    for index, item in enumerate(ordered):
        left = index < half
        depth = -(bars_depth + (index if left else len(ordered) - 1 - index) + 0.2)
        _leader(axes, item, depth, left, (1, n))
    return figure


def _leader(axes: Axes, item: MethodRank, depth: float, left: bool, ends: tuple[float, float]) -> None:
    rank, style = item.rank, style_of(item.name)
    edge = ends[0] - 0.03 * (ends[1] - ends[0]) if left else ends[1] + 0.03 * (ends[1] - ends[0])
    axes.plot([rank, rank, edge], [0, depth, depth], color=FAINT, linewidth=0.6, zorder=1)
    axes.plot(
        rank, 0, marker=style.marker, color=style.color, markersize=5, markeredgecolor="white", markeredgewidth=0.4
    )
    text = f"{shorten(item.title, 26)}  {rank:.2f}"
    weight = "bold" if item.ours else "normal"
    axes.text(
        edge,
        depth,
        f"{plain(text)} " if left else f" {plain(text)}",
        ha="right" if left else "left",
        va="center",
        fontsize=7.5,
        fontweight=weight,
    )
