"""Charts of OOD detection: bars, near against far, ROC and PR curves, score histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.bench.cell_metrics import FAR, NEAR
from volta.figures.chart_data import (
    Chart,
    Choice,
    GroupNumbers,
    Json,
    MethodCurve,
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
    clip_outliers,
    draw_curves,
    draw_dots,
    draw_point,
    fit_axis,
    leading,
    mark_outlier,
    metric_choice,
    name_methods,
    new_figure,
    panel_axes,
    plain,
    plot_axes,
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
def ood_bars(numbers: GroupNumbers) -> Figure:
    """Draw AUROC per OOD set (values named ``auroc@ood:NAME``), ordered by the first set; bars start at chance."""
    sets, first = numbers.ood_sets, f"auroc@{numbers.ood_sets[0]}"
    shown = sorted(with_metrics(numbers.compared_methods, first), key=lambda m: -m.mean(first))
    height = 0.6 + 0.13 * max(4, len(shown))
    note = f"in order of AUROC on {set_name(sets[0])}; lines: one standard deviation over seeds; vertical line: chance"
    title = "Out-of-distribution detection, AUROC ↑"
    figure = new_figure(title, numbers.context, ("page", height), note)
    all_axes = add_axes(figure, 1, len(sets))
    for axes, name in zip(all_axes, sets, strict=True):
        key = f"auroc@{name}"
        draw_dots(axes, shown, key, named=axes is all_axes[0], start=CHANCE)
        near = " (near)" if name in numbers.near_sets else ""
        axes.set_title(plain(shorten(set_name(name), 22)) + near, loc="left")
    return figure


def _metrics(numbers: GroupNumbers) -> list[str]:
    keys = [f"{metric}@{name}" for name in numbers.ood_sets for metric in PAGE_METRICS]
    return [key for key in keys if any(method.has(key) for method in numbers.methods)]


OOD_BARS = Chart(
    name="ood_bars",
    title="Out-of-distribution detection",
    caption="OOD samples are the positives; AUROC bars start at chance.",
    kind="bars",
    available=lambda numbers: bool(_metrics(numbers)),
    data=lambda numbers: bars_json(numbers, _metrics(numbers), {f"auroc@{name}": CHANCE for name in numbers.ood_sets}),
    prints=(PrintVersion("ood_bars", ood_bars),),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
)


X, Y = (metric_key("auroc", str(one)) for one in (NEAR, FAR))


@base_style()
def near_far_ood(numbers: GroupNumbers) -> Figure:
    """Draw each method at (mean AUROC over near, over far OOD sets) with bars of one standard deviation over seeds."""
    shown = sorted(with_metrics(numbers.compared_methods, X, Y), key=lambda m: -m.mean(X))
    note = "means over the OOD sets of each kind; bars: one standard deviation over seeds; in order of near OOD"
    labels = metric_label(X), metric_label(Y)
    figure, axes = plot_axes("Near and far OOD", numbers.context, ("column", 3.0), note, *labels)
    named = leading(shown)
    x, y = clip_outliers([m.mean(X) for m in shown]), clip_outliers([m.mean(Y) for m in shown])
    for method, *at in zip(shown, x, y, strict=True):
        value = method.mean(X), method.mean(Y)
        spread = [method.std(key) if one == mean else 0.0 for key, one, mean in zip((X, Y), at, value, strict=True)]
        draw_point(axes, method, (at[0], at[1]), (spread[0], spread[1]), muted=method not in named)
        mark_outlier(axes, (at[0], at[1]), value)
    fit_axis(axes, "x", x)
    fit_axis(axes, "y", y)
    name_methods(figure, named, [f"{m.mean(X):.3f}" for m in named], line=False, n_others=len(shown) - len(named))
    return figure


NEAR_FAR_OOD = Chart(
    name="near_far_ood",
    title="Near and far OOD",
    caption="AUROC averaged over the OOD sets of each kind; up and to the right is better. Bars: one deviation.",
    kind="points",
    available=lambda numbers: numbers.has(X, Y),
    data=lambda numbers: points_json(numbers, X, Y, "Near against far OOD"),
    prints=(PrintVersion("near_far_ood", near_far_ood),),
)


def lines_chart(
    name: str,
    title: str,
    caption: str,
    labels: tuple[str, str],
    metric: str,
    curves_of: Callable[[GroupNumbers], Mapping[str, Mapping[str, MethodCurve]]],
    diagonal: bool = False,
) -> Chart:
    """Return the chart of one line a method on each OOD set where some compared method has one, the near sets first.

    ``metric`` is the area beneath them, ``diagonal`` draws chance.
    """
    area = metric_name(metric)

    def sets(numbers: GroupNumbers) -> list[str]:
        curves = curves_of(numbers)
        return [key for key in numbers.ood_sets if numbers.of_compared(curves.get(key, {}))]

    def draw(numbers: GroupNumbers) -> Figure:
        where = sets(numbers)[0]
        shown = sorted(numbers.of_compared(curves_of(numbers)[where]), key=lambda curve: -curve.area)
        note = f"{set_name(where)}; mean over seeds, in order of {area}; shade: lowest and highest seed (VOLTA)"
        # Not as a decorator, which loky could not send to a worker.
        with base_style():
            figure, axes = plot_axes(title, numbers.context, ("column", 3.1), note, *labels)
            draw_curves(axes, shown)
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.02)
            named = leading(shown)
            words = [f"{curve.area:.3f}" for curve in named]
            name_methods(figure, named, words, line=True, n_others=len(shown) - len(named), title=f"{area} ↑")
            if diagonal:
                axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
        return figure

    def data(numbers: GroupNumbers) -> Json:
        found = {where: curves_of(numbers)[where] for where in sets(numbers)}
        return {
            "x": next(curve.x for by_method in found.values() for curve in by_method.values()),
            "labels": labels,
            "area": area,
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
        prints=(PrintVersion(name, draw),),
        choices=lambda numbers: (Choice("ood", "set", tuple((key, set_name(key)) for key in sets(numbers))),),
    )


ROC_CURVES = lines_chart(
    "roc_curves",
    "ROC of OOD detection",
    "OOD samples flagged against ID samples flagged, over all thresholds; mean over seeds.",
    ("false-positive rate: share of ID samples flagged", "true-positive rate ↑"),
    "auroc",
    lambda numbers: numbers.roc,
    diagonal=True,
)

PR_CURVES = lines_chart(
    "pr_curves",
    "Precision and recall of OOD detection",
    "Share of flagged samples that are OOD, against the share of OOD samples flagged; mean over seeds. Precision "
    "depends on how many samples of each kind there are.",
    ("recall: share of OOD samples flagged", "precision ↑"),
    "aupr_out",
    lambda numbers: numbers.precision_recall,
)


COLUMNS = 3
SET_HUES = (1, 4, 3, 9, 8, 5)


@base_style()
def score_histograms(numbers: GroupNumbers) -> Figure:
    """Draw the share of rows per score bin for the test rows (filled) and each OOD set (lines).

    Our method and the five with the highest AUROC on the first OOD set are shown. Scores of
    different methods have different units, so each panel has its own axis.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    seed = min(seed for _, seed in numbers.histograms)
    found = numbers.of_compared({name: item for (name, own), item in numbers.histograms.items() if own == seed})
    first = next(iter(numbers.ood_sets), "")
    methods = leading(sorted(found, key=lambda item: -item.auroc.get(first, 0.0)))
    columns = min(COLUMNS, max(1, len(methods)))
    note = f"seed {seed}; height: square root of a bin's share of samples; grey: test samples; own axis for each panel"
    title = "Scores of test and OOD samples"
    figure, panels = panel_axes(title, numbers.context, len(methods), columns, (0.5, 1.05), note)
    names = dict.fromkeys(name for m in methods for name in m.shares if name != "test")
    looks: dict[str, Any] = {}
    for index, name in enumerate(names):
        dash = DASHES[index % len(DASHES)]
        looks[name] = {"color": PALETTE[_hue(index)][0], "linestyle": (0, dash) if dash else "-"}
    for axes, method in zip(panels, methods, strict=True):
        _draw(axes, method, looks)
    lines = [Line2D([], [], label=plain(shorten(set_name(name), 24)), **look) for name, look in looks.items()]
    add_legend(figure, [Patch(color=FAINT, alpha=0.4, label="test samples"), *lines])
    return figure


def _draw(axes: Axes, method: ScoreHistogram, looks: Mapping[str, Any]) -> None:
    places = np.arange(len(method.edges))
    if "test" in method.shares:
        axes.stairs(np.sqrt(method.shares["test"]), places, fill=True, color=FAINT, alpha=0.4)
    for name, look in looks.items():
        if name in method.shares:
            axes.stairs(np.sqrt(method.shares[name]), places, linewidth=1.2, **look)
    ticks = [0, len(places) - 1]
    axes.set_xticks(ticks, [_edge(method.edges[tick]) for tick in ticks], fontsize=6)
    axes.set_xlim(0, len(places) - 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    first, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    weight = "bold" if method.ours else "normal"
    axes.set_title(plain(shorten(method.title, 26)), fontsize=6.5, fontweight=weight, loc="left", pad=3)


def _edge(value: float) -> str:
    """Return a score in words: whole where it is large, else with two digits, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}" if abs(value) >= 1e-3 else "0"


def _hue(index: int) -> int:
    return SET_HUES[index % len(SET_HUES)]


def _score_histograms_data(numbers: GroupNumbers) -> Json:
    methods: dict[str, dict[str, object]] = {}
    seeds = _page_seeds(numbers)
    for (name, seed), item in numbers.histograms.items():
        if seed not in seeds:
            continue
        methods.setdefault(name, {})[str(seed)] = {"edges": item.edges, "shares": item.shares, "auroc": item.auroc}
    sets = [
        {"key": name, "label": set_name(name), "near": name in numbers.near_sets, "hue": _hue(index)}
        for index, name in enumerate(numbers.ood_sets)
    ]
    return {"sets": sets, "methods": methods}


def _page_seeds(numbers: GroupNumbers) -> list[int]:
    """Return the seeds whose histograms the page holds; those of all seeds would make up a fifth of it."""
    return sorted({seed for _, seed in numbers.histograms})[:3]


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    seeds = _page_seeds(numbers)
    sets = (("all", "all OOD sets"), *((name, set_name(name)) for name in numbers.ood_sets))
    return (Choice("seed", "seed", tuple((str(seed), str(seed)) for seed in seeds)), Choice("ood", "sets", sets))


SCORE_HISTOGRAMS = Chart(
    name="score_histograms",
    title="Scores of test and OOD samples",
    caption="Height: square root of a bin’s share of samples. Each method has its own score axis; "
    "long tails are compressed.",
    kind="histograms",
    available=lambda numbers: any(name in numbers.compared for name, _ in numbers.histograms),
    data=_score_histograms_data,
    prints=(PrintVersion("score_histograms", score_histograms),),
    choices=_choices,
    wide=True,
)
