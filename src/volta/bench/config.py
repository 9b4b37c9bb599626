"""What a run is asked to do, as data, and the cells that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from volta.bench.cells import Cell, in_order, make_cell
from volta.bench.manifest import RunSettings
from volta.bench.stamps import stamps_of
from volta.core.errors import InputError
from volta.core.machine import n_cores
from volta.core.seeding import PAPER_SEEDS, SPLIT_SEED, first_seeds, rng
from volta.core.types import InputKind, OodSet, Split, Task
from volta.data import LoadOptions, TaskDefinition, find_task
from volta.data.prepare import resplit
from volta.data.splits import stratified_take
from volta.features.extract import MapShards
from volta.features.tasks import Extraction, OnSet, load_task
from volta.methods import find_method
from volta.methods.saving import parameters_of
from volta.networks.protocols import PROTOCOLS
from volta.networks.recipe import Budget

FAIR_SEEDS = 10


@dataclass(frozen=True)
class RunConfig:
    """Tasks × protocols × methods × seeds, with one budget, device and thread count for all.

    ``resplit`` says whether train, val and cal are drawn anew for every seed; None does so for tasks whose test rows
    rotate with the seed (``digits``), and leaves all others on their fixed split.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    protocols: tuple[str, ...] = ("fair",)
    seeds: tuple[int, ...] = PAPER_SEEDS
    budget: Budget = field(default_factory=Budget)
    device: str = "cpu"
    threads: int = 1
    options: LoadOptions = field(default_factory=LoadOptions)
    extraction: Extraction = field(default_factory=Extraction)
    resplit: bool | None = None

    def __post_init__(self) -> None:
        for name in ("tasks", "methods", "protocols", "seeds"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"{name} is empty; name at least one")
            if len(set(values)) < len(values):
                raise InputError(f"{name} names something twice: {', '.join(map(str, values))}")
        for task in self.tasks:
            find_task(task, self.options.root)
        for method in self.methods:
            find_method(method)
        for protocol in self.protocols:
            if protocol not in PROTOCOLS:
                raise InputError(f"there is no protocol {protocol!r}; the protocols are: {', '.join(PROTOCOLS)}")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; pass a whole number of at least 1")
        if min(self.seeds) < 0:
            raise InputError(f"seeds holds {min(self.seeds)}; seeds are whole numbers of at least 0")

    @property
    def settings(self) -> RunSettings:
        """What the run folder's manifest keeps of the configuration."""
        return RunSettings(
            tasks=self.tasks,
            methods=self.methods,
            protocols=self.protocols,
            seeds=self.seeds,
            budget=self.budget,
            device=self.device,
            threads=self.threads,
            backbone=self.extraction.backbone,
            weights=self.extraction.weights.name if self.extraction.weights else None,
            severities=self.options.severities,
            shifts=self.options.shifts,
            resplit=self.resplit,
        )


class TaskLoader:
    """Tasks loaded once per kind of input, within the budget's numbers of rows.

    Where rows depend on the seed, those of the seed that was asked for last are kept: cells come seed by seed.
    """

    def __init__(self, config: RunConfig, on_set: OnSet | None = None, map_shards: MapShards | None = map) -> None:
        self._config = config
        self._on_set = on_set
        self._map_shards = map_shards
        self._loaded: dict[tuple[str, InputKind], Task] = {}
        self._given: dict[tuple[str, InputKind], tuple[int | None, Task]] = {}

    def task_for(self, task: str, protocol: str, method: str, seed: int) -> Task:
        """Return the task with the rows of ``seed`` and the inputs that ``method`` works on under ``protocol``."""
        source = find_task(task, self._config.options.root)
        kind = input_kind(source, protocol, method)
        by_seed = source.rotates if self._config.resplit is None else self._config.resplit
        drawn_by = seed if by_seed else None
        if (task, kind) not in self._given or self._given[task, kind][0] != drawn_by:
            whole = self._rows_of(source, kind, drawn_by)
            self._given[task, kind] = drawn_by, limit_rows(whole, self._config.budget)
        return self._given[task, kind][1]

    def _rows_of(self, source: TaskDefinition, kind: InputKind, seed: int | None) -> Task:
        if seed is not None and source.rotates:
            return self._load(source.name, kind, replace(self._config.options, seed=seed))
        if (source.name, kind) not in self._loaded:
            self._loaded[source.name, kind] = self._load(source.name, kind, self._config.options)
        whole = self._loaded[source.name, kind]
        return whole if seed is None else resplit(whole, seed)

    def _load(self, task: str, kind: InputKind, options: LoadOptions) -> Task:
        extraction = self._config.extraction
        return load_task(task, kind, options, extraction, on_set=self._on_set, map_shards=self._map_shards)


@dataclass(frozen=True, eq=False)
class LoadedTask:
    """One task that was loaded, and limited, elsewhere."""

    task: Task

    def task_for(self, task: str, protocol: str, method: str, seed: int) -> Task:
        """Return the task."""
        return self.task


def input_kind(source: TaskDefinition, protocol: str, method: str) -> InputKind:
    """Return whether a method sees pixels or features: features, save for the paper's pixel baselines on images."""
    wanted = find_method(method).method.paper_inputs
    if protocol == "paper" and wanted in source.kinds:
        return wanted
    return "features"


def default_threads(source: TaskDefinition, protocol: str, methods: Sequence[str]) -> int:
    """Return 1 where every method sees features, so that cells run side by side; all cores where one sees pixels."""
    if all(input_kind(source, protocol, method) == "features" for method in methods):
        return 1
    return n_cores()


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


def plan_cells(config: RunConfig, tasks: TaskLoader) -> list[Cell]:
    """Return the cells of a run, in the order they are best run in."""
    cells = [
        make_cell(
            task,
            protocol,
            method,
            seed,
            data_hash=tasks.task_for(task, protocol, method, seed).fingerprint,
            parameters=parameters_of(find_method(method).method),
            stamps=stamps_of(find_method(method).method),
            budget=config.budget,
            device=config.device,
            threads=config.threads,
        )
        for task in config.tasks
        for protocol in config.protocols
        for seed in config.seeds
        for method in config.methods
    ]
    return in_order(cells)


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


def parse_names(text: str, everything: Sequence[str]) -> tuple[str, ...]:
    """Return the names in a comma-separated list; ``all`` stands for everything there is."""
    return tuple(everything) if text == "all" else tuple(part.strip() for part in text.split(",") if part.strip())
