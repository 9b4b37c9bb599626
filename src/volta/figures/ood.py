"""Charts of OOD detection: bars, near against far, ROC and PR curves, score histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.bench.cell_metrics import FAR, NEAR
from volta.figures.chart_data import (
    Chart,
    Choice,
    Context,
    GroupNumbers,
    Json,
    MethodCurve,
    MethodValues,
    PrintVersion,
    ScoreHistogram,
    with_metrics,
)
from volta.figures.draw import (
    FAINT,
    add_axes,
    add_legend,
    bars_json,
    base_style,
    draw_bars,
    draw_curves,
    draw_point,
    fit_axis,
    method_handle,
    metric_choice,
    new_figure,
    plain,
    points_json,
    shorten,
)
from volta.figures.style import DASHES, PALETTE, metric_key, metric_label, metric_name, set_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CHANCE = 0.5
PAGE_METRICS = ("auroc", "fpr95", "aupr_out")


@base_style()
def ood_bars(context: Context, methods: Sequence[MethodValues], sets: Sequence[str], near: Sequence[str]) -> Figure:
    """Draw AUROC per OOD set (values named ``auroc@ood:NAME``), ordered by the first set; bars start at chance."""
    first = f"auroc@{sets[0]}"
    shown = sorted((m for m in methods if m.has(first)), key=lambda m: -m.mean(first))
    height = 1.35 + 0.19 * max(4, len(shown))
    note = f"in order of AUROC on {set_name(sets[0])}; lines: one standard deviation over seeds; bars start at chance"
    figure = new_figure("Out-of-distribution detection, AUROC ↑", context, (2.6 + 1.95 * len(sets), height), note)
    all_axes = add_axes(figure, 1, len(sets))
    for axes, name in zip(all_axes, sets, strict=True):
        key = f"auroc@{name}"
        complete = [m for m in shown if m.has(key)]
        draw_bars(axes, shown, key, named=axes is all_axes[0], start=CHANCE)
        lowest = min((m.mean(key) - m.std(key) for m in complete), default=CHANCE)
        axes.set_xlim(min(0.48, lowest - 0.02), 1.005)
        axes.axvline(CHANCE, color=FAINT, linewidth=0.8)
        axes.set_title(plain(shorten(set_name(name), 22)) + (" (near)" if name in near else ""), loc="left", fontsize=9)
    return figure


def _metrics(numbers: GroupNumbers) -> list[str]:
    keys = [f"{metric}@{name}" for name in numbers.ood_sets for metric in PAGE_METRICS]
    return [key for key in keys if any(method.has(key) for method in numbers.methods)]


def _data(numbers: GroupNumbers) -> Json:
    return bars_json(numbers, _metrics(numbers), {f"auroc@{name}": CHANCE for name in numbers.ood_sets})


OOD_BARS = Chart(
    name="ood_bars",
    title="Out-of-distribution detection",
    caption="OOD rows are the positives; AUROC bars start at chance.",
    kind="bars",
    available=lambda numbers: bool(_metrics(numbers)),
    data=_data,
    prints=(
        PrintVersion(
            "ood_bars",
            lambda numbers: ood_bars(numbers.context, numbers.compared_methods, numbers.ood_sets, numbers.near_sets),
        ),
    ),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
)


X, Y = (metric_key("auroc", str(one)) for one in (NEAR, FAR))


@base_style()
def near_far_ood(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw each method at (mean AUROC over near, over far OOD sets) with bars of one standard deviation over seeds."""
    shown = sorted(with_metrics(methods, X, Y), key=lambda m: -m.mean(X))
    note = "means over the OOD sets of each kind; bars: one standard deviation over seeds; in order of near OOD"
    figure = new_figure("Near and far OOD", context, (7.2, 4.6), note)
    (axes,) = add_axes(figure)
    for method in shown:
        draw_point(axes, method, (method.mean(X), method.mean(Y)), (method.std(X), method.std(Y)))
    fit_axis(axes, "x", [m.mean(X) for m in shown])
    fit_axis(axes, "y", [m.mean(Y) for m in shown])
    axes.set_xlabel(metric_label(X))
    axes.set_ylabel(metric_label(Y))
    axes.grid(True)
    handles = [method_handle(m.name, f"{shorten(m.title, 26)}  {m.mean(X):.3f}", line=False) for m in shown]
    add_legend(figure, handles)
    return figure


NEAR_FAR_OOD = Chart(
    name="near_far_ood",
    title="Near and far OOD",
    caption="AUROC averaged over the OOD sets of each kind; up and to the right is better. Bars: one deviation.",
    kind="points",
    available=lambda numbers: numbers.has(X, Y),
    data=lambda numbers: points_json(numbers, X, Y, "Near against far OOD"),
    prints=(PrintVersion("near_far_ood", lambda numbers: near_far_ood(numbers.context, numbers.compared_methods)),),
)


CurvesBySet = Mapping[str, Mapping[str, MethodCurve]]


@base_style()
def draw_lines(
    title: str, context: Context, curves: Sequence[MethodCurve], where: str, labels: tuple[str, str], area: str
) -> tuple[Figure, Axes]:
    """Draw one line per method from 0 to 1, the largest area first in the legend; the range over seeds for VOLTA."""
    shown = sorted(curves, key=lambda curve: -curve.area)
    note = f"{set_name(where)}; mean over seeds, in order of {area}; shade: lowest and highest seed (VOLTA)"
    figure = new_figure(title, context, (7.4, 4.6), note)
    (axes,) = add_axes(figure)
    draw_curves(axes, shown)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    handles = [method_handle(m.name, f"{shorten(m.title, 26)}  {m.area:.4f}", line=True, ours=m.ours) for m in shown]
    add_legend(figure, handles, title=f"{area} ↑")
    return figure, axes


def lines_chart(
    name: str,
    title: str,
    caption: str,
    labels: tuple[str, str],
    metric: str,
    curves_of: Callable[[GroupNumbers], CurvesBySet],
    draw: Callable[[Context, Sequence[MethodCurve], str], Figure],
    diagonal: bool = False,
) -> Chart:
    """Return the chart of such lines on each OOD set where some compared method has one, the near sets first.

    ``metric`` is the area beneath them, ``diagonal`` draws chance on the page.
    """

    def sets(numbers: GroupNumbers) -> list[str]:
        curves = curves_of(numbers)
        return [key for key in numbers.ood_sets if any(method in numbers.compared for method in curves.get(key, {}))]

    def print_first(numbers: GroupNumbers) -> Figure:
        where = sets(numbers)[0]
        shown = [curve for method, curve in curves_of(numbers)[where].items() if method in numbers.compared]
        return draw(numbers.context, shown, where)

    def data(numbers: GroupNumbers) -> Json:
        found = {where: curves_of(numbers)[where] for where in sets(numbers)}
        return {
            "x": next(curve.x for by_method in found.values() for curve in by_method.values()),
            "labels": labels,
            "area": metric_name(metric),
            "diagonal": diagonal,
            "sets": {
                where: {method: {"mean": curve.mean, "area": curve.area} for method, curve in by_method.items()}
                for where, by_method in found.items()
            },
        }

    return Chart(
        name=name,
        title=title,
        caption=caption,
        kind="ood_lines",
        available=lambda numbers: bool(sets(numbers)),
        data=data,
        prints=(PrintVersion(name, print_first),),
        choices=lambda numbers: (Choice("ood", "set", tuple((key, set_name(key)) for key in sets(numbers))),),
    )


ROC_LABELS = ("false alarms: share of ID rows called OOD", "share of OOD rows caught ↑")


@base_style()
def roc_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one ROC curve per method on one OOD set, with chance as a thin line."""
    figure, axes = draw_lines("ROC of OOD detection", context, methods, where, ROC_LABELS, metric_name("auroc"))
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
    return figure


ROC_CURVES = lines_chart(
    "roc_curves",
    "ROC of OOD detection",
    "OOD rows caught against ID rows called OOD, over all thresholds; mean over seeds.",
    ROC_LABELS,
    "auroc",
    lambda numbers: numbers.roc,
    roc_curves,
    diagonal=True,
)


PR_LABELS = ("recall: share of OOD rows caught", "precision: share of true alarms ↑")


def pr_curves(context: Context, methods: Sequence[MethodCurve], where: str) -> Figure:
    """Draw one precision-recall curve per method on one OOD set, OOD rows being the positives."""
    title = "Precision and recall of OOD detection"
    return draw_lines(title, context, methods, where, PR_LABELS, metric_name("aupr_out"))[0]


PR_CURVES = lines_chart(
    "pr_curves",
    "Precision and recall of OOD detection",
    "True alarms among all alarms against OOD rows caught; mean over seeds. Precision depends on how many rows of each "
    "kind there are.",
    PR_LABELS,
    "aupr_out",
    lambda numbers: numbers.precision_recall,
    pr_curves,
)


COLUMNS = 4
SET_HUES = (1, 4, 3, 9, 8, 5)


@base_style()
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


def _score_histograms_data(numbers: GroupNumbers) -> Json:
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
    data=_score_histograms_data,
    prints=(PrintVersion("score_histograms", _print),),
    choices=_choices,
    wide=True,
)
