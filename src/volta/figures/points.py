"""Methods as points in the plane of two metrics: the numbers of the page's drawing."""

from __future__ import annotations

from volta.figures.chart import Json
from volta.figures.data import GroupNumbers, MethodValues, with_metrics
from volta.figures.names import metric_label, metric_of
from volta.figures.scales import beaten_by, spans_decades


def points_json(numbers: GroupNumbers, x: str, y: str, label: str, size: str | None = None) -> Json:
    """Return mean and deviation of each method on both metrics, its size, and the methods that beat it on both.

    An axis is logarithmic where the compared methods span more than a decade.
    """
    shown = with_metrics(numbers.methods, x, y, *((size,) if size else ()))
    stronger = beaten_by([_up(m, x) for m in shown], [-_up(m, y) for m in shown])
    return {
        "label": label,
        "x": {"label": metric_label(x), "log": is_log(numbers, x)},
        "y": {"label": metric_label(y), "log": is_log(numbers, y)},
        "size": metric_label(size) if size else None,
        "points": {
            m.name: {
                "x": m.mean(x),
                "x_std": m.std(x),
                "y": m.mean(y),
                "y_std": m.std(y),
                "size": m.mean(size) if size else None,
                "beaten_by": [shown[index].name for index in beaters],
            }
            for m, beaters in zip(shown, stronger, strict=True)
        },
    }


def is_log(numbers: GroupNumbers, metric: str) -> bool:
    """Whether an axis of the page is logarithmic: an error or a cost, all values positive, the compared ones over more
    than a decade. What is at best 1 stays linear: a logarithm would spread out the worst.
    """
    if metric_of(metric).higher_is_better is not False:
        return False
    positive = all(method.mean(metric) > 0 for method in with_metrics(numbers.methods, metric))
    return positive and spans_decades(reach(with_metrics(numbers.compared_methods, metric), metric))


def reach(methods: list[MethodValues], metric: str) -> list[float]:
    """Return the ends of each method's bar of one deviation; a bar that would reach 0 ends at its mean."""
    ends = []
    for method in methods:
        mean, std = method.mean(metric), method.std(metric)
        ends += [mean - std if mean > std else mean, mean + std]
    return ends


def page_limits(values: list[float], log: bool, floor: float | None = None) -> tuple[float, float]:
    """Return where an axis of the page begins and ends, with a margin around the values."""
    low, high = min(values), max(values)
    if log:
        return low / 1.2, high * 1.2
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin if floor is None else max(floor, low - margin), high + margin


def _up(method: MethodValues, metric: str) -> float:
    return -method.mean(metric) if metric_of(metric).higher_is_better is False else method.mean(metric)
