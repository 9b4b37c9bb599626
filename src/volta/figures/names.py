"""How metrics are called on axes; a metric on another set than the test rows is written ``metric@set``."""

from __future__ import annotations

from volta.bench.records import TEST, EvalSet
from volta.metrics import METRICS, Metric


def metric_key(metric: str, where: str) -> str:
    """Return how a metric on a set is written: ``metric`` on the test rows, else ``metric@set``."""
    return metric if where == str(TEST) else f"{metric}@{where}"


def split_key(key: str) -> tuple[str, str]:
    """Return the metric and the set behind ``metric`` or ``metric@set``."""
    metric, _, where = key.partition("@")
    return metric, where or str(TEST)


def metric_of(key: str) -> Metric:
    """Return the metric behind ``metric`` or ``metric@set``."""
    return METRICS[split_key(key)[0]]


def metric_name(metric: str) -> str:
    """Return a metric's name for a reader."""
    return METRICS[metric].label


def set_name(name: str) -> str:
    """Return a set's name for a reader: without its kind, without underscores."""
    parsed = EvalSet.parse(name)
    words = (parsed.name or parsed.kind).replace("_", " ")
    return words if parsed.severity is None else f"{words}-{parsed.severity}"


def set_label(key: str) -> str:
    """Return the set behind a key for a reader, empty for the test rows, which go without saying."""
    where = split_key(key)[1]
    return "" if where == str(TEST) else set_name(where)


def metric_label(key: str) -> str:
    """Return name, direction and, for another set than the test rows, the set: «AUROC ↑ (svhn)»."""
    metric, where = split_key(key)[0], set_label(key)
    arrow = METRICS[metric].direction
    label = metric_name(metric) if arrow == "–" else f"{metric_name(metric)} {arrow}"
    return f"{label} ({where})" if where else label


def column_label(key: str) -> dict[str, object]:
    """Return a metric's label for the page: name with direction, and apart from it the set, empty for the test rows."""
    return {"label": metric_label(split_key(key)[0]), "where": set_label(key)}
