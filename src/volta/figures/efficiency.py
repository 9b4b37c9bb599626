"""What calibration costs: latency against ECE, model size as the bubble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import FAINT, add_axes, add_legend, house_style, method_handle, new_figure, shorten
from volta.figures.chart import Chart, PrintVersion
from volta.figures.data import Context, MethodValues, with_metrics
from volta.figures.labels import label_points
from volta.figures.points import points_json
from volta.figures.scales import pareto_front, spans_decades
from volta.figures.style import style_of
from volta.figures.ticks import fit_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_ALL = 12


@house_style()
def efficiency(context: Context, methods: Sequence[MethodValues]) -> Figure:
    """Draw latency per sample against ECE; a bubble's area is proportional to the model's size in MB."""
    shown = with_metrics(methods, "latency_ms", "ece", "size_mb")
    note = (
        "bubble area: parameters × 4 bytes; latency: median of 5 batches of 256 rows; line: none is faster and better"
    )
    figure = new_figure("Cost of calibration", context, (7.4, 4.5), note)
    (axes,) = add_axes(figure)
    x, y = [m.mean("latency_ms") for m in shown], [m.mean("ece") for m in shown]
    largest = max((m.mean("size_mb") for m in shown), default=0) or 1.0
    for method, at_x, at_y in sorted(zip(shown, x, y, strict=True), key=lambda item: -item[0].mean("size_mb")):
        style = style_of(method.name)
        axes.scatter(
            at_x,
            at_y,
            s=18 + 420 * method.mean("size_mb") / largest,
            color=style.color,
            marker="o",
            alpha=0.55,
            edgecolor=style.color,
            linewidth=1.0,
            zorder=3,
        )
        axes.plot(
            at_x,
            at_y,
            marker=style.marker,
            color=style.color,
            markersize=3.5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=4,
        )
    if shown:
        fit_axis(axes, "x", x, log=spans_decades(x, 5), floor=0.0)
        fit_axis(axes, "y", y, log=spans_decades(y), floor=0.0)
        front = sorted(pareto_front([-value for value in x], y), key=lambda i: x[i])
        axes.plot([x[i] for i in front], [y[i] for i in front], color=FAINT, linewidth=0.8, zorder=1)
        axes.text(
            0.995,
            0.985,
            f"largest bubble: {largest:.3g} MB",
            transform=axes.transAxes,
            fontsize=7,
            ha="right",
            va="top",
            color=FAINT,
        )
        named = [i for i in range(len(shown)) if len(shown) <= LABEL_ALL or i in front or shown[i].ours]
        points = [(x[i], y[i], shorten(shown[i].title, 24), shown[i].ours) for i in named]
    axes.set_xlabel("latency ↓, ms per sample")
    axes.set_ylabel("ECE ↓ (15 bins)")
    axes.grid(True)
    labelled = [method_handle(m.name, f"{shorten(m.title, 26)}  {m.mean('size_mb'):.3g} MB", line=False) for m in shown]
    add_legend(figure, labelled)
    if shown:
        label_points(axes, points)
    return figure


EFFICIENCY = Chart(
    name="efficiency",
    title="Cost of calibration",
    caption="Latency against ECE; bubble area: model size.",
    kind="points",
    available=lambda numbers: numbers.has("latency_ms", "ece", "size_mb"),
    data=lambda numbers: points_json(numbers, "latency_ms", "ece", "Latency against ECE", "size_mb"),
    prints=(PrintVersion("efficiency", lambda numbers: efficiency(numbers.context, numbers.compared_methods)),),
    needs="records",
)
