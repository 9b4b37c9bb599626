"""Run what is missing of a plan; store what finishes; keep failures apart and continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from volta.bench.cell import CellRunner, DiskNetworkStore, take_networks
from volta.bench.cell_metrics import EvalSet
from volta.bench.config import TaskLoader, input_kind, plan_cells
from volta.bench.executors import Executor, LocalExecutor, ProcessExecutor, RayExecutor, ray_map
from volta.bench.progress import Estimate, Listener, estimate_seconds
from volta.bench.records import (
    EXTERNAL,
    Cell,
    CellRecord,
    Manifest,
    RunConfig,
    environment,
    in_order,
    stopped_in_warmup,
    updated_manifest,
)
from volta.bench.store import RunStore, rescore_stale
from volta.core.errors import InputError, StoreError, VoltaError
from volta.core.files import hash_array, write_png
from volta.core.processes import n_cores
from volta.core.types import Task
from volta.data import CORRUPTION_NAMES, corruption_sheet
from volta.features.extract import NotCheckedError, NotExtractedError
from volta.methods import METHODS

WAIT_SECONDS = 1.0
EXECUTORS = ("auto", "local", "processes", "ray")


@dataclass(frozen=True)
class Execution:
    """Where cells run: ``executor`` on ``workers`` processes at most, or on the Ray cluster at ``address``.

    ``auto`` takes processes where there is room for more than one cell, each with its own threads. Trained networks of
    the run folder ``networks_of`` are taken where they fit; Ray trains its own.
    """

    executor: str = "auto"
    workers: int | None = None
    address: str | None = None
    networks_of: Path | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise InputError(f"--executor is {self.executor!r}; pass one of {', '.join(EXECUTORS)}")
        if self.n_workers < 1:
            raise InputError(f"--workers is {self.workers}; pass a whole number of at least 1")
        if self.networks_of is not None and self.executor == "ray":
            raise InputError("--networks-of goes with the executors local and processes; Ray trains its own networks")

    @property
    def n_workers(self) -> int:
        """Processes to use at most."""
        return n_cores() if self.workers is None else self.workers

    def make_executor(self, config: RunConfig, store: RunStore, tasks: TaskLoader, n_cells: int) -> Executor:
        """Return what runs ``n_cells`` cells."""
        n_workers = min(self.n_workers, n_cells)
        if self.executor == "auto":
            n_workers = max(1, min(n_workers, n_cores() // config.threads)) if config.device == "cpu" else 1
        if self.executor == "ray":
            return RayExecutor(config, store, tasks, self.address)
        if self.executor == "processes" or (self.executor == "auto" and n_workers > 1):
            return ProcessExecutor(config, store, n_workers)
        networks = DiskNetworkStore(store.folder("networks"))
        return LocalExecutor(CellRunner(config, networks, tasks.load, tasks.method), store)


@dataclass(frozen=True)
class Plan:
    """The cells asked for, those of them that are missing, what these may cost, and the manifest with all cells."""

    cells: list[Cell]
    missing: list[Cell]
    manifest: Manifest
    estimate: Estimate | None = None


def make_plan(config: RunConfig, store: RunStore, command: str = "") -> Plan:
    """Return the plan without touching the folder; refuse a folder that is not a run or has another budget.

    Raises ``NotExtractedError`` where the plan depends on features that are still to be extracted.
    """
    tasks = TaskLoader(config, map_shards=None)
    try:
        cells = _cells(store, tasks)
    except NotExtractedError as error:
        raise NotExtractedError(_before_features(tasks, error)) from error
    missing = [cell for cell in cells if not store.is_done(cell)]
    manifest = _manifest(store, config, cells, command)
    return Plan(cells, missing, manifest, estimate_seconds(store, cells, missing))


def _before_features(tasks: TaskLoader, error: NotExtractedError) -> str:
    """Return what a plan can say before features are extracted, or before stored ones are checked."""
    config, task = tasks.config, tasks.config.tasks[0]
    n_cells = len(config.tasks) * len(config.protocols) * len(config.methods) * len(config.seeds)
    words: dict[str, object] = {"--backbone": config.backbone, "--weights": config.weights}
    generated = config.shifts == "generated" and tasks.definitions[task].has_features(tasks.options)
    if generated:
        severities = ",".join(map(str, config.severities))
        words |= {"--only": "shifts", "--shifts": "generated", "--severities": severities}
    words |= {"--limit-test": config.budget.limit_test, "--data": config.data}
    amp = " --amp" if config.amp else ""
    given = "".join(f" {key} {value}" for key, value in words.items() if value is not None)
    command = f"volta extract {task}{given}{amp}"
    if isinstance(error, NotCheckedError):
        checks = f"the run does that first, or: {command}" if generated else "the run does that first"
        return f"{n_cells} cells; {error}, so finished cells are not known yet: {checks}"
    return (
        f"{n_cells} cells; images of {task} lack features, so finished cells are not known yet: the run "
        f"extracts them first, or: {command}"
    )


def run(
    config: RunConfig,
    store: RunStore,
    listener: Listener,
    command: str = "",
    execution: Execution | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Plan:
    """Bring the run folder up to ``config``; return its plan, with the cells that failed as those that are missing.

    Every cell that is not finished runs, and only those. Finished cells whose metrics other code computed are scored
    again from their predictions. ``should_stop`` is asked after every cell.
    """
    execution = execution or Execution("local")
    if execution.networks_of is not None:
        RunStore(execution.networks_of).read_manifest()
    listener.phase("reading " + ", ".join(config.tasks))
    map_shards = ray_map(execution.address) if execution.executor == "ray" else map
    tasks = TaskLoader(config, listener.extracting, map_shards, listener.message)
    cells = _cells(store, tasks)
    store.create()
    with store.manifest_lock():
        manifest = _manifest(store, config, cells, command)
        store.write_manifest(manifest)
        damaged, sound = store.set_aside_damaged(cells)
    for cell in damaged:
        listener.message(f"set aside in {store.folder('damaged')}, to be run again (checksum mismatch): {cell.label}")
    rescore_stale(store, sound, listener.message)
    missing = [cell for cell in cells if not store.is_done(cell)]
    if missing:
        _keep_sheets(missing, store, tasks, listener)
        if execution.networks_of is not None:
            n_taken = take_networks(RunStore(execution.networks_of).folder("networks"), store.folder("networks"))
            listener.message(f"took {n_taken} trained networks from {execution.networks_of}")
    listener.start(cells, missing)
    while missing:
        elsewhere = []
        for outcome in execution.make_executor(config, store, tasks, len(missing)).run(missing, listener):
            if outcome.status == "elsewhere":
                elsewhere.append(outcome.cell)
            elif outcome.record is not None:
                listener.cell_done(outcome.cell, outcome.record)
            else:
                listener.cell_failed(outcome.cell, outcome.reason, outcome.path)
            if should_stop():
                raise KeyboardInterrupt
        missing = _wait_for_others(store, elsewhere, listener)
    _warn_of_warm_up(store, cells, listener)
    listener.finish()
    return Plan(cells, [cell for cell in cells if not store.is_done(cell)], manifest)


def _cells(store: RunStore, tasks: TaskLoader) -> list[Cell]:
    store.check_usable()
    known = store.known_manifest()
    if known is not None:
        _check_same(known, tasks.config)
    cells = plan_cells(tasks)
    if known is not None:
        check_joining(store, known, tasks, cells)
    return cells


def _manifest(store: RunStore, config: RunConfig, cells: list[Cell], command: str) -> Manifest:
    """Return the manifest for the union of what the folder was for and what is asked now."""
    known = store.known_manifest()
    if known is not None:
        _check_same(known, config)
    return updated_manifest(known, cells, command=command, environment=environment(), config=config)


def _keep_sheets(cells: list[Cell], store: RunStore, tasks: TaskLoader, listener: Listener) -> None:
    """Keep a contact sheet of each task that is tested under CIFAR-10-C's corruptions; a run can do without."""
    for task, cell in {cell.task: cell for cell in cells}.items():
        if not {EvalSet(f"shift:{name}").name for name in tasks.load(cell).shifts}.issuperset(CORRUPTION_NAMES):
            continue
        path = store.sheet_path(task)
        try:
            sheet = corruption_sheet(tasks.definitions[task], tasks.options)
            if sheet is not None:
                path.parent.mkdir(exist_ok=True)
                write_png(path, sheet)
        except (VoltaError, OSError) as error:
            listener.message(f"no contact sheet of {task}'s corruptions: {error}")


def _warn_of_warm_up(store: RunStore, cells: list[Cell], listener: Listener) -> None:
    """Say how many of the paper's cells stopped within OneCycle's warm-up; the fair recipe stops nowhere."""
    done = [store.read_record(cell) for cell in cells if cell.protocol == "paper" and store.is_done(cell)]
    if done and (n_stopped := stopped_in_warmup(done)):
        listener.message(
            f"{n_stopped} of {len(done)} cells under paper stopped within the warm-up of the learning rate: "
            "their weights were never annealed"
        )


def _wait_for_others(store: RunStore, cells: list[Cell], listener: Listener) -> list[Cell]:
    """Wait until no other process is at work on ``cells``; return those that are still not done."""
    if cells:
        listener.message(f"waiting for {len(cells)} cells that another process is running")
    left = []
    for cell in cells:
        while not store.is_done(cell):
            lock = store.try_lock(cell)
            if lock is not None:
                lock.release()
                break
            time.sleep(WAIT_SECONDS)
        if store.is_done(cell):
            listener.cell_done(cell, store.read_record(cell))
        else:
            left.append(cell)
    return left


def _check_same(known: Manifest, config: RunConfig) -> None:
    before = known.config.fixed if known.config else {}
    for name, held in before.items():
        if (asked := config.fixed[name]) != held:
            words = _differing(name, held, asked)
            raise StoreError(
                f"--out holds a run with {words[0]}, now asked with {words[1]}; results of both would mix: "
                "name another --out"
            )


def _differing(name: str, before: Any, now: Any) -> tuple[str, str]:
    """Return both values in words; of an object the parts that differ."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return _words(name, before), _words(name, now)
    parts = [part for part in now if before.get(part) != now[part]]
    held, asked = (", ".join(_words(part, one.get(part)) for part in parts) for one in (before, now))
    return held, asked


def _words(name: str, value: object) -> str:
    return f"{name} {value}" + (" (--corruptions)" if (name, value) == ("shifts", "generated") else "")


def check_joining(store: RunStore, known: Manifest, tasks: TaskLoader, cells: list[Cell]) -> None:
    """Refuse names of external predictions in the same table, and other data than the folder's finished cells have."""
    _check_names(store, known, cells)
    asked: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        asked.setdefault((cell.task, cell.protocol), []).append(cell)
    for cell in in_order(known.others(cells)):
        alike = [one for one in asked.get((cell.task, cell.protocol), []) if _same_inputs(tasks, one, cell)]
        # Where samples or their scaling are drawn by the seed, those of another seed say nothing.
        others = [] if not alike or tasks.draws_by_seed(cell.task) else alike[:1]
        partner = next(iter([one for one in alike if one.seed == cell.seed] or others), None)
        record = _sound_record(store, cell)
        if partner is not None and record is not None and not _same_data(record, tasks.load(partner)):
            raise InputError(
                f"{store.root} holds {cell.label}, of other data than the task {cell.task!r} now has; results on both "
                "would be compared as if their rows were the same: name another --out (in Python out=…), or the task "
                "otherwise"
            )


def _check_names(store: RunStore, known: Manifest, cells: list[Cell]) -> None:
    asked = {(cell.task, cell.protocol, cell.method) for cell in cells}
    # A cell with the key of one that is asked for was planned, not stored from outside; its record need not be read.
    planned = set(cells)
    for cell in known.cells:
        if (cell.task, cell.protocol, cell.method) not in asked or cell in planned:
            continue
        record = _sound_record(store, cell)
        if record is not None and record.origin == EXTERNAL:
            raise InputError(
                f"{store.root} has external predictions called {cell.method!r} on {cell.task}; leave that method out, "
                "or name another --out (in Python out=…)"
            )


def _sound_record(store: RunStore, cell: Cell) -> CellRecord | None:
    """Return a finished cell's record, None of a damaged one: the run sets that aside and computes it again."""
    try:
        return store.read_record(cell) if store.is_done(cell) else None
    except StoreError:
        return None


def _same_inputs(tasks: TaskLoader, asked: Cell, kept: Cell) -> bool:
    """Whether two methods see the same kind of inputs; of one that is not the package's own, only under ``fair``."""
    if asked.protocol != "paper":
        return True
    if kept.method not in METHODS:
        return False
    definition, method = tasks.definitions[asked.task], type(tasks.methods[asked.method].method)
    return input_kind(definition, asked.protocol, method) == input_kind(definition, "paper", METHODS[kept.method])


def _same_data(record: CellRecord, task: Task) -> bool:
    if record.origin == EXTERNAL:
        return record.data["test"] == hash_array(np.asarray(task.test.labels, dtype=np.int64))
    return dict(record.data) == task.hashes
