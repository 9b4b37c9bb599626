"""Training curves: the validation loss after each epoch, and the epoch that was best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.canvas import add_axes, add_legend, house_style, method_handle, new_figure, shorten
from volta.figures.chart import Chart, Choice, Json, PrintVersion
from volta.figures.data import Context, GroupNumbers, TrainingCurve
from volta.figures.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("epoch", "validation loss ↓, before any temperature")


@house_style()
def training_curves(context: Context, curves: Sequence[tuple[str, TrainingCurve]]) -> Figure:
    """Draw each (title, training) as a line on a log scale, a mark at its best epoch."""
    note = f"seed {curves[0][1].seed}; marks: the best epoch" if curves else ""
    figure = new_figure("Training", context, (7.4, 4.4), note)
    (axes,) = add_axes(figure)
    for _, curve in curves:
        style = style_of(curve.method)
        epochs = range(1, len(curve.losses) + 1)
        axes.plot(epochs, curve.losses, color=style.color, linestyle=style.line, linewidth=1.2)
        axes.plot(curve.best, curve.losses[curve.best - 1], color=style.color, marker=style.marker, markersize=6)
    if all(loss > 0 for _, curve in curves for loss in curve.losses):
        axes.set_yscale("log")
    axes.set_xlabel(LABELS[0])
    axes.set_ylabel(LABELS[1])
    axes.grid(True)
    titles = {curve.method: title for title, curve in curves}
    add_legend(figure, [method_handle(name, shorten(title, 26), line=True) for name, title in titles.items()])
    return figure


def _seeds(numbers: GroupNumbers) -> list[int]:
    return sorted({curve.seed for curve in numbers.trainings if curve.method in numbers.compared})


def _data(numbers: GroupNumbers) -> Json:
    by_seed: dict[str, dict[str, list[Json]]] = {}
    for curve in numbers.trainings:
        line = {"losses": curve.losses, "best": curve.best, "kept": curve.kept}
        by_seed.setdefault(str(curve.seed), {}).setdefault(curve.method, []).append(line)
    positive = all(loss > 0 for curve in numbers.trainings for loss in curve.losses)
    return {"labels": LABELS, "log": positive, "seeds": by_seed}


def _print(numbers: GroupNumbers) -> Figure:
    titles, seed = numbers.network_titles, _seeds(numbers)[0]
    found = [curve for curve in numbers.trainings if curve.method in titles and curve.seed == seed]
    return training_curves(numbers.context, [(titles[curve.method], curve) for curve in found])


TRAINING_CURVES = Chart(
    name="training_curves",
    title="Training",
    caption="Validation loss after each epoch, before any temperature; the mark is the best epoch.",
    kind="training",
    available=lambda numbers: bool(_seeds(numbers)),
    data=_data,
    prints=(PrintVersion("training_curves", _print),),
    choices=lambda numbers: (Choice("seed", "seed", tuple((str(seed), str(seed)) for seed in _seeds(numbers))),),
    shared=True,
    needs="records",
)
