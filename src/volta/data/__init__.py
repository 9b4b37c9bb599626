"""From raw files to a Task: one module per source, one table of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from volta.core.errors import InputError
from volta.core.types import InputKind, Modality, Task
from volta.data import digits

__all__ = ["TASKS", "TaskSource", "find_task"]


@dataclass(frozen=True)
class TaskSource:
    """A task that can be loaded by name, and what a list of tasks says of it."""

    title: str
    load: Callable[[InputKind], Task]
    modality: Modality
    kinds: tuple[InputKind, ...]
    download: str


TASKS: dict[str, TaskSource] = {
    "digits": TaskSource(
        "scikit-learn digits, classes 0-7; foreign: 8-9, uniform noise, shuffled pixels",
        digits.load,
        "tabular",
        ("features",),
        "none: embedded",
    ),
}


def find_task(name: str) -> TaskSource:
    """Return the task source called ``name``, or say which names there are."""
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; the tasks are: {', '.join(TASKS)} (see: volta tasks)")
    return TASKS[name]
