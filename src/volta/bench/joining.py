"""What a run folder holds already against what is asked now: cells that stay beside new ones must be comparable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from volta.bench.cells import Cell, in_order
from volta.bench.config import RunConfig, TaskLoader, input_kind
from volta.bench.manifest import Manifest
from volta.bench.records import OWN, CellRecord
from volta.bench.store import RunStore
from volta.core.errors import InputError, StoreError
from volta.core.files import hash_array
from volta.core.types import Task
from volta.methods import METHODS


def kept_cells(known: Manifest, cells: Sequence[Cell]) -> list[Cell]:
    """Return the folder's cells that those asked for do not replace."""
    asked = {(cell.block, cell.method) for cell in cells}
    return [cell for cell in known.cells if (cell.block, cell.method) not in asked]


def check_joining(store: RunStore, known: Manifest, config: RunConfig, tasks: TaskLoader, cells: list[Cell]) -> None:
    """Refuse names that own predictions have in the same table, and other data than finished cells there are of."""
    _check_names(store, known, cells)
    asked: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        asked.setdefault((cell.task, cell.protocol), []).append(cell)
    for cell in in_order(kept_cells(known, cells)):
        beside = asked.get((cell.task, cell.protocol), [])
        alike = [one for one in beside if _same_inputs(config, one, cell)]
        # Where rows or their scaling are drawn by the seed, those of another seed say nothing.
        others = [] if config.draws_by_seed(cell.task) else alike[:1]
        partner = next(iter([one for one in alike if one.seed == cell.seed] or others), None)
        record = _sound_record(store, cell)
        if partner is None or record is None:
            continue
        task = tasks.task_for(partner.task, partner.protocol, partner.method, partner.seed)
        if not _same_data(record, task):
            raise InputError(
                f"{store.root} holds {cell.label}, of other data than the task {cell.task!r} now has; results on both "
                "would be compared as if their rows were the same: name another --out (in Python out=…), or the task "
                "otherwise"
            )


def _check_names(store: RunStore, known: Manifest, cells: Sequence[Cell]) -> None:
    asked = {(cell.task, cell.protocol, cell.method) for cell in cells}
    # A cell with the key of one that is asked for was planned, not brought along; its record need not be read.
    planned = set(cells)
    for cell in known.cells:
        if (cell.task, cell.protocol, cell.method) not in asked or cell in planned:
            continue
        record = _sound_record(store, cell)
        if record is not None and record.origin == OWN:
            raise InputError(
                f"{store.root} has own predictions called {cell.method!r} on {cell.task}; leave that method out, or "
                "name another --out (in Python out=…)"
            )


def _sound_record(store: RunStore, cell: Cell) -> CellRecord | None:
    """Return a finished cell's record, None of a damaged one: the run sets that aside and computes it anew."""
    try:
        return store.read_record(cell) if store.is_done(cell) else None
    except StoreError:
        return None


def _same_inputs(config: RunConfig, asked: Cell, kept: Cell) -> bool:
    """Whether two methods see the same kind of inputs; of one that is not the package's own, only under ``fair``."""
    if asked.protocol != "paper":
        return True
    if kept.method not in METHODS:
        return False
    source = config.source(asked.task)
    return input_kind(source, asked.protocol, asked.method) == input_kind(source, kept.protocol, kept.method)


def _same_data(record: CellRecord, task: Task) -> bool:
    if record.origin == OWN:
        return record.data["test"] == hash_array(np.asarray(task.test.labels, dtype=np.int64))
    return dict(record.data) == task.hashes
