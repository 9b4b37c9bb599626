"""Methods that rest on one network: equal probabilities, and so equal values of all that probabilities decide."""

from __future__ import annotations

from collections.abc import Sequence

from volta.stats.results import TEST_SET, Results

PREDICTION_METRICS = ("accuracy", "ece", "nll", "brier")
"""What probabilities alone decide; OOD and selective scores are a method's own."""


def shared_networks(table: Results, methods: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two methods or more with the same accuracy, ECE, NLL and Brier score in every seed.

    Groups and their members are in the order of ``methods``; a method that lacks one of the four is in no group.
    """
    found: dict[tuple[tuple[tuple[int, float], ...], ...], list[str]] = {}
    for name in methods:
        values = tuple(tuple(sorted(table.of(name, TEST_SET, metric).items())) for metric in PREDICTION_METRICS)
        if all(values):
            found.setdefault(values, []).append(name)
    return tuple(tuple(names) for names in found.values() if len(names) > 1)
