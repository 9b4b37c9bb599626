"""What the ROC and the precision-recall chart share: one line a method on one OOD set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import add_axes, add_legend, house_style, method_handle, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodCurve
from volta.figures.names import metric_name, set_name
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CurvesBySet = Mapping[str, Mapping[str, MethodCurve]]


@house_style()
def draw_lines(
    title: str, context: Context, curves: Sequence[MethodCurve], where: str, labels: tuple[str, str], area: str
) -> tuple[Figure, Axes]:
    """Draw one line per method from 0 to 1, the largest area first in the legend; the range over seeds for VOLTA."""
    shown = sorted(curves, key=lambda curve: -curve.area)
    note = f"{set_name(where)}; mean over seeds, in order of {area}; shade: lowest and highest seed (VOLTA)"
    figure = new_figure(title, context, (7.4, 4.6), note)
    (axes,) = add_axes(figure)
    for curve in shown:
        style, ours = style_of(curve.name), curve.ours
        axes.plot(
            curve.x, curve.mean, color=style.color, linestyle=style.line, linewidth=2.4 if ours else 1.1,
            alpha=1 if ours else 0.85, zorder=4 if ours else 2, label=plain(curve.title),
        )  # fmt: skip
        if ours:
            axes.fill_between(curve.x, curve.low, curve.high, color=style.color, alpha=0.15, linewidth=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(True)
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
    """Return the chart of such lines; ``metric`` is the area beneath them, ``diagonal`` draws chance on the page."""

    def print_first(numbers: GroupNumbers) -> Figure:
        where, curves = first_set(numbers, curves_of(numbers))
        return draw(numbers.context, curves, where)

    return Chart(
        name=name,
        title=title,
        caption=caption,
        kind="ood_lines",
        available=lambda numbers: has_lines(numbers, curves_of(numbers)),
        data=lambda numbers: lines_json(numbers, curves_of(numbers), labels, metric_name(metric), diagonal),
        prints=(PrintVersion(name, print_first),),
        choices=lambda numbers: (set_choice(numbers, curves_of(numbers)),),
        needs="predictions",
    )


def first_set(numbers: GroupNumbers, curves: CurvesBySet) -> tuple[str, list[MethodCurve]]:
    """Return the first OOD set with curves, the near ones first, and the curves of the compared methods on it."""
    where = next(name for name in _sets(numbers, curves))
    return where, [curve for name, curve in curves[where].items() if name in numbers.compared]


def has_lines(numbers: GroupNumbers, curves: CurvesBySet) -> bool:
    """Whether some compared method has a curve."""
    return bool(_sets(numbers, curves))


def lines_json(
    numbers: GroupNumbers, curves: CurvesBySet, labels: tuple[str, str], area: str, diagonal: bool = False
) -> Json:
    """Return what the page draws: the grid, and by set and method the line and its area."""
    sets = _sets(numbers, curves)
    return {
        "x": next(iter(curves[sets[0]].values())).x,
        "labels": labels,
        "area": area,
        "diagonal": diagonal,
        "sets": {
            where: {name: {"mean": curve.mean, "area": curve.area} for name, curve in curves[where].items()}
            for where in sets
        },
    }


def set_choice(numbers: GroupNumbers, curves: CurvesBySet) -> Choice:
    """Return the choice between OOD sets, the near ones first."""
    return Choice("ood", "set", tuple((name, set_name(name)) for name in _sets(numbers, curves)))


def _sets(numbers: GroupNumbers, curves: CurvesBySet) -> list[str]:
    return [name for name in numbers.ood_sets if any(method in numbers.compared for method in curves.get(name, {}))]
