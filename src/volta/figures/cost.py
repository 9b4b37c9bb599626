"""Charts of cost and training: latency against ECE, training curves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from volta.figures.chart_data import (
    Chart,
    Choice,
    GroupNumbers,
    Json,
    MethodValues,
    PrintVersion,
    with_metrics,
)
from volta.figures.draw import (
    MUTED,
    base_style,
    draw_front,
    fit_axis,
    leading,
    name_methods,
    plot_axes,
    points_json,
)
from volta.figures.style import pareto_front, spans_decades, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from volta.networks.recipe import TrainingLog


COST_METRICS = ("latency_ms", "ece", "size_mb")


@base_style()
def efficiency(numbers: GroupNumbers) -> Figure:
    """Draw latency per sample against ECE; a bubble's area is proportional to the model's size in MB."""
    shown = with_metrics(numbers.compared_methods, *COST_METRICS)
    largest = max((m.mean("size_mb") for m in shown), default=0.0) or 1.0
    note = (
        f"bubble area: parameters × 4 bytes, the largest {largest:.3g} MB; latency: median of 5 batches of 256 "
        "samples; line: none is faster and better"
    )
    labels = "latency ↓, µs per sample", "ECE ↓ (15 bins)"
    figure, axes = plot_axes("Cost of calibration", numbers.context, ("column", 3.1), note, *labels)
    named = leading(sorted(shown, key=lambda m: m.mean("ece")))
    x, y, sizes = ([m.mean(metric) for m in shown] for metric in COST_METRICS)
    for at in sorted(range(len(shown)), key=lambda at: -sizes[at]):
        style = style_of(shown[at].name)
        look: dict[str, Any] = {
            "color": style.color if shown[at] in named else MUTED,
            "alpha": 0.5,
            "edgecolor": style.color if shown[at] in named else MUTED,
            "linewidth": 0.7,
            "zorder": 3,
        }
        axes.scatter(x[at], y[at], s=8 + 130 * sizes[at] / largest, marker="o", **look)
        white: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4}
        if shown[at] in named:
            axes.plot(x[at], y[at], marker=style.marker, color=style.color, markersize=3, zorder=4, **white)
    name_methods(figure, named, line=False, n_others=len(shown) - len(named))
    if shown:
        fit_axis(axes, "x", x, log=spans_decades(x, 3), floor=0.0)
        fit_axis(axes, "y", y, log=spans_decades(y, 3), floor=0.0)
        draw_front(axes, x, y, pareto_front([-value for value in x], y))
    return figure


EFFICIENCY = Chart(
    name="efficiency",
    title="Cost of calibration",
    caption="Latency against ECE; bubble area: model size.",
    kind="points",
    available=lambda numbers: numbers.has(*COST_METRICS),
    data=lambda numbers: points_json(numbers, "latency_ms", "ece", "Latency against ECE", "size_mb"),
    prints=(PrintVersion("efficiency", efficiency),),
)


LABELS = ("epoch", "validation loss ↓, before any temperature")


@base_style()
def training_curves(numbers: GroupNumbers) -> Figure:
    """Draw each training of the first seed as a line on a log scale, a mark at its best epoch."""
    titles, seed = numbers.network_titles, _seeds(numbers)[0]
    own = {name: logs for (name, of), logs in numbers.trainings.items() if name in titles and of == seed}
    found = [(name, log) for name, logs in own.items() for log in logs]
    note = f"seed {seed}; marks: the best epoch"
    figure, axes = plot_axes("Training", numbers.context, ("column", 2.9), note, LABELS[0], "validation loss ↓")
    compared = sorted(
        (MethodValues(m.name, titles[m.name], {}, m.ours) for m in numbers.compared_methods if m.name in own),
        key=lambda m: min(min(log.val_losses) for log in own[m.name]),
    )
    named = leading(compared)
    in_colour = {method.name for method in named}
    for name, log in found:
        style, losses, best = style_of(name), log.val_losses, log.best_epoch
        look: dict[str, Any] = {"color": style.color, "linestyle": style.line, "linewidth": 1.1, "zorder": 3}
        if name not in in_colour:
            look = {"color": MUTED, "linewidth": 0.6}
        axes.plot(range(1, len(losses) + 1), losses, **look)
        axes.plot(best, losses[best - 1], color=look["color"], marker=style.marker, markersize=3.5)
    axes.locator_params(axis="x", integer=True)
    if found and _is_positive(log for _, log in found):
        fit_axis(axes, "y", [loss for _, log in found for loss in log.val_losses], log=True)
    name_methods(figure, named, line=True, n_others=len(compared) - len(named))
    return figure


def _is_positive(trainings: Iterable[TrainingLog]) -> bool:
    return all(loss > 0 for log in trainings for loss in log.val_losses)


def _seeds(numbers: GroupNumbers) -> list[int]:
    return sorted({seed for method, seed in numbers.trainings if method in numbers.compared})


def _data(numbers: GroupNumbers) -> Json:
    by_seed: dict[str, dict[str, list[Json]]] = {}
    for (method, seed), logs in numbers.trainings.items():
        by_seed.setdefault(str(seed), {})[method] = [
            {"losses": log.val_losses, "best": log.best_epoch, "kept": log.kept_epoch} for log in logs
        ]
    positive = _is_positive(log for logs in numbers.trainings.values() for log in logs)
    return {"labels": LABELS, "log": positive, "seeds": by_seed}


TRAINING_CURVES = Chart(
    name="training_curves",
    title="Training",
    caption="Validation loss after each epoch, before any temperature; the mark is the best epoch.",
    kind="training",
    available=lambda numbers: bool(_seeds(numbers)),
    data=_data,
    prints=(PrintVersion("training_curves", training_curves),),
    choices=lambda numbers: (Choice("seed", "seed", tuple((str(seed), str(seed)) for seed in _seeds(numbers))),),
    shared=True,
)
