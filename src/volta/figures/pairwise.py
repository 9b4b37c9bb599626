"""All pairs of methods: who is shown to be better than whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.bars import metric_choice
from volta.figures.canvas import INK, RULE, add_axes, house_style, mark_ours, new_figure, plain, shorten
from volta.figures.chart import Chart, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, MethodValues, PairDifference
from volta.figures.heatmap import draw_cell_edges, write_inside
from volta.figures.names import is_shared, metric_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TURNED = {"better": "worse", "worse": "better"}
COLORS = {"better": "#8fcfb4", "worse": "#efc489", "equivalent": "#b9d0ef"}
SIGNS = {"better": "+", "worse": "−", "equivalent": "≈"}


@house_style()
def pairwise(context: Context, methods: Sequence[MethodValues], pairs: Sequence[PairDifference], metric: str) -> Figure:
    """Draw what the tests say of the row against the column: better, worse, no difference that matters, or nothing."""
    size = 1.9 + 0.3 * len(methods)
    note = "the row against the column, after Holm’s correction; + better, − worse, ≈ no difference that matters"
    figure = new_figure(f"All pairs: {metric_label(metric)}", context, (size + 1.4, size), note)
    (axes,) = add_axes(figure)
    place = {method.name: at for at, method in enumerate(methods)}
    for pair in both_ways(pairs):
        if pair.metric == metric and pair.first in place and pair.second in place and pair.verdict in COLORS:
            x, y = place[pair.second], place[pair.first]
            axes.fill_between([x - 0.5, x + 0.5], y - 0.5, y + 0.5, color=COLORS[pair.verdict], linewidth=0)
            write_inside(axes, x, y, SIGNS[pair.verdict], fontsize=7.5, color=INK)
    titles = [plain(shorten(method.title, 24)) for method in methods]
    axes.set_xticks(range(len(methods)), titles, rotation=45, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(methods)), titles)
    mark_ours(axes.get_yticklabels(), methods)
    axes.set_xlim(-0.5, len(methods) - 0.5)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    draw_cell_edges(axes, (len(methods), len(methods)), color=RULE, linewidth=0.5)
    axes.tick_params(length=0)
    return figure


def both_ways(pairs: Sequence[PairDifference]) -> list[PairDifference]:
    """Return each pair as it is and turned round."""
    turned = [
        PairDifference(one.second, one.first, one.metric, -one.difference, TURNED.get(one.verdict, one.verdict), one.p)
        for one in pairs
    ]
    return [*pairs, *turned]


def _metrics(numbers: GroupNumbers) -> list[str]:
    return list(dict.fromkeys(pair.metric for pair in numbers.pairs))


def _data(numbers: GroupNumbers) -> Json:
    tables: dict[str, dict[str, dict[str, Json]]] = {}
    for pair in both_ways(numbers.pairs):
        row = tables.setdefault(pair.metric, {}).setdefault(pair.first, {})
        row[pair.second] = {"difference": pair.difference, "verdict": pair.verdict, "p": pair.p}
    shared = [key for key in tables if is_shared(key)]
    return {"signs": SIGNS, "shared": shared, "labels": {key: metric_label(key) for key in tables}, "metrics": tables}


def _print(numbers: GroupNumbers) -> Figure:
    rows = {
        metric: numbers.compared_networks if is_shared(metric) else numbers.compared_methods
        for metric in _metrics(numbers)
    }
    # Where all methods share one network, a metric of the network compares nothing.
    metric = next((metric for metric, methods in rows.items() if len(methods) > 1), next(iter(rows)))
    return pairwise(numbers.context, rows[metric], numbers.pairs, metric)


PAIRWISE = Chart(
    name="pairwise",
    title="All pairs",
    caption="What the tests say of the row against the column after Holm’s correction over all pairs of the metric: "
    "+ better, − worse, ≈ no difference that matters; empty cells cannot be told apart.",
    kind="pairs",
    available=lambda numbers: bool(numbers.pairs),
    data=_data,
    prints=(PrintVersion("pairwise", _print),),
    choices=lambda numbers: (metric_choice(_metrics(numbers)),),
    wide=True,
)
