"""What the shell offers on Tab: tasks, methods and metrics, also within a list with commas between the names."""

from __future__ import annotations

from collections.abc import Iterable


def complete_tasks(incomplete: str) -> list[str]:
    """Return tasks that go on from what was typed."""
    from volta.data import all_tasks

    return continued(incomplete, all_tasks())


def complete_methods(incomplete: str) -> list[str]:
    """Return methods that go on from what was typed."""
    from volta.methods import method_names

    return continued(incomplete, ["standard", "all", *method_names()])


def complete_metrics(incomplete: str) -> list[str]:
    """Return metrics that go on from what was typed."""
    from volta.metrics import METRICS

    return continued(incomplete, METRICS)


def continued(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the list typed so far with its last name completed in every way there is.

    >>> continued("digits,ci", ["digits", "cifar10", "cifar100"])
    ['digits,cifar10', 'digits,cifar100']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]
