"""What each part of the full model adds or costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.bars import metric_choice
from volta.figures.canvas import FAINT, INK, add_axes, house_style, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, Difference, GroupNumbers, MethodValues
from volta.figures.names import metric_label, metric_of
from volta.figures.rectangles import draw_rectangles
from volta.figures.scales import dwarfed_reach
from volta.figures.style import PALETTE
from volta.figures.ticks import fit_differences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS_SHOWN = ("accuracy", "ece", "nll", "brier")
NO_DIFFERENCE = 1e-9
BETTER, WORSE = PALETTE[1][0], PALETTE[4][0]


@house_style()
def ablation_bars(
    context: Context,
    reference: MethodValues,
    rows: Sequence[MethodValues],
    metrics: Sequence[str],
    significant: Collection[tuple[str, str]] = (),
) -> Figure:
    """Draw each row's mean minus the reference's, per metric; blue is better, ochre worse, * a significant change.

    ``significant`` holds (row name, metric) pairs; lines are one standard deviation of the row over seeds.
    """
    height = 1.45 + 0.23 * max(3, len(rows))
    note = (
        f"difference from {reference.title}; blue, solid: better; ochre, hatched: worse; "
        "lines: one standard deviation; *: paired p < 0.05, uncorrected; "
        "an axis with an outlier is logarithmic beyond its first tick"
    )
    figure = new_figure("Ablation", context, (2.9 + 1.7 * len(metrics), height), note)
    all_axes = add_axes(figure, 1, len(metrics), sharey=True)
    for axes, metric in zip(all_axes, metrics, strict=True):
        if reference.has(metric):
            _draw(axes, reference, rows, metric, significant)
        axes.set_title(plain(metric_label(metric).replace(" (", "\n(")), loc="left", fontsize=9)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.grid(True, axis="x")
        axes.tick_params(axis="x", labelsize=7)
    all_axes[0].set_yticks(range(len(rows)), [plain(shorten(m.title, 36)) for m in rows])
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
        if (row.name, metric) in significant:
            outward = 1 if change >= 0 else -1
            axes.annotate(
                "*",
                (change + outward * std, place),
                xytext=(outward * 4, -2.5),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=10,
                fontweight="bold",
            )
    for better, found in bars.items():
        if found:
            places, changes = np.array(found, dtype=np.float64).T
            draw_rectangles(
                axes, 0, changes, places - 0.33, places + 0.33, facecolors=BETTER if better else WORSE, alpha=0.85,
                hatch=None if better else "////", edgecolors="white", linewidths=0,
            )  # fmt: skip
    fit_differences(axes, ends)


def _references(numbers: GroupNumbers) -> list[str]:
    return list(dict.fromkeys(item.reference for item in numbers.differences))


def _print(numbers: GroupNumbers) -> Figure:
    by_name = {method.name: method for method in numbers.methods}
    reference = _references(numbers)[0]
    own = [item for item in numbers.differences if item.reference == reference]
    metrics = [*METRICS_SHOWN, *(f"auroc@{name}" for name in numbers.ood_sets[:1])]
    significant = {(item.row, item.metric) for item in own if item.significant}
    rows = [by_name[name] for name in dict.fromkeys(item.row for item in own)]
    return ablation_bars(numbers.context, by_name[reference], rows, metrics, significant)


def _data(numbers: GroupNumbers) -> Json:
    """Return the differences by metric and reference; ``bend`` is where a compressed axis stops being linear."""
    tables: dict[str, dict[str, object]] = {}
    for item in numbers.differences:
        if item.reference in tables.get(item.metric, {}):
            continue
        own = [d for d in numbers.differences if (d.metric, d.reference) == (item.metric, item.reference)]
        reaches = [length for d in own if (length := abs(d.difference) + d.std) > 0]
        axis = f"{metric_label(item.metric)}: difference from {numbers.title(item.reference)}"
        tables.setdefault(item.metric, {})[item.reference] = {
            "axis": axis,
            "bend": dwarfed_reach(reaches),
            "rows": [_row_json(numbers, d) for d in own],
        }
    return {"tables": tables}


def _row_json(numbers: GroupNumbers, item: Difference) -> Json:
    better = item.difference <= 0 if metric_of(item.metric).higher_is_better is False else item.difference >= 0
    return {
        "row": item.row,
        "difference": item.difference,
        "std": item.std,
        "p": item.p,
        "significant": item.significant,
        "better": better,
        "same": abs(item.difference) < NO_DIFFERENCE,
    }


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    references = tuple((name, numbers.title(name)) for name in _references(numbers))
    metrics = list(dict.fromkeys(item.metric for item in numbers.differences))
    return (metric_choice(metrics), Choice("reference", "against", references))


ABLATION_BARS = Chart(
    name="ablation_bars",
    title="Ablation",
    caption="Difference from the reference; blue: better, ochre: worse. * paired p < 0.05, uncorrected; "
    "the others may be chance.",
    kind="differences",
    available=lambda numbers: bool(numbers.differences),
    data=_data,
    prints=(PrintVersion("ablation_bars", _print),),
    choices=_choices,
)
