"""What each part of the full model adds or costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT, INK, add_axes, new_figure, plain, shorten
from volta.figures.data import Context, MethodValues
from volta.figures.names import metric_label, metric_of
from volta.figures.style import PALETTE
from volta.figures.ticks import fit_differences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BETTER, WORSE = PALETTE[1][0], PALETTE[4][0]


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
        "lines: one standard deviation; *: Welch p < 0.05; "
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
    for place, row in enumerate(rows):
        if not row.has(metric):
            axes.text(0, place, " –", va="center", fontsize=7, color=FAINT)
            continue
        change, std = row.mean(metric) - reference.mean(metric), row.std(metric)
        better = sign * change >= 0
        axes.barh(
            place,
            change,
            height=0.66,
            color=BETTER if better else WORSE,
            alpha=0.85,
            hatch=None if better else "////",
            edgecolor="white",
            linewidth=0,
        )
        axes.plot([change - std, change + std], [place, place], color=INK, linewidth=0.8)
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
    fit_differences(axes, ends)
