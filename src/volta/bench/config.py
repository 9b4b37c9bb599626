"""What a run is asked to do, as data, and the cells that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from volta.bench.keys import Cell, fingerprints_of, in_order, make_cell
from volta.bench.records import RunSettings
from volta.core.cache import ArrayCache
from volta.core.errors import InputError
from volta.core.plugins import package_version
from volta.core.seeding import PAPER_SEEDS, first_seeds
from volta.core.types import InputKind, Task
from volta.data import TASKS, LoadOptions, TaskDefinition, cache_folder, find_task
from volta.data.task import WholeTask, task_in_memory
from volta.data.task_builder import LIMIT_TRAIN, SCALED, limit_ood, limit_split, resplit, scale_task
from volta.features.extract import MapShards, OnSet
from volta.features.tasks import Extraction, load_task
from volta.methods import METHODS, find_method
from volta.methods.registry import split_names, standard_methods
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


FAIR_SEEDS = 10
MAX_THREADS = 4096
"""A run folder says how many its cells take, and anyone can have made it: no machine has more."""


@dataclass(frozen=True)
class RunConfig:
    """Tasks × protocols × methods × seeds, with one budget, device and thread count for all.

    ``resplit`` says whether train, val and cal are drawn anew for every seed; None does so for tasks whose test rows
    rotate with the seed (``digits``), and leaves all others on their fixed split. ``array_tasks`` are tasks in memory,
    which ``tasks`` names like others.
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
    array_tasks: tuple[Task, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tasks", "methods", "protocols", "seeds"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"{name} is empty; name at least one")
            if len(set(values)) < len(values):
                raise InputError(f"{name} names something twice: {', '.join(map(str, values))}")
        for task in self.array_tasks:
            if task.name in TASKS:
                raise InputError(f"a task is called {task.name!r} as one of the package's own; give it another name")
        for name in self.tasks:
            self.source(name)
        for name in self.methods:
            if find_method(name).name != name:
                raise InputError(f"methods holds {name!r}; write it {find_method(name).name!r}")
        for protocol in self.protocols:
            self._check_protocol(protocol)
        if not 1 <= self.threads <= MAX_THREADS:
            raise InputError(f"threads is {self.threads}; pass a whole number from 1 to {MAX_THREADS}")
        if min(self.seeds) < 0 or max(self.seeds) >= 1 << 63:
            wrong = min(self.seeds) if min(self.seeds) < 0 else max(self.seeds)
            raise InputError(f"seeds holds {wrong}; seeds are whole numbers of at least 0 and below 2^63")

    def _check_protocol(self, protocol: str) -> None:
        if protocol not in PROTOCOLS:
            raise _unknown_protocol(protocol)
        for name in self.methods:
            if protocol not in (able := find_method(name).method.protocols):
                raise InputError(
                    f"{name} does not run under the protocol {protocol!r}, whose networks lack what it needs; "
                    f"leave it out, or pass {' or '.join(able)}"
                )

    def source(self, name: str) -> TaskDefinition:
        """Return the task called ``name``: one made of arrays, or one that goes by its name anywhere."""
        own = next((task for task in self.array_tasks if task.name == name), None)
        return find_task(name, self.options.root) if own is None else task_in_memory(own)

    def draws_by_seed(self, name: str) -> bool:
        """Whether a task's rows are drawn anew for every seed."""
        return self.source(name).rotates if self.resplit is None else self.resplit

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
            scale=self.options.scale,
        )


class TaskLoader:
    """Tasks loaded once per kind of input, within the budget's numbers of rows, own data with its columns scaled.

    Where rows depend on the seed, those of the seed that was asked for last are kept: cells come seed by seed. ``say``
    hears, once a task, that its columns were scaled.
    """

    def __init__(
        self,
        config: RunConfig,
        on_set: OnSet | None = None,
        map_shards: MapShards | None = map,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self._config = config
        self._say = say
        self._told: set[str] = set()
        self._on_set = on_set
        self._map_shards = map_shards
        self._loaded: dict[tuple[str, InputKind], Task] = {}
        self._current: dict[tuple[str, InputKind], tuple[int | None, Task]] = {}

    def task_for(self, task: str, protocol: str, method: str, seed: int) -> Task:
        """Return the task with the rows of ``seed`` and the inputs that ``method`` works on under ``protocol``."""
        source = self._config.source(task)
        kind = input_kind(source, protocol, method)
        drawn_by = seed if self._config.draws_by_seed(task) else None
        if (task, kind) not in self._current or self._current[task, kind][0] != drawn_by:
            whole = self._rows_of(source, kind, drawn_by)
            self._current[task, kind] = drawn_by, self._scaled(source, limit_rows(whole, self._config.budget))
        return self._current[task, kind][1]

    def _scaled(self, source: TaskDefinition, task: Task) -> Task:
        asked = self._config.options.scale
        way = "none" if asked == "auto" and source.scaled else asked
        scaled = scale_task(task, way, ArrayCache(cache_folder() / "scaled"))
        if scaled is not task and self._say is not None and task.name not in self._told:
            self._told.add(task.name)
            self._say(
                f"{task.name}: own data may have any scale, so its {SCALED}, alike for every method "
                "(--scale none leaves them as they are)"
            )
        return scaled

    def _rows_of(self, source: TaskDefinition, kind: InputKind, seed: int | None) -> Task:
        if seed is not None and source.rotates:
            return self._load(source, kind, replace(self._config.options, seed=seed))
        if (source.name, kind) not in self._loaded:
            self._loaded[source.name, kind] = self._load(source, kind, self._config.options)
        whole = self._loaded[source.name, kind]
        return whole if seed is None else resplit(whole, seed)

    def _load(self, source: TaskDefinition, kind: InputKind, options: LoadOptions) -> Task:
        if isinstance(source, WholeTask):
            return source.load(kind, options)
        extraction = self._config.extraction
        options = replace(options, limit_test=self._config.budget.limit_test)
        return load_task(source.name, kind, options, extraction, on_set=self._on_set, map_shards=self._map_shards)


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


def plan_cells(config: RunConfig, tasks: TaskLoader) -> list[Cell]:
    """Return the cells of a run, in the order they are best run in."""
    methods = {name: find_method(name).method for name in config.methods}
    parameters = {name: parameters_of(method) for name, method in methods.items()}
    fingerprints = {name: fingerprints_of(method) for name, method in methods.items()}
    packages = {name: package_version(type(method).__module__) for name, method in methods.items()}
    cells = [
        make_cell(
            task,
            protocol,
            method,
            seed,
            data_hash=tasks.task_for(task, protocol, method, seed).fingerprint,
            parameters=parameters[method],
            fingerprints=fingerprints[method],
            budget=config.budget,
            device=config.device,
            threads=config.threads,
            package=packages[method],
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
