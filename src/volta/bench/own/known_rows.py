"""The rows that own predictions have to be of: those of a run's finished cells, or those of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from volta.bench.cells import Cell
from volta.bench.eval_set import TEST, VAL
from volta.bench.manifest import Manifest
from volta.bench.own.predictions import is_ood
from volta.bench.own.rows import Reference, RowsKey
from volta.bench.records import OWN
from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.core.types import Array

_HELD_OUT = ("train", "cal", VAL)


def known_rows(
    store: RunStore, manifest: Manifest | None, task: str, protocol: str, models: Iterable[tuple[str, int]]
) -> dict[RowsKey, Reference]:
    """Return the rows of each set that finished cells of a task and protocol have, for the seeds of ``models``.

    Cells of ``models`` (method, seed) themselves do not count: they are about to be replaced.
    """
    replaced = set(models)
    cells = [
        cell
        for cell in (manifest.cells if manifest else ())
        if (cell.task, cell.protocol) == (task, protocol)
        and (cell.method, cell.seed) not in replaced
        and store.is_done(cell)
    ]
    if not cells:
        return {}
    found: dict[RowsKey, Reference] = {}
    if all(store.read_record(cell).origin == OWN for cell in cells):
        # Seeds may be folds: rows of another seed serve where ids say that they are the same ones.
        for cell in cells:
            _add_rows(found, store, cell, cell.seed)
        return found
    for seed in dict.fromkeys(seed for _, seed in replaced):
        for cell in _cells_of(store, cells, seed):
            _add_rows(found, store, cell, seed)
    return found


def rows_of_task(task: str, seeds: Iterable[int], data: Path | None) -> dict[RowsKey, Reference]:
    """Return the rows of a task that is there, by seed where they rotate with it."""
    from volta.bench.config import RunConfig, TaskLoader
    from volta.data import LoadOptions

    config = RunConfig(tasks=(task,), methods=("softmax",), options=LoadOptions(data))
    loader = TaskLoader(config, map_shards=None)
    found: dict[RowsKey, Reference] = {}
    for seed in dict.fromkeys(seeds):
        whole = loader.task_for(task, "fair", "softmax", seed)
        who = f"task {task}"
        found[seed, str(TEST)] = Reference(who, len(whole.test), whole.test.labels, numbered=True)
        for name, ood_set in whole.ood.items():
            found[seed, f"ood:{name}"] = Reference(who, len(ood_set.inputs), numbered=True)
        for name, shifted in whole.shifts.items():
            found[seed, f"shift:{name}"] = Reference(who, len(shifted), shifted.labels, numbered=True)
    return found


def _cells_of(store: RunStore, cells: Sequence[Cell], seed: int) -> Sequence[Cell]:
    """Return the cells with the test rows of a seed; those of others will do where all seeds have the same rows."""
    same = [cell for cell in cells if cell.seed == seed]
    if same:
        return same
    by_seed = {cell.seed: cell for cell in cells}
    rows = {_labels(store, cell).tobytes() for cell in by_seed.values()}
    if len(rows) > 1:
        raise InputError(
            f"{store.root} has other test rows for every seed, and none for seed {seed}; its seeds are "
            f"{', '.join(map(str, by_seed))}: say which one yours are of, --seed N or METHOD-N.npz"
        )
    return cells


def _labels(store: RunStore, cell: Cell) -> Array:
    return np.asarray(store.read_arrays(cell, ["test/labels"])["test/labels"], dtype=np.int64)


def _add_rows(found: dict[RowsKey, Reference], store: RunStore, cell: Cell, seed: int) -> None:
    """Add the rows of those sets of a cell that no cell before it had."""
    record = store.read_record(cell)
    # Training rows have no predictions, and everyone may hold out rows of their own.
    new = [name for name in record.rows if name not in _HELD_OUT and (seed, name) not in found]
    if not new:
        return
    arrays = store.arrays_of(record, [f"{name}/{kind}" for name in new for kind in ("id", "labels", "ood_score")])
    who = f"{cell.method} in {store.root}"
    for name in new:
        ids = arrays.get(f"{name}/id")
        labels = None if is_ood(name) else arrays[f"{name}/labels"].astype(np.int64)
        n_rows = len(arrays[f"{name}/ood_score"]) if labels is None else len(labels)
        found[seed, name] = Reference(who, n_rows, labels, ids, numbered=ids is None)
