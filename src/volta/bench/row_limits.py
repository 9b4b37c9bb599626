"""A task with no more rows than a budget allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import stratified_take
from volta.core.types import OodSet, Split, Task
from volta.networks.recipe import Budget


def limit_rows(task: Task, budget: Budget) -> Task:
    """Return the task with at most as many rows as the budget allows, labelled ones drawn with the classes' shares."""
    if budget.limit_train is None and budget.limit_test is None:
        return task
    return replace(
        task,
        fit=replace(task.fit, train=_limited(task.fit.train, budget.limit_train, task.name, "limit_train")),
        test=_limited(task.test, budget.limit_test, task.name, "limit_test"),
        ood={name: _limited_ood(ood_set, budget.limit_test, task.name, name) for name, ood_set in task.ood.items()},
        shifts={
            name: _limited(shifted, budget.limit_test, task.name, "limit_test") for name, shifted in task.shifts.items()
        },
    )


def _limited(split: Split, n_rows: int | None, *purpose: str) -> Split:
    """Return at most ``n_rows`` rows; of sets with equal labels, as shifted tests have, the same ones."""
    if n_rows is None or n_rows >= len(split):
        return split
    rows, _ = stratified_take(split.labels, n_rows, rng(SPLIT_SEED, *purpose))
    return split.take(rows)


def _limited_ood(ood_set: OodSet, n_rows: int | None, *purpose: str) -> OodSet:
    if n_rows is None or n_rows >= len(ood_set.inputs):
        return ood_set
    rows = np.sort(rng(SPLIT_SEED, "limit_test", *purpose).permutation(len(ood_set.inputs))[:n_rows])
    return replace(ood_set, inputs=ood_set.inputs[rows])
