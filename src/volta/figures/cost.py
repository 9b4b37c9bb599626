"""Charts of cost and training: latency against ECE, training curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from volta.figures.chart_data import (
    Chart,
    Choice,
    Context,
    GroupNumbers,
    Json,
    MethodValues,
    PrintVersion,
    with_metrics,
)
from volta.figures.draw import (
    FAINT,
    add_axes,
    add_legend,
    base_style,
    fit_axis,
    label_methods,
    method_handle,
    new_figure,
    points_json,
    shorten,
)
from volta.figures.style import pareto_front, spans_decades, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from volta.networks.recipe import TrainingLog


@base_style()
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
    axes.set_xlabel("latency ↓, ms per sample")
    axes.set_ylabel("ECE ↓ (15 bins)")
    axes.grid(True)
    labelled = [method_handle(m.name, f"{shorten(m.title, 26)}  {m.mean('size_mb'):.3g} MB", line=False) for m in shown]
    add_legend(figure, labelled)
    if shown:
        label_methods(axes, shown, x, y, front)
    return figure


EFFICIENCY = Chart(
    name="efficiency",
    title="Cost of calibration",
    caption="Latency against ECE; bubble area: model size.",
    kind="points",
    available=lambda numbers: numbers.has("latency_ms", "ece", "size_mb"),
    data=lambda numbers: points_json(numbers, "latency_ms", "ece", "Latency against ECE", "size_mb"),
    prints=(PrintVersion("efficiency", lambda numbers: efficiency(numbers.context, numbers.compared_methods)),),
)


LABELS = ("epoch", "validation loss ↓, before any temperature")


@base_style()
def training_curves(context: Context, trainings: Sequence[tuple[str, str, TrainingLog]], seed: int) -> Figure:
    """Draw each (method, title, training) as a line on a log scale, a mark at its best epoch."""
    note = f"seed {seed}; marks: the best epoch"
    figure = new_figure("Training", context, (7.4, 4.4), note)
    (axes,) = add_axes(figure)
    for method, _, log in trainings:
        style, losses, best = style_of(method), log.val_losses, log.best_epoch
        axes.plot(range(1, len(losses) + 1), losses, color=style.color, linestyle=style.line, linewidth=1.2)
        axes.plot(best, losses[best - 1], color=style.color, marker=style.marker, markersize=6)
    if _is_positive([log for _, _, log in trainings]):
        axes.set_yscale("log")
    axes.set_xlabel(LABELS[0])
    axes.set_ylabel(LABELS[1])
    axes.grid(True)
    titles = {method: title for method, title, _ in trainings}
    add_legend(figure, [method_handle(name, shorten(title, 26), line=True) for name, title in titles.items()])
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


def _print(numbers: GroupNumbers) -> Figure:
    titles, seed = numbers.network_titles, _seeds(numbers)[0]
    found = [
        (method, titles[method], log)
        for (method, of), logs in numbers.trainings.items()
        if method in titles and of == seed
        for log in logs
    ]
    return training_curves(numbers.context, found, seed)


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
)
