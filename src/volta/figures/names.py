"""How metrics are called on axes; a metric on another set than the test rows is written ``metric@set``."""

from __future__ import annotations

from volta.bench.eval_set import FAR, NEAR, TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP, EvalSet
from volta.metrics import METRICS, Metric

SHARED_FAMILIES = ("prediction", "calibration")
_SET_NAMES = {
    TEST_AFTER_TEMPERATURE: "after one temperature",
    TEST_BY_MSP: "by 1 − max p",
    NEAR: "near OOD",
    FAR: "far OOD",
}


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
    if parsed in _SET_NAMES:
        return _SET_NAMES[parsed]
    words = (parsed.name or parsed.kind).replace("_", " ")
    return words if parsed.severity is None else f"{words}-{parsed.severity}"


def heading(key: str) -> str:
    """Return a metric's name as it heads a column: «ECE», and «ECE+T» after one temperature."""
    metric, where = split_key(key)
    return f"{metric_name(metric)}+T" if where == str(TEST_AFTER_TEMPERATURE) else metric_name(metric)


def set_label(key: str) -> str:
    """Return the set behind a key for a reader, empty for the test rows: they go without saying, +T is in the name."""
    where = split_key(key)[1]
    return "" if where in (str(TEST), str(TEST_AFTER_TEMPERATURE)) else set_name(where)


def full_name(key: str) -> str:
    """Return name and, for another set than the test rows, the set: «AUROC (svhn)»."""
    where = set_label(key)
    return f"{heading(key)} ({where})" if where else heading(key)


def metric_label(key: str) -> str:
    """Return name, direction and, for another set than the test rows, the set: «AUROC ↑ (svhn)»."""
    where, arrow = set_label(key), metric_of(key).direction
    label = heading(key) if arrow == "–" else f"{heading(key)} {arrow}"
    return f"{label} ({where})" if where else label


def column_label(key: str) -> dict[str, object]:
    """Return a metric's label for the page: name with direction, and apart from it the set, empty for the test rows."""
    arrow = metric_of(key).direction
    return {"label": heading(key) if arrow == "–" else f"{heading(key)} {arrow}", "where": set_label(key)}


def is_shared(key: str) -> bool:
    """Whether probabilities alone decide a metric, so that methods on one network have one value between them."""
    metric, where = split_key(key)
    on_test = where in (str(TEST), str(TEST_AFTER_TEMPERATURE)) or EvalSet.parse(where).kind == "shift"
    return on_test and METRICS[metric].family in SHARED_FAMILIES
