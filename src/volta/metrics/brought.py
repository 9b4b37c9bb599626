"""Metrics that other packages bring, by the entry point ``volta.metrics``: each names a :class:`Metric`."""

from __future__ import annotations

import warnings
from functools import cache

from volta.core.errors import InputError, VoltaWarning
from volta.core.plugins import Plugin, plugins
from volta.metrics.metric import Metric
from volta.metrics.table import METRICS

OWN_NAMES = frozenset(METRICS)


@cache
def plugin_metrics() -> dict[str, Metric]:
    """Return the metrics of installed packages by name; a name that the package's own table has is not theirs to take.

    A package whose metric cannot be loaded is warned of and left out: it must not take all other metrics with it.
    """
    found: dict[str, Metric] = {}
    for name, plugin in plugins("volta.metrics").items():
        if name in OWN_NAMES:
            continue
        try:
            found[name] = _checked(plugin)
        except InputError as error:
            warnings.warn(f"{error}; the metric is left out", VoltaWarning, stacklevel=2)
    return found


def _checked(plugin: Plugin) -> Metric:
    metric = plugin.load()
    if not isinstance(metric, Metric) or metric.name != plugin.name or metric.function is None:
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} is no volta.metrics.Metric of that name with a function"
        )
    return metric
