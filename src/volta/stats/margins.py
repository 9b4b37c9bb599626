"""The smallest difference that matters in practice, as each metric declares it."""

from __future__ import annotations

from volta.metrics import METRICS

MARGINS: dict[str, float] = {name: metric.margin for name, metric in METRICS.items() if metric.margin is not None}
"""Metric → its margin, for every metric that has one; without one nothing can be called equivalent."""


def margin_of(metric: str) -> float | None:
    """Return the margin of a metric, or None where none is declared."""
    return MARGINS.get(metric)
