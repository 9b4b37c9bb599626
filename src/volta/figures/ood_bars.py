"""How well each method tells OOD rows from its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.bars import bars_json, draw_bars, metric_choice
from volta.figures.canvas import FAINT, add_axes, house_style, new_figure, plain, shorten
from volta.figures.chart import Chart, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues
from volta.figures.names import set_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANCE = 0.5
PAGE_METRICS = ("auroc", "fpr95", "aupr_out")


@house_style()
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
    needs="records",
)
