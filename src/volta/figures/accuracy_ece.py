"""Accuracy against calibration error: who is accurate, who is honest about it, who is both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.accuracy_ece_density import accuracy_ece_density, density_json
from volta.figures.canvas import FAINT, add_axes, add_legend, house_style, method_handle, new_figure, shorten
from volta.figures.chart import Chart, Json, PrintVersion, Switch
from volta.figures.data import Context, GroupNumbers, MethodValues, with_metrics
from volta.figures.labels import label_points
from volta.figures.points import points_json
from volta.figures.scales import pareto_front, spans_decades
from volta.figures.style import style_of
from volta.figures.ticks import fit_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_ALL = 12
"""Up to this many methods every point carries its name; beyond it, VOLTA and the Pareto front do."""


@house_style()
def accuracy_ece(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw each method at (mean accuracy, mean ECE) with bars of one standard deviation over seeds.

    The line joins the methods that no other beats on both; ECE is on a log scale where it spans a decade.
    """
    shown = with_metrics(methods, "accuracy", "ece")
    note = "bars: one standard deviation over seeds; line: methods that none beats on both"
    figure = new_figure("Accuracy against calibration error", context, (7.2, 4.6), note)
    (axes,) = add_axes(figure)
    x, y = [m.mean("accuracy") for m in shown], [m.mean("ece") for m in shown]
    front = sorted(pareto_front(x, y), key=lambda i: x[i])
    for method, at_x, at_y in zip(shown, x, y, strict=True):
        style, ours = style_of(method.name), method.ours
        axes.errorbar(
            at_x,
            at_y,
            xerr=method.std("accuracy"),
            yerr=min(method.std("ece"), 0.9 * at_y),
            color=style.color,
            marker=style.marker,
            markersize=9 if ours else 6,
            markeredgecolor="white",
            markeredgewidth=0.6,
            elinewidth=0.8,
            linestyle="",
            zorder=4 if ours else 3,
            label=method.title,
        )
    if x:
        axes.plot([x[i] for i in front], [y[i] for i in front], color=FAINT, linewidth=0.8, zorder=1)
        reach_x = [v for m, at in zip(shown, x, strict=True) for v in (at - m.std("accuracy"), at + m.std("accuracy"))]
        fit_axis(axes, "x", reach_x)
        reach_y = [v for m, at in zip(shown, y, strict=True) for v in (at, at + m.std("ece"))]
        fit_axis(axes, "y", reach_y, log=spans_decades(y, 5), floor=0.0)
    axes.set_xlabel("accuracy ↑")
    axes.set_ylabel("ECE ↓ (15 bins)")
    axes.grid(True)
    add_legend(figure, [method_handle(m.name, shorten(m.title), line=False) for m in shown])
    named = [i for i in range(len(shown)) if len(shown) <= LABEL_ALL or i in front or shown[i].ours]
    label_points(axes, [(x[i], y[i], shorten(shown[i].title, 24), shown[i].ours) for i in named])
    return figure


def _data(numbers: GroupNumbers) -> Json:
    return {
        **points_json(numbers, "accuracy", "ece", "Accuracy against ECE"),
        "density": density_json(numbers),
    }


ACCURACY_ECE = Chart(
    name="accuracy_ece",
    title="Accuracy against calibration error",
    caption="Down and to the right is better. Bars: one standard deviation; line: methods that none beats on both.",
    kind="points",
    available=lambda numbers: numbers.has("accuracy", "ece"),
    data=_data,
    prints=(
        PrintVersion("accuracy_ece", lambda numbers: accuracy_ece(numbers.context, numbers.compared_networks)),
        PrintVersion(
            "accuracy_ece_density",
            lambda numbers: accuracy_ece_density(numbers.context, numbers.compared_methods),
            "density",
        ),
    ),
    switches=(Switch("density", "density of the other methods’ seeds"),),
    shared=True,
    needs="records",
)
