"""Risk-coverage curves: the error that remains when only the most certain rows are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from volta.figures.canvas import add_axes, add_legend, house_style, method_handle, new_figure, plain, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodCurve
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ZOOM = 0.5
"""Where the coverage axis begins when it is zoomed."""


@house_style()
def risk_coverage(context: Context, methods: Sequence[MethodCurve]) -> Figure:
    """Draw risk against coverage per method, mean over seeds; the range over seeds is shaded for VOLTA.

    Methods stand in the legend in order of AURC, the lowest first. The axes begin at half of the rows: below it the
    first few rows make any curve jump, and the rest lies flat.
    """
    shown = sorted(methods, key=lambda m: m.area)
    note = "mean over seeds, methods in order of AURC; shade: lowest and highest seed (VOLTA)"
    figure = new_figure("Risk against coverage", context, (7.4, 4.4), note)
    (axes,) = add_axes(figure)
    top = 0.0
    for method in shown:
        style, ours = style_of(method.name), method.ours
        axes.plot(
            method.x,
            method.mean,
            color=style.color,
            linestyle=style.line,
            linewidth=2.4 if ours else 1.1,
            alpha=1 if ours else 0.85,
            zorder=4 if ours else 2,
            label=plain(method.title),
        )
        if ours:
            axes.fill_between(method.x, method.low, method.high, color=style.color, alpha=0.15, linewidth=0)
        settled = method.mean[method.x >= ZOOM]
        top = max(top, float(np.max(settled, initial=0.0)))
    axes.set_xlim(ZOOM, 1)
    axes.set_ylim(0, 1.06 * top if top > 0 else 0.01)
    axes.set_xlabel("coverage: share of rows kept, most certain first")
    axes.set_ylabel("risk: share of errors among them ↓")
    axes.grid(True)
    handles = [method_handle(m.name, f"{shorten(m.title, 26)}  {_area(m.area)}", line=True, ours=m.ours) for m in shown]
    add_legend(figure, handles, title="AURC ↓")
    return figure


def _area(value: float) -> str:
    # On easy tasks four decimals would give every method the same one.
    return f"{value:.4f}" if value >= 0.001 else f"{value:.2g}"


def _data(numbers: GroupNumbers) -> Json:
    views = {"risk": numbers.curves, "excess": numbers.excess}
    return {
        "x": next(iter(numbers.curves.values())).x,
        "zoom": ZOOM,
        "labels": {"risk": "risk ↓", "excess": "risk above perfect ↓"},
        "views": {
            view: {
                name: {"mean": curve.mean, "low": curve.low, "high": curve.high, "area": curve.area}
                for name, curve in curves.items()
            }
            for view, curves in views.items()
            if curves
        },
    }


def _choices(numbers: GroupNumbers) -> tuple[Choice, ...]:
    views = (("risk", "risk"), *((("excess", "risk above a perfect order"),) if numbers.excess else ()))
    return Choice("view", "show", views), Choice("axis", "axis", (("zoom", "from half of the rows"), ("all", "whole")))


RISK_COVERAGE = Chart(
    name="risk_coverage",
    title="Risk against coverage",
    caption="The error that remains when only the most certain rows are kept; mean over seeds. A perfect order keeps "
    "every right row before any wrong one.",
    kind="risk",
    available=lambda numbers: any(name in numbers.curves for name in numbers.compared),
    data=_data,
    prints=(
        PrintVersion(
            "risk_coverage",
            lambda numbers: risk_coverage(
                numbers.context, [curve for name, curve in numbers.curves.items() if name in numbers.compared]
            ),
        ),
    ),
    choices=_choices,
    needs="predictions",
)
