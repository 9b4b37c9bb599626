"""Run what is missing of a plan; store what finishes; keep failures apart and go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from volta.bench.cell_metrics import EvalSet
from volta.bench.config import RunConfig, TaskLoader, plan_cells
from volta.bench.executors import Executor
from volta.bench.keys import Cell
from volta.bench.progress import Estimate, Listener, estimate_seconds
from volta.bench.records import Manifest, environment, stopped_in_climb
from volta.bench.store import RunStore, check_joining, kept_cells, rescore_stale
from volta.core.errors import StoreError, VoltaError
from volta.core.files import write_png
from volta.data import CORRUPTION_NAMES, corruption_sheet
from volta.features.extract import MapShards

WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class RunSummary:
    """How a run ended."""

    n_cells: int
    n_run: int
    n_failed: int


@dataclass(frozen=True)
class Plan:
    """The cells asked for, those of them that are missing, and what the missing ones may cost."""

    cells: list[Cell]
    missing: list[Cell]
    estimate: Estimate | None


def make_plan(config: RunConfig, store: RunStore) -> Plan:
    """Return the plan without touching the folder; refuse a folder that is not a run or has another budget.

    Raises ``NotExtractedError`` where the plan depends on features that are still to be extracted.
    """
    cells = _cells(config, store, TaskLoader(config, map_shards=None))
    missing = [cell for cell in cells if not store.is_done(cell)]
    return Plan(cells, missing, estimate_seconds(store, cells, missing))


def run(
    config: RunConfig,
    store: RunStore,
    listener: Listener,
    command: str,
    make_executor: Callable[[TaskLoader, int], Executor],
    map_shards: MapShards = map,
    should_stop: Callable[[], bool] = lambda: False,
) -> RunSummary:
    """Bring the run folder up to ``config``: run every cell that is not finished, and only those.

    Finished cells whose metrics were computed by other code than today's are scored again from their predictions.

    ``make_executor`` is given the loaded tasks and the number of cells to run. ``map_shards`` spreads the extraction of
    features, where images have to be turned into them first. ``should_stop`` is asked after every cell.
    """
    listener.phase("reading " + ", ".join(config.tasks))
    tasks = TaskLoader(config, listener.extracting, map_shards, listener.message)
    cells = _cells(config, store, tasks)
    store.create()
    with store.manifest_lock():
        store.write_manifest(_merge(_known(store), config, cells, command))
        damaged, sound = store.set_aside_damaged(cells)
    for cell in damaged:
        listener.message(f"set aside in {store.damaged_folder}, to be run again (checksum mismatch): {cell.label}")
    rescore_stale(store, sound, listener.message)
    missing = [cell for cell in cells if not store.is_done(cell)]
    if missing:
        _keep_sheets(missing, config, store, tasks, listener)
    listener.start(cells, missing)
    n_run = n_failed = 0
    while missing:
        elsewhere = []
        for outcome in make_executor(tasks, len(missing)).run(missing, listener):
            if outcome.status == "elsewhere":
                elsewhere.append(outcome.cell)
            elif outcome.record is not None:
                n_run += 1
                listener.cell_done(outcome.cell, outcome.record)
            else:
                n_failed += 1
                listener.cell_failed(outcome.cell, outcome.reason, outcome.path)
            if should_stop():
                raise KeyboardInterrupt
        missing = _wait_for_others(store, elsewhere, listener)
    _tell_of_the_climb(store, cells, listener)
    listener.finish()
    n_failed = max(n_failed, sum(not store.is_done(cell) for cell in cells))
    return RunSummary(len(cells), n_run, n_failed)


def _cells(config: RunConfig, store: RunStore, tasks: TaskLoader) -> list[Cell]:
    store.check_usable()
    known = _known(store)
    if known is not None:
        _check_same(known, config)
    cells = plan_cells(config, tasks)
    if known is not None:
        check_joining(store, known, config, tasks, cells)
    return cells


def _keep_sheets(cells: list[Cell], config: RunConfig, store: RunStore, tasks: TaskLoader, listener: Listener) -> None:
    """Keep a contact sheet of each task that is tested under CIFAR-10-C's corruptions; a run can do without."""
    for task, cell in {cell.task: cell for cell in cells}.items():
        shifts = tasks.task_for(task, cell.protocol, cell.method, cell.seed).shifts
        if not {EvalSet.parse(f"shift:{name}").name for name in shifts}.issuperset(CORRUPTION_NAMES):
            continue
        path = store.sheet_path(task)
        try:
            sheet = corruption_sheet(task, config.options)
            if sheet is not None:
                path.parent.mkdir(exist_ok=True)
                write_png(path, sheet)
        except (VoltaError, OSError) as error:
            listener.message(f"no contact sheet of {task}'s corruptions: {error}")


def _tell_of_the_climb(store: RunStore, cells: list[Cell], listener: Listener) -> None:
    """Say how many of the paper's cells stopped within OneCycle's climb; the fair recipe stops nowhere."""
    done = [store.read_record(cell) for cell in cells if cell.protocol == "paper" and store.is_done(cell)]
    if done and (n_stopped := stopped_in_climb(done)):
        listener.message(
            f"{n_stopped} of {len(done)} cells under paper stopped within the climb of the learning rate: "
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


def _known(store: RunStore) -> Manifest | None:
    return store.read_manifest() if store.has_manifest else None


def _check_same(known: Manifest, config: RunConfig) -> None:
    before = known.config.fixed
    for name, value in config.settings.fixed.items():
        if before[name] != value:
            held, asked = _differing(name, before[name], value)
            raise StoreError(
                f"--out holds a run with {held}, now asked with {asked}; results of both would mix: name another --out"
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


def _merge(known: Manifest | None, config: RunConfig, cells: list[Cell], command: str) -> Manifest:
    """Return the manifest for the union of what the folder was for and what is asked now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if known is None:
        return Manifest(now, now, config.settings, tuple(cells), (command,), environment())
    _check_same(known, config)
    return Manifest(
        created=known.created,
        updated=now,
        config=known.config.extended(config.settings),
        cells=(*kept_cells(known, cells), *cells),
        commands=tuple(dict.fromkeys([*known.commands, command])),
        environment=environment(),
    )
