"""Tasks that come whole, as a value or from a function: made from arrays, or brought by a plug-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from volta.core.errors import InputError
from volta.core.plugins import Plugin
from volta.core.set_names import check_task_name
from volta.core.types import EncoderKind, InputKind, Task
from volta.data.definition import TaskDefinition
from volta.data.options import LoadOptions
from volta.data.prepare import Preparation

_UNUSED = Preparation("tabular", 0.2)


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeTask(TaskDefinition):
    """A task that ``make`` gives as it is, splits and all."""

    make: Callable[[], Task]

    @property
    def encoder(self) -> EncoderKind:
        """The encoder that the task trains with."""
        return self.make().fit.encoder

    def load(self, kind: InputKind = "features", options: LoadOptions | None = None) -> Task:
        """Return the task with the OOD sets and shifts that ``options`` ask for."""
        task, options = self.make(), options or LoadOptions()
        if task.fit.kind != kind:
            raise InputError(f"{self.name} comes as {task.fit.kind}, and {kind} are needed; make it of features")
        shifts = {} if options.shifts == "none" else task.shifts
        return replace(task, name=self.name, ood=options.pick_ood(task.ood), shifts=shifts)


@dataclass(frozen=True)
class _NoFiles:
    """Stands where other tasks have feature files."""

    def is_there(self, root: Path) -> bool:
        """Tell that there are none."""
        return False

    def read(self, options: LoadOptions) -> NoReturn:
        """Refuse: a whole task is not read set by set."""
        raise InputError("a task that comes whole has no feature files; load it instead")


@dataclass(frozen=True, eq=False)
class _TaskInMemory:
    """Gives a task that is there already; a class and not a function, so that it travels to other processes."""

    task: Task

    def __call__(self) -> Task:
        return self.task


def task_in_memory(task: Task) -> WholeTask:
    """Return a task in memory as one that can be run by its name."""
    check_task_name(task.name)
    return _definition(task.name, "made of arrays", "given as arrays", _TaskInMemory(task))


def plugin_task(plugin: Plugin) -> TaskDefinition:
    """Return the task that an entry point ``volta.tasks`` names: a function that gives a Task, or a TaskDefinition."""
    found = plugin.load()
    if isinstance(found, TaskDefinition):
        return replace(found, name=plugin.name)
    if not callable(found):
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} is a {type(found).__name__}; "
            "expected a function without arguments that returns a volta.Task"
        )
    title = (getattr(found, "__doc__", "") or plugin.name).strip().partition("\n")[0]
    return _definition(plugin.name, title, f"plug-in {plugin.package}", _Made(plugin, found))


@dataclass(frozen=True, eq=False)
class _Made:
    """Calls a plug-in's function, once a process, and checks what it gives."""

    plugin: Plugin
    function: Callable[[], object]

    def __call__(self) -> Task:
        key = self.plugin.entry.value
        if key not in _made:
            task = self.function()
            if not isinstance(task, Task):
                raise InputError(
                    f"the plug-in {self.plugin.name!r} of {self.plugin.package} gave a {type(task).__name__}; "
                    "expected a volta.Task"
                )
            _made[key] = replace(task, source=f"{task.source}, plug-in {self.plugin.package}")
        return _made[key]


_made: dict[str, Task] = {}


def _definition(name: str, title: str, origin: str, make: Callable[[], Task]) -> WholeTask:
    return WholeTask(
        name=name, title=title, preparation=_UNUSED, features=_NoFiles(), origin=origin, make=make, scaled=False
    )
