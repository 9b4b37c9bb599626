"""Near against far OOD: who detects both kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.bench.eval_set import FAR, NEAR
from volta.figures.canvas import add_axes, add_legend, house_style, method_handle, new_figure, shorten
from volta.figures.chart import Chart, PrintVersion
from volta.figures.data import Context, MethodValues, with_metrics
from volta.figures.names import metric_key, metric_label
from volta.figures.points import points_json
from volta.figures.style import style_of
from volta.figures.ticks import fit_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

X, Y = (metric_key("auroc", str(one)) for one in (NEAR, FAR))


@house_style()
def near_far_ood(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw each method at (mean AUROC over near, over far OOD sets) with bars of one standard deviation over seeds."""
    shown = sorted(with_metrics(methods, X, Y), key=lambda m: -m.mean(X))
    note = "means over the OOD sets of each kind; bars: one standard deviation over seeds; in order of near OOD"
    figure = new_figure("Near and far OOD", context, (7.2, 4.6), note)
    (axes,) = add_axes(figure)
    for method in shown:
        style, ours = style_of(method.name), method.ours
        axes.errorbar(
            method.mean(X), method.mean(Y), xerr=method.std(X), yerr=method.std(Y), color=style.color,
            marker=style.marker, markersize=9 if ours else 6, markeredgecolor="white", markeredgewidth=0.6,
            elinewidth=0.8, zorder=4 if ours else 3,
        )  # fmt: skip
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
    needs="records",
)
