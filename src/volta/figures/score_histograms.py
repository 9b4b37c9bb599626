"""Histograms of each method's OOD score on its own and on OOD rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import FAINT, add_axes, add_legend, house_style, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, ScoreHistogram
from volta.figures.names import set_name
from volta.figures.style import DASHES, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
SET_HUES = (1, 4, 3, 9, 8, 5)


@house_style()
def score_histograms(context: Context, methods: Sequence[ScoreHistogram], seed: int) -> Figure:
    """Draw, per method, the share of rows per score bin for the test rows (filled) and each OOD set (lines).

    Scores of different methods have different units, so each panel has its own axis.
    """
    columns = min(COLUMNS, max(1, len(methods)))
    rows = max(1, math.ceil(len(methods) / columns))
    note = f"seed {seed}; height: square root of a bin's share of rows; grey: test rows; each panel has its own axis"
    figure = new_figure("Scores of known and OOD rows", context, (1.6 + 1.9 * columns, 1.15 + 1.35 * rows), note)
    all_axes = add_axes(figure, rows, columns)
    names = list(dict.fromkeys(name for m in methods for name in m.shares if name != "test"))
    for axes, method in zip(all_axes, methods, strict=False):
        _draw(axes, method, names)
    for axes in all_axes[len(methods) :]:
        axes.set_visible(False)
    add_legend(figure, _handles(names))
    return figure


def _draw(axes: Axes, method: ScoreHistogram, names: Sequence[str]) -> None:
    places = np.arange(len(method.edges))
    if "test" in method.shares:
        axes.stairs(np.sqrt(method.shares["test"]), places, fill=True, color=FAINT, alpha=0.4)
    for index, name in enumerate(names):
        if name in method.shares:
            dash = DASHES[index % len(DASHES)]
            axes.stairs(
                np.sqrt(method.shares[name]),
                places,
                color=PALETTE[_hue(index)][0],
                linewidth=1.2,
                linestyle=(0, dash) if dash else "-",
            )
    ticks = [0, len(places) // 2, len(places) - 1]
    axes.set_xticks(ticks, [f"{method.edges[tick]:.3g}" for tick in ticks], fontsize=6.5)
    axes.set_xlim(0, len(places) - 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    first, _, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    weight = "bold" if method.ours else "normal"
    axes.set_title(plain(shorten(method.title, 26)), fontsize=7.5, fontweight=weight, loc="left", pad=3)


def _hue(index: int) -> int:
    return SET_HUES[index % len(SET_HUES)]


def _handles(names: Sequence[str]) -> list[object]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[object] = [Patch(color=FAINT, alpha=0.4, label="test rows")]
    for index, name in enumerate(names):
        dash = DASHES[index % len(DASHES)]
        color = PALETTE[_hue(index)][0]
        label = plain(shorten(set_name(name), 24))
        handles.append(Line2D([], [], color=color, linestyle=(0, dash) if dash else "-", label=label))
    return handles


def _print(numbers: GroupNumbers) -> Figure:
    seed = min(seed for _, seed in numbers.histograms)
    shown = [item for (name, own), item in numbers.histograms.items() if own == seed and name in numbers.compared]
    return score_histograms(numbers.context, shown, seed)


def _data(numbers: GroupNumbers) -> Json:
    methods: dict[str, dict[str, object]] = {}
    for (name, seed), item in numbers.histograms.items():
        methods.setdefault(name, {})[str(seed)] = {"edges": item.edges, "shares": item.shares, "auroc": item.auroc}
    sets = [
        {"key": name, "label": set_name(name), "near": name in numbers.near_sets, "hue": _hue(index)}
        for index, name in enumerate(numbers.ood_sets)
    ]
    return {"sets": sets, "methods": methods}


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    seeds = sorted({seed for _, seed in numbers.histograms})
    sets = (("all", "all OOD sets"), *((name, set_name(name)) for name in numbers.ood_sets))
    return (Choice("seed", "seed", tuple((str(seed), str(seed)) for seed in seeds)), Choice("ood", "sets", sets))


SCORE_HISTOGRAMS = Chart(
    name="score_histograms",
    title="Scores of known and OOD rows",
    caption="Height: square root of a bin’s share of rows. Each method has its own score axis; "
    "long tails are compressed.",
    kind="histograms",
    available=lambda numbers: any(name in numbers.compared for name, _ in numbers.histograms),
    data=_data,
    prints=(PrintVersion("score_histograms", _print),),
    choices=_choices,
    wide=True,
    needs="predictions",
)
