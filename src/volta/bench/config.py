"""The tasks and methods of a run, looked up and loaded, and the cells that follow from its configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from volta.bench.records import Cell, RunConfig, fingerprints_of, in_order, make_cell
from volta.core.cache import ArrayCache
from volta.core.errors import InputError
from volta.core.plugins import package_version
from volta.core.scaling import ScaleName
from volta.core.seeding import PAPER_SEEDS, first_seeds
from volta.core.types import InputKind, Split, Task
from volta.data import TASKS, LoadOptions, TaskDefinition, cache_folder, find_task
from volta.data.task import ShiftOrigin, WholeTask, task_in_memory
from volta.data.task_builder import LIMIT_TRAIN, SCALED, limit_ood, limit_split, resplit, scale_task
from volta.features.extract import Extraction, MapShards, OnSet, load_task
from volta.methods import METHODS, find_method
from volta.methods.base import Method
from volta.methods.registry import RegisteredMethod, split_names, standard_methods
from volta.methods.saving import parameters_of
from volta.networks.recipe import PROTOCOLS, Budget


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


def whole_validation(task: Task) -> Task:
    """Return the task as the paper uses it: one validation set for early stopping, temperature and conformal scores.

    ``val`` and ``cal`` are both the validation and calibration rows together, so that no guarantee of a conformal set
    is exact.
    """
    val, cal = task.fit.val, task.fit.cal
    weights = None if val.weights is None or cal.weights is None else np.concatenate([val.weights, cal.weights])
    whole = Split(np.concatenate([val.inputs, cal.inputs]), np.concatenate([val.labels, cal.labels]), weights)
    return replace(task, fit=replace(task.fit, val=whole, cal=whole))


FAIR_SEEDS = 10


class TaskLoader:
    """The tasks and methods of a run, each looked up once by its name.

    Tasks are loaded once per kind of input, within the budget's numbers of samples, own data with its columns scaled.
    Where samples depend on the seed, those of the seed that was asked for last are kept: cells run seed by seed.
    ``say`` is told once a task that its columns were scaled.
    """

    def __init__(
        self,
        config: RunConfig,
        on_set: OnSet | None = None,
        map_shards: MapShards | None = map,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self.config = config
        self.options = LoadOptions(
            config.data, config.severities, cast(ShiftOrigin, config.shifts), scale=cast(ScaleName, config.scale)
        )
        self.extraction = Extraction(
            config.backbone, config.weights, device=config.device, amp=config.amp, on_set=on_set, map_shards=map_shards
        )
        self.definitions = {name: self._find_task(name) for name in config.tasks}
        self.methods = {name: find_method(name) for name in config.methods}
        for name, entry in self.methods.items():
            if entry.name != name:
                raise InputError(f"methods holds {name!r}; write it {entry.name!r}")
            for protocol in config.protocols:
                _check_protocol(protocol, entry)
        self._say = say
        self._told: set[str] = set()
        self._loaded: dict[tuple[str, InputKind], Task] = {}
        self._current: dict[tuple[str, InputKind, str], tuple[int | None, Task]] = {}

    def _find_task(self, name: str) -> TaskDefinition:
        for task in self.config.array_tasks:
            if task.name in TASKS:
                raise InputError(f"a task is called {task.name!r} as one of the package's own; give it another name")
            if task.name == name:
                return task if isinstance(task, TaskDefinition) else task_in_memory(task)
        return find_task(name, self.config.data)

    def draws_by_seed(self, task: str) -> bool:
        """Whether a task's samples are drawn again for every seed."""
        return self.definitions[task].rotates if self.config.resplit is None else self.config.resplit

    def method(self, name: str) -> RegisteredMethod:
        """Return what is known of a method, with a new, unfitted one."""
        entry = self.methods[name]
        return replace(entry, method=copy.deepcopy(entry.method))

    def load(self, cell: Cell) -> Task:
        """Return the task of a cell."""
        return self.task_for(cell.task, cell.protocol, cell.method, cell.seed)

    def task_for(self, task: str, protocol: str, method: str, seed: int) -> Task:
        """Return the task with the samples of ``seed`` and the inputs that ``method`` works on under ``protocol``."""
        definition = self.definitions[task]
        kind = input_kind(definition, protocol, type(self.methods[method].method))
        drawn_by = seed if self.draws_by_seed(task) else None
        place = (task, kind, protocol)
        if place not in self._current or self._current[place][0] != drawn_by:
            loaded = limit_rows(self._rows_of(definition, kind, drawn_by), self.config.budget)
            loaded = self._scaled(definition, loaded)
            self._current[place] = drawn_by, whole_validation(loaded) if protocol == "paper" else loaded
        return self._current[place][1]

    def _scaled(self, definition: TaskDefinition, task: Task) -> Task:
        asked = self.options.scale
        way = "none" if asked == "auto" and definition.scaled else asked
        scaled = scale_task(task, way, ArrayCache(cache_folder() / "scaled"))
        if scaled is not task and self._say is not None and task.name not in self._told:
            self._told.add(task.name)
            self._say(
                f"{task.name}: own data may have any scale, so its {SCALED}, alike for every method "
                "(--scale none leaves them as they are)"
            )
        return scaled

    def _rows_of(self, definition: TaskDefinition, kind: InputKind, seed: int | None) -> Task:
        if seed is not None and definition.rotates:
            return self._load(definition, kind, replace(self.options, seed=seed))
        if (definition.name, kind) not in self._loaded:
            self._loaded[definition.name, kind] = self._load(definition, kind, self.options)
        whole = self._loaded[definition.name, kind]
        return whole if seed is None else resplit(whole, seed)

    def _load(self, definition: TaskDefinition, kind: InputKind, options: LoadOptions) -> Task:
        if isinstance(definition, WholeTask):
            return definition.load(kind, options)
        options = replace(options, limit_test=self.config.budget.limit_test)
        return load_task(definition, kind, options, self.extraction)


def input_kind(definition: TaskDefinition, protocol: str, method: type[Method]) -> InputKind:
    """Return whether a method sees pixels or features: features, save for the paper's pixel baselines on images."""
    if protocol == "paper" and method.paper_inputs in definition.kinds:
        return method.paper_inputs
    return "features"


def plan_cells(tasks: TaskLoader) -> list[Cell]:
    """Return the cells of a run, in the order they are best run in."""
    config = tasks.config
    decided_by: dict[str, dict[str, Any]] = {
        name: {
            "parameters": parameters_of(entry.method),
            "fingerprints": fingerprints_of(entry.method),
            "package": package_version(type(entry.method).__module__),
        }
        for name, entry in tasks.methods.items()
    }
    cells = [
        make_cell(
            task,
            protocol,
            method,
            seed,
            data_hash=tasks.task_for(task, protocol, method, seed).fingerprint,
            budget=config.budget,
            device=config.device,
            threads=config.threads,
            amp=config.amp,
            deterministic=config.deterministic,
            **decided_by[method],
        )
        for task in config.tasks
        for protocol in config.protocols
        for seed in config.seeds
        for method in config.methods
    ]
    return in_order(cells)


def _check_protocol(protocol: str, entry: RegisteredMethod) -> None:
    if protocol not in PROTOCOLS:
        raise _unknown_protocol(protocol)
    if protocol not in (able := entry.method.protocols):
        raise InputError(
            f"{entry.name} does not run under the protocol {protocol!r}, whose networks lack what it needs; "
            f"leave it out, or pass {' or '.join(able)}"
        )


def parse_seeds(text: str | None, protocol: str) -> tuple[int, ...]:
    """Return the seeds of ``--seeds``: the first so many of the one list, or those named.

    Without any, ``fair`` has the first ten and ``paper`` the paper's three.

    >>> parse_seeds("4", "fair"), parse_seeds("7,8", "fair"), parse_seeds("42,", "fair"), parse_seeds(None, "paper")
    ((42, 123, 456, 1004), (7, 8), (42,), (42, 123, 456))
    """
    if text is None:
        return first_seeds(FAIR_SEEDS) if protocol == "fair" else PAPER_SEEDS
    if "," in text:
        return parse_numbers(text, "--seeds")
    (n_seeds,) = parse_numbers(text, "--seeds")
    if n_seeds < 1:
        raise InputError(f"--seeds is {n_seeds}; pass how many, at least 1, or a list of seeds as in 1,2,3")
    return first_seeds(n_seeds)


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers in a comma-separated list, which may end in a comma."""
    try:
        return tuple(int(part) for part in text.removesuffix(",").split(","))
    except ValueError:
        raise InputError(f"{option} is {text!r}; pass whole numbers with commas between them, as in 1,2,3") from None


def parse_methods(text: str, protocol: str) -> tuple[str, ...]:
    """Return the methods in a comma-separated list, by their own names.

    In it ``paper`` (VOLTA and its ten baselines), ``standard`` and ``all`` stand for those of the package's methods
    that ``protocol`` can run. A name that stands there twice stays twice, for the configuration to refuse.

    >>> parse_methods("energy, knn(k=10), knn(k=50)", "fair")
    ('energy', 'knn(k=10)', 'knn')
    """
    if protocol not in PROTOCOLS:
        raise _unknown_protocol(protocol)
    papers = tuple(name for name, method in METHODS.items() if method.origin != "extra")
    groups = {"paper": papers, "standard": standard_methods(), "all": tuple(METHODS)}
    able = {group: [name for name in names if protocol in METHODS[name].protocols] for group, names in groups.items()}
    parts = split_names(text)
    named = [find_method(part).name for part in parts if part not in able]
    grouped = dict.fromkeys(name for part in parts if part in able for name in able[part])
    return (*(name for name in grouped if name not in named), *named)


def _unknown_protocol(name: str) -> InputError:
    return InputError(f"there is no protocol {name!r}; the protocols are: {', '.join(PROTOCOLS)}")
