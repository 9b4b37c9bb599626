"""How metrics are called on axes; a metric on another set than the test rows is written ``metric@set``."""

from __future__ import annotations

from volta.metrics import METRICS, Metric


def metric_of(key: str) -> Metric:
    """Return the metric behind ``metric`` or ``metric@set``."""
    return METRICS[key.partition("@")[0]]


def metric_name(metric: str) -> str:
    """Return a metric's name for a reader."""
    return METRICS[metric].label


def set_name(name: str) -> str:
    """Return a set's name for a reader: without its kind, without underscores."""
    return name.partition(":")[2].replace("_", " ") if ":" in name else name.replace("_", " ")


def metric_label(key: str) -> str:
    """Return name, direction and, for another set than the test rows, the set: «AUROC ↑ (svhn)»."""
    metric, _, where = key.partition("@")
    arrow = METRICS[metric].direction
    label = metric_name(metric) if arrow == "–" else f"{metric_name(metric)} {arrow}"
    return f"{label} ({set_name(where)})" if where else label
