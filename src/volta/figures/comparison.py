"""Charts that compare methods: summary, critical differences, pairs, profiles, ablation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.figures.chart_data import (
    Chart,
    Choice,
    Context,
    GroupNumbers,
    Json,
    MethodValues,
    PrintVersion,
    with_metrics,
)
from volta.figures.draw import (
    FAINT,
    INK,
    MUTED,
    RULE,
    Width,
    add_axes,
    base_style,
    cell_json,
    draw_cell_edges,
    draw_heatmap,
    draw_rectangles,
    fit_differences,
    leading,
    lean_sans,
    mark_ours,
    metric_choice,
    name_grid,
    name_methods,
    new_figure,
    plain,
    plot_axes,
    shorten,
    write_inside,
)
from volta.figures.style import (
    PALETTE,
    SMALL,
    as_printed,
    chart_scale,
    column_label,
    dwarfed_reach,
    full_name,
    is_shared,
    metric_key,
    metric_label,
    metric_of,
    rank_among,
    rank_scale,
    split_key,
    style_of,
    unit_scale,
)
from volta.stats.comparisons import TURNED
from volta.stats.ranking import OVERALL, LeaderboardRow, rank_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from volta.stats.comparisons import AblationRow, TestRow


DIGITS = 3


@base_style()
def summary_heatmap(numbers: GroupNumbers) -> Figure:
    """Draw mean values, shaded per column by rank from the worst method (light) to the best (dark)."""
    methods, metrics = numbers.compared_methods, summary_metrics(numbers)
    size: tuple[Width, float] = ("page", 0.9 + 0.145 * len(methods))
    note = "means over seeds; each column shaded by rank, worst (light) to best (dark)"
    figure = new_figure("Summary", numbers.context, size, note)
    (axes,) = add_axes(figure)
    cells = {}
    for column, metric in enumerate(metrics):
        rows = [row for row, method in enumerate(methods) if method.has(metric)]
        means = [methods[row].mean(metric) for row in rows]
        tones = rank_scale(as_printed(means, DIGITS), metric_of(metric).higher_is_better)
        largest = max(map(abs, means), default=0.0)
        decimals = 1 if largest >= 100 else DIGITS if largest >= SMALL else DIGITS + 1
        for row, mean, tone in zip(rows, means, tones, strict=True):
            cells[row, column] = tone, f"{mean:.{decimals}f}"
    labels = [plain(shorten(metric_label(metric), 30)) for metric in metrics]
    draw_heatmap(axes, methods, labels, cells)
    return figure


def summary_metrics(numbers: GroupNumbers) -> list[str]:
    """Return the columns: the headline metrics and AUROC on every OOD set."""
    keys = [*numbers.headline, "ece_equal_mass", "risk_at_80", *(f"auroc@{name}" for name in numbers.ood_sets)]
    return [key for key in dict.fromkeys(keys) if numbers.has(key)]


def _data(numbers: GroupNumbers) -> Json:
    metrics = summary_metrics(numbers)
    rows: dict[str, list[Json | None]] = {method.name: [] for method in numbers.methods}
    orders = {}
    for metric in metrics:
        up = metric_of(metric).higher_is_better
        orders[metric] = {
            "up": up is not False,
            "values": {method.name: method.mean(metric) for method in with_metrics(numbers.methods, metric)},
        }
        known = with_metrics(numbers.methods, metric)
        printed = dict(zip((m.name for m in known), as_printed([m.mean(metric) for m in known], DIGITS), strict=True))
        for method in numbers.methods:
            if method.name not in printed:
                rows[method.name].append(None)
                continue
            others = [printed[name] for name in numbers.compared if name in printed and name != method.name]
            cell = cell_json(method, metric)
            rows[method.name].append({**cell, "share": rank_among(printed[method.name], others, up)})
    columns = [column_label(metric) | {"tip": metric_label(metric)} for metric in metrics]
    table = {"digits": DIGITS, "columns": columns, "rows": rows, "orders": orders}
    return {"label": "Summary heatmap", "tables": {"": table}}


SUMMARY_HEATMAP = Chart(
    name="summary_heatmap",
    title="Summary",
    caption="Means over seeds; each column shaded by rank among the compared methods.",
    kind="grid",
    available=lambda numbers: len(numbers.compared) > 1 and bool(summary_metrics(numbers)),
    data=_data,
    prints=(PrintVersion("summary_heatmap", summary_heatmap),),
    choices=lambda numbers: (
        Choice("order", "order by", (("", "plan"), *((key, metric_label(key)) for key in summary_metrics(numbers)))),
    ),
    wide=True,
)


@base_style()
def critical_difference(
    context: Context,
    ranks: Sequence[MethodValues],
    difference: float | None,
    groups: Sequence[tuple[float, float]],
    title: str,
    n_blocks: int,
) -> Figure:
    """Draw mean ranks on a rank line, best left, and each group of ranks as a bar.

    ``difference`` is the critical difference, drawn as a ruler; ``groups`` are (lowest, highest) mean ranks of methods
    that the test cannot tell apart. Reference: Demšar, JMLR 7 (2006).
    """
    ordered = sorted(ranks, key=lambda item: item.mean("rank"))
    half = (len(ordered) + 1) // 2
    note = f"mean rank over {n_blocks} blocks, 1 is best; a bar joins methods that the test cannot tell apart"
    figure = new_figure(title, context, ("page", 1.1 + 0.15 * half + 0.1 * len(groups)), note)
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
        rank, style = item.mean("rank"), style_of(item.name)
        edge = 1 - 0.03 * (n - 1) if left else n + 0.03 * (n - 1)
        axes.plot([rank, rank, edge], [0, depth, depth], color=FAINT, linewidth=0.6, zorder=1)
        axes.plot(
            rank, 0, marker=style.marker, color=style.color, markersize=5, markeredgecolor="white", markeredgewidth=0.4
        )
        text = plain(f"{shorten(item.title, 26)}  {rank:.2f}")
        side, words = ("right", f"{text} ") if left else ("left", f" {text}")
        weight = "bold" if item.ours else "normal"
        axes.text(edge, depth, words, ha=side, va="center", fontsize=7.5, fontweight=weight)
    return figure


COLORS = {"better": "#8fcfb4", "worse": "#efc489", "equivalent": "#b9d0ef"}
SIGNS = {"better": "+", "worse": "−", "equivalent": "≈"}


@base_style()
def pairwise(numbers: GroupNumbers) -> Figure:
    """Draw the verdict of the row compared with the column: better, worse, equivalent, or blank if inconclusive.

    The metric is the first; where all methods share one network, the first that is not the network's.
    """
    rows = {
        metric: numbers.compared_networks if is_shared(metric) else numbers.compared_methods
        for metric in _metrics(numbers)
    }
    metric = next((metric for metric, methods in rows.items() if len(methods) > 1), next(iter(rows)))
    methods = rows[metric]
    size: tuple[Width, float] = ("page" if len(methods) > 12 else "column", 1.2 + 0.19 * len(methods))
    note = "row vs. column, Holm-corrected: + better, − worse, ≈ equivalent, blank inconclusive"
    figure = new_figure(f"All pairs: {metric_label(metric)}", numbers.context, size, note)
    (axes,) = add_axes(figure)
    place = {method.name: at for at, method in enumerate(methods)}
    for pair in both_ways(numbers.pairs):
        known = metric_key(pair.metric, pair.set) == metric and pair.reference in place and pair.method in place
        if known and pair.verdict in COLORS:
            x, y = place[pair.method], place[pair.reference]
            axes.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, color=COLORS[pair.verdict], linewidth=0)
            write_inside(axes, x, y, SIGNS[pair.verdict], fontsize=6, color=INK)
    name_grid(axes, [plain(shorten(method.title, 24)) for method in methods], methods, limit=24)
    axes.set_xlabel("+ better   − worse   ≈ equivalent   blank: inconclusive", fontfamily=lean_sans())
    axes.set_xlim(-0.5, len(methods) - 0.5)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    draw_cell_edges(axes, (len(methods), len(methods)), color=RULE, linewidth=0.5)
    axes.tick_params(length=0)
    return figure


def both_ways(pairs: Sequence[TestRow]) -> list[TestRow]:
    """Return each pair as it is and turned round."""
    turned = [
        replace(
            one,
            reference=one.method,
            method=one.reference,
            difference=-one.difference,
            verdict=TURNED.get(one.verdict, one.verdict),
        )
        for one in pairs
        if one.difference is not None
    ]
    return [*pairs, *turned]


def _metrics(numbers: GroupNumbers) -> list[str]:
    return list(dict.fromkeys(metric_key(pair.metric, pair.set) for pair in numbers.pairs))


def _pairwise_data(numbers: GroupNumbers) -> Json:
    """Return difference, verdict and corrected p of each pair, by metric and set, first and second method."""
    tables: dict[str, dict[str, dict[str, tuple[object, ...]]]] = {}
    for pair in numbers.pairs:
        row = tables.setdefault(metric_key(pair.metric, pair.set), {}).setdefault(pair.reference, {})
        difference = None if pair.difference is None else chart_scale(pair.metric) * pair.difference
        row[pair.method] = difference, pair.verdict, pair.p_holm
    shared = [key for key in tables if is_shared(key)]
    return {"signs": SIGNS, "shared": shared, "labels": {key: metric_label(key) for key in tables}, "metrics": tables}


PAIRWISE = Chart(
    name="pairwise",
    title="All pairs",
    caption="Row vs. column, Holm-corrected within the family of the pair: + better, − worse, ≈ equivalent; blank: "
    "inconclusive.",
    kind="pairs",
    available=lambda numbers: bool(numbers.pairs),
    data=_pairwise_data,
    prints=(PrintVersion("pairwise", pairwise),),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
    wide=True,
)


@base_style()
def parallel_coordinates(numbers: GroupNumbers) -> Figure:
    """Draw one line per method across one axis per metric, each axis from the worst value (below) to the best (above).

    Methods without one of the metrics are left out and named in the line beneath.
    """
    metrics = numbers.headline
    shown = with_metrics(numbers.compared_methods, *metrics)
    left_out = [m.title for m in numbers.compared_methods if m not in shown]
    note = "each axis runs from the worst mean (below) to the best (above)"
    if left_out:
        note += f"; without all metrics: {shorten(', '.join(left_out), 90)}"
    figure = new_figure("Profiles over metrics", numbers.context, ("page", 3.4), note)
    (axes,) = add_axes(figure)
    named = leading(
        sorted(shown, key=lambda m: m.mean(metrics[0]) * (-1 if metric_of(metrics[0]).higher_is_better else 1))
    )
    columns = [[m.mean(metric) for m in shown] for metric in metrics]
    ups = [metric_of(metric).higher_is_better for metric in metrics]
    heights = [unit_scale(column, up) for column, up in zip(columns, ups, strict=True) if shown]
    for row, method in enumerate(shown):
        style, ours = style_of(method.name), method.ours
        look: dict[str, Any] = {"color": MUTED, "linewidth": 0.6, "zorder": 2}
        if method in named:
            look = {"color": style.color, "linestyle": style.line, "marker": style.marker, "zorder": 4 if ours else 3}
            look |= {"linewidth": 1.8 if ours else 1.1, "markersize": 4.5 if ours else 3}
        axes.plot(range(len(metrics)), [column[row] for column in heights], label=plain(method.title), **look)
    for place, (column, up) in enumerate(zip(columns, ups, strict=True)):
        axes.axvline(place, color=RULE, linewidth=1, zorder=1)
        if column:
            ends = sorted((min(column), max(column)), reverse=up is False)
            axes.text(place, -0.055, f"{ends[0]:#.3g}", ha="center", va="top", fontsize=6)
            axes.text(place, 1.045, f"{ends[1]:#.3g}", ha="center", va="bottom", fontsize=6)
    axes.set_xticks(range(len(metrics)), [plain(metric_label(metric).replace(" (", "\n(")) for metric in metrics])
    axes.tick_params(axis="x", length=0, pad=4)
    axes.set_yticks([])
    axes.set_ylim(-0.14, 1.13)
    axes.spines[["left", "bottom"]].set_visible(False)
    name_methods(figure, named, line=True, n_others=len(shown) - len(named))
    return figure


def _parallel_coordinates_data(numbers: GroupNumbers) -> Json:
    metrics = numbers.headline
    compared = with_metrics(numbers.compared_methods, *metrics)
    lines = {}
    for method in with_metrics(numbers.methods, *metrics):
        means = [method.mean(metric) for metric in metrics]
        others = [[m.mean(metric) for m in compared if m is not method] for metric in metrics]
        ranks = [
            rank_among(mean, column, metric_of(metric).higher_is_better)
            for mean, column, metric in zip(means, others, metrics, strict=True)
        ]
        lines[method.name] = {"means": means, "ranks": ranks}
    axes = [column_label(metric) | {"up": metric_of(metric).higher_is_better is not False} for metric in metrics]
    return {"axes": axes, "lines": lines}


PARALLEL_COORDINATES = Chart(
    name="parallel_coordinates",
    title="Profiles over the headline metrics",
    caption="Each axis runs from the worst mean (below) to the best (above) of the methods shown.",
    kind="parallel",
    available=lambda numbers: (
        len(numbers.headline) > 1 and len(with_metrics(numbers.compared_methods, *numbers.headline)) > 1
    ),
    data=_parallel_coordinates_data,
    prints=(PrintVersion("parallel_coordinates", parallel_coordinates),),
    choices=lambda numbers: (Choice("scale", "axes", (("values", "values"), ("ranks", "ranks among the compared"))),),
    wide=True,
)


METRICS_SHOWN = ("accuracy", "ece", "nll", "brier")
NO_DIFFERENCE = 1e-9
BETTER, WORSE = PALETTE[1][0], PALETTE[4][0]


@base_style()
def ablation_bars(numbers: GroupNumbers) -> Figure:
    """Draw each row's mean minus the reference's, per metric; blue is better, ochre worse, * a significant change.

    Lines are one standard deviation of the row over seeds.
    """
    by_name = {method.name: method for method in numbers.methods}
    first = _changes(numbers)[0][1].reference
    tests = [(key, row) for key, row, _ in _changes(numbers) if row.reference == first]
    reference, rows = by_name[first], [by_name[name] for name in dict.fromkeys(row.row for _, row in tests)]
    metrics = [*METRICS_SHOWN, *(f"auroc@{name}" for name in numbers.ood_sets[:1])]
    significant = {(row.row, key) for key, row in tests if row.verdict in ("better", "worse")}
    height = 0.75 + 0.16 * max(3, len(rows))
    note = (
        f"difference from {reference.title}; blue, solid: better; ochre, hatched: worse; "
        "lines: one standard deviation; *: significant, paired, Holm-corrected; "
        "an axis with an outlier is logarithmic beyond its first tick"
    )
    figure = new_figure("Ablation", numbers.context, ("page", height), note)
    all_axes = add_axes(figure, 1, len(metrics), sharey=True)
    for axes, metric in zip(all_axes, metrics, strict=True):
        if reference.has(metric):
            _draw(axes, reference, rows, metric, significant)
        axes.set_title(plain(metric_label(metric).replace(" (", "\n(")), loc="left")
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.grid(True, axis="x")
        axes.tick_params(axis="x", labelsize=6)
    all_axes[0].set_yticks(range(len(rows)), [plain(shorten(m.title, 30)) for m in rows], fontsize=6.5)
    all_axes[0].set_ylim(len(rows) - 0.4, -0.6)
    for axes in all_axes:
        axes.tick_params(axis="y", length=0)
    return figure


def _draw(
    axes: Axes,
    reference: MethodValues,
    rows: Sequence[MethodValues],
    metric: str,
    significant: Collection[tuple[str, str]],
) -> None:
    sign = -1 if metric_of(metric).higher_is_better is False else 1
    ends = []
    bars: dict[bool, list[tuple[int, float]]] = {True: [], False: []}
    for place, row in enumerate(rows):
        if not row.has(metric):
            axes.text(0, place, " –", va="center", fontsize=7, color=FAINT)
            continue
        change, std = row.mean(metric) - reference.mean(metric), row.std(metric)
        bars[sign * change >= 0].append((place, change))
        axes.hlines(place, change - std, change + std, color=INK, linewidth=0.8)
        ends.append((min(0.0, change - std), max(0.0, change + std)))
        star = "*" if (row.name, metric) in significant else ""
        printed = f"{change:+.3f}".replace("-", "−") if abs(change) >= 0.0005 else "0"
        axes.annotate(
            f"{printed}{star}", (1, place), xycoords=("axes fraction", "data"), xytext=(1, 0),
            textcoords="offset points", va="center", fontsize=5.5, color=INK, fontfamily=lean_sans(),
        )  # fmt: skip
    for better, found in bars.items():
        if found:
            places, changes = np.array(found, dtype=np.float64).T
            draw_rectangles(
                axes, 0, changes, places - 0.33, places + 0.33, facecolors=BETTER if better else WORSE, alpha=0.85,
                hatch=None if better else "////", edgecolors="white", linewidths=0,
            )  # fmt: skip
    fit_differences(axes, ends)


def _changes(numbers: GroupNumbers) -> list[tuple[str, AblationRow, float]]:
    """Return (metric and set, row, difference) of every test of the ablation that has a difference."""
    return [
        (metric_key(row.metric, row.set), row, row.difference) for row in numbers.ablation if row.difference is not None
    ]


def _ablation_bars_data(numbers: GroupNumbers) -> Json:
    """Return the differences by metric and reference; ``bend`` is where a compressed axis stops being linear."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for key, row, difference in _changes(numbers):
        axis = f"{metric_label(key)}: difference from {numbers.title(row.reference)}"
        table = tables.setdefault(key, {}).setdefault(row.reference, {"axis": axis, "rows": []})
        table["rows"].append(
            {
                "row": row.row,
                "difference": chart_scale(key) * difference,
                "std": chart_scale(key) * (row.std or 0.0),
                "p": row.p_holm,
                "significant": row.verdict in ("better", "worse"),
                "better": difference <= 0 if metric_of(row.metric).higher_is_better is False else difference >= 0,
                "same": abs(difference) < NO_DIFFERENCE,
            }
        )
    for by_reference in tables.values():
        for table in by_reference.values():
            reaches = [abs(row["difference"]) + row["std"] for row in table["rows"]]
            table["bend"] = dwarfed_reach([reach for reach in reaches if reach > 0])
    return {"tables": tables}


def _ablation_bars_choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    references = dict.fromkeys(row.reference for _, row, _ in _changes(numbers))
    metrics = list(dict.fromkeys(key for key, _, _ in _changes(numbers)))
    named = tuple((name, numbers.title(name)) for name in references)
    return (metric_choice(metrics), Choice("reference", "against", named))


ABLATION_BARS = Chart(
    name="ablation_bars",
    title="Ablation",
    caption="Difference from the reference; blue: better, ochre: worse. * significant, paired, "
    "Holm-corrected; the others may be chance.",
    kind="differences",
    available=lambda numbers: bool(_changes(numbers)),
    data=_ablation_bars_data,
    prints=(PrintVersion("ablation_bars", ablation_bars),),
    choices=_ablation_bars_choices,
)


COST_RANKS = ("train_s", "latency_ms")
CARES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("equal", "everything equally", ()),
    ("calibration", "calibration", ("ece", "nll")),
    ("abstention", "abstention", ("aurc",)),
    ("ood", "OOD", ("auroc",)),
    ("cost", "cost", COST_RANKS),
)
"""What a reader may care about: its key, its words, and the metrics whose ranks then count more."""
WEIGHT = 3
"""So many times the others."""


@base_style()
def mean_ranks(numbers: GroupNumbers) -> Figure:
    """Draw the mean rank of every method with its interval; those in the confidence set of the best are shaded."""
    rows = _placed(numbers)
    methods = [method for row in rows for method in numbers.methods if method.name == row.method]
    figure, axes = plot_axes(
        "Mean rank", numbers.context, ("column", 0.6 + 0.135 * len(rows)),
        "lines: 95 % bootstrap interval; shaded: in the confidence set of the best on every ranked metric",
        "mean rank (1 is best)", "",
    )  # fmt: skip
    for place, row in enumerate(rows):
        if row.in_confidence_set:
            axes.axhspan(place - 0.5, place + 0.5, color=BETTER, alpha=0.1, linewidth=0)
    for place, (row, method) in enumerate(zip(rows, methods, strict=True)):
        color = style_of(row.method).color if method.ours else INK
        if row.low is not None and row.high is not None:
            axes.hlines(place, row.low, row.high, color=color, linewidth=1.2)
        axes.plot(row.mean or 0.0, place, marker="o", markersize=4 if method.ours else 3, color=color)
    axes.set_yticks(range(len(rows)), [plain(shorten(method.title, 24)) for method in methods], fontsize=6.5)
    mark_ours(axes.get_yticklabels(), methods)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    return figure


def _placed(numbers: GroupNumbers) -> list[LeaderboardRow]:
    return [row for row in numbers.leaderboard if row.metric == OVERALL and row.mean is not None]


def _mean_ranks_data(numbers: GroupNumbers) -> Json:
    """Return each method's mean rank with its interval, its rank on each metric and cost, and the readers' weights."""
    rows = _placed(numbers)
    names = [row.method for row in rows]
    ranks: dict[str, dict[str, float]] = {}
    for row in numbers.leaderboard:
        if row.metric != OVERALL and row.rank is not None:
            ranks.setdefault(metric_key(row.metric, row.set), {})[row.method] = row.rank
    ranked = list(ranks)
    measured = {method.name: method for method in numbers.methods if method.name in names}
    for cost in COST_RANKS:
        if names and all(measured[name].has(cost) for name in names):
            places = rank_values([measured[name].mean(cost) for name in names], higher_is_better=False)
            ranks[cost] = dict(zip(names, places.tolist(), strict=True))
    return {
        "methods": {
            row.method: {"mean": row.mean, "low": row.low, "high": row.high, "best": bool(row.in_confidence_set)}
            for row in rows
        },
        "tested": any(row.in_confidence_set is not None for row in rows),
        "ranks": ranks,
        "labels": {key: full_name(key) for key in ranks},
        "cares": [
            {
                "key": key,
                "label": label,
                "weights": {
                    name: WEIGHT if split_key(name)[0] in heavy else 1
                    for name in ranks
                    if name in ranked or split_key(name)[0] in heavy
                },
            }
            for key, label, heavy in CARES
            if not heavy or any(split_key(name)[0] in heavy for name in ranks)
        ],
    }


MEAN_RANKS = Chart(
    name="mean_ranks",
    title="Mean rank of every method",
    caption="Line: 95 % interval over seeds and test samples. Shaded: in the confidence set of the best on every "
    "ranked metric, that is, significantly worse than no method.",
    kind="forest",
    available=lambda numbers: len(_placed(numbers)) > 1,
    data=_mean_ranks_data,
    prints=(PrintVersion("mean_ranks", mean_ranks),),
    wide=True,
)
