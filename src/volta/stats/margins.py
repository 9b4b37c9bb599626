"""The smallest difference that matters in practice, by metric: one table for equivalence, claims and leaderboard."""

from __future__ import annotations

from volta.metrics import METRICS

_DEFAULTS = {
    "accuracy": 0.01, "ece": 0.01, "brier": 0.01, "nll": 0.02, "aurc": 0.005, "augrc": 0.005, "auroc": 0.01,
}  # fmt: skip


def margin_of(metric: str) -> float | None:
    """Return the margin of a metric, or None where none is declared: then nothing can be called equivalent."""
    declared: float | None = getattr(METRICS.get(metric), "margin", None)
    return _DEFAULTS.get(metric) if declared is None else declared


MARGINS: dict[str, float] = {name: margin for name in METRICS if (margin := margin_of(name)) is not None}
"""Metric → its margin, for every metric that has one."""
