"""A task with no more rows than a budget allows."""

from __future__ import annotations

from dataclasses import replace

from volta.core.types import Task
from volta.data.row_limits import LIMIT_TRAIN, limit_ood, limit_split
from volta.networks.recipe import Budget


def limit_rows(task: Task, budget: Budget) -> Task:
    """Return the task with at most as many rows as the budget allows, labelled ones drawn with the classes' shares."""
    if budget.limit_train is None and budget.limit_test is None:
        return task
    n_test, name = budget.limit_test, task.name
    return replace(
        task,
        fit=replace(task.fit, train=limit_split(task.fit.train, budget.limit_train, name, LIMIT_TRAIN)),
        test=limit_split(task.test, n_test, name),
        ood={key: limit_ood(ood_set, n_test, name, key) for key, ood_set in task.ood.items()},
        shifts={key: limit_split(shifted, n_test, name) for key, shifted in task.shifts.items()},
    )
