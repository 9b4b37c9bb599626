"""External predictions matched to the rows of a run or a task, and stored as finished cells."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import TEST, VAL, EvalSet, metrics_of
from volta.bench.records import (
    EXTERNAL,
    SCHEMA,
    Cell,
    CellRecord,
    Fingerprints,
    Manifest,
    scoring_environment,
    scoring_fingerprint,
    updated_manifest,
)
from volta.bench.store import RunStore, rescore
from volta.core.errors import InputError
from volta.core.files import canonical_json, hash_array, hash_text
from volta.core.types import Array, check_plain_name, plain_name
from volta.data import TASKS, LoadOptions, all_tasks, find_task
from volta.data.task import WholeTask
from volta.networks.recipe import Budget
from volta.predictions.external_model import ExternalModel, RowSet, check_name, is_ood, stored_arrays


@dataclass(frozen=True, eq=False)
class Reference:
    """The rows of a set that every model has to have: how many, their labels and ids where known, and who said so.

    ``numbered``: the rows have no ids of their own, so that ids that are 0 … n − 1 count as their numbers.
    """

    who: str
    n_rows: int
    labels: Array | None = None
    ids: Array | None = None
    numbered: bool = False


RowsKey = tuple[int, str]
"""(seed, set): even OOD rows may be others for every seed."""


def match_rows(models: Iterable[ExternalModel], known: Mapping[RowsKey, Reference]) -> list[ExternalModel]:
    """Return the models with their rows in the order of ``known`` or, where that says nothing, of the first model.

    Methods are paired row by row within a seed, so within a seed the rows of each set must be the same. Seeds may have
    rows of their own (folds); where their ids are the same rows, they are put in the same order.
    """
    references = dict(known)
    matched = []
    n_classes: tuple[str, int | None] | None = None
    for model in models:
        own = model.label, model.sets["test"].n_classes
        n_classes = n_classes or own
        if own[1] != n_classes[1]:
            raise InputError(
                f"{model.where}: {own[0]} has {own[1]} classes but {n_classes[0]} has {n_classes[1]}; evaluate other "
                "classes in another run"
            )
        sets = {}
        for name, rows in model.sets.items():
            where = model.seed, name
            if where not in references:
                first = Reference(f"{model.label} in {model.where}", len(rows), rows.labels, rows.ids)
                # Those of an earlier seed where that has exactly these ids.
                earlier = (
                    other
                    for (_, set_name), other in references.items()
                    if set_name == name and other.ids is not None and rows.ids is not None
                    if np.array_equal(np.sort(other.ids), np.sort(rows.ids))
                )
                references[where] = next(earlier, first)
            sets[name] = _matched(rows, references[where])
        matched.append(replace(model, sets=sets))
    return matched


def _matched(rows: RowSet, reference: Reference) -> RowSet:
    ordered = _in_order(rows, reference)
    if len(ordered) != reference.n_rows:
        raise InputError(
            f"{rows.where} has {len(rows)} rows but {reference.who} has {reference.n_rows}; evaluate the same rows"
        )
    if ordered.labels is not None and reference.labels is not None:
        differs = ordered.labels != reference.labels
        if differs.any():
            row = int(np.argmax(differs))
            given, held = ordered.labels[row], reference.labels[row]
            ordered.refuse(row, f"label {given} where {reference.who} has {held}; put the same rows in the same "
                                "order, or add a column id to both")  # fmt: skip
    return ordered


def _in_order(rows: RowSet, reference: Reference) -> RowSet:
    wanted = np.arange(reference.n_rows) if reference.numbered and rows.ids is not None else reference.ids
    if rows.ids is None and wanted is None:
        return rows
    if rows.ids is None or wanted is None:
        has, lacks = (rows.where, reference.who) if wanted is None else (reference.who, rows.where)
        raise InputError(f"{has} has ids but {lacks} has none; give all files a column id, or none")
    if rows.ids.dtype.kind != wanted.dtype.kind and "U" in (rows.ids.dtype.kind, wanted.dtype.kind):
        raise InputError(
            f"{rows.where} has ids such as {rows.ids[0]}, {reference.who} such as {wanted[0]}; use the same"
        )
    if len(rows.ids) == len(wanted) and np.array_equal(rows.ids, wanted):
        return rows
    order = np.argsort(rows.ids, kind="stable")
    unknown = ~np.isin(rows.ids, wanted)
    if unknown.any():
        row = int(np.argmax(unknown))
        numbered = ", whose rows are numbered from 0" if reference.numbered else ""
        rows.refuse(row, f"id {rows.ids[row]} is not among those of {reference.who}{numbered}; evaluate the same rows")
    missing = ~np.isin(wanted, rows.ids)
    if missing.any():
        lacking = wanted[int(np.argmax(missing))]
        raise InputError(f"{rows.where} lacks id {lacking}, which {reference.who} has; evaluate the same rows")
    found: NDArray[np.intp] = order[np.searchsorted(rows.ids[order], wanted)]
    return rows.take(found)


_HELD_OUT = ("train", "cal", VAL)


def known_rows(
    store: RunStore, records: Iterable[CellRecord], models: Iterable[ExternalModel]
) -> dict[RowsKey, Reference]:
    """Return the rows of each set that finished cells have, for the seeds of ``models``.

    Cells of ``models`` themselves do not count: they are about to be replaced.
    """
    replaced = {(model.method, model.seed) for model in models}
    others = [record for record in records if (record.cell.method, record.cell.seed) not in replaced]
    found: dict[RowsKey, Reference] = {}
    if all(record.origin == EXTERNAL for record in others):
        # Seeds may be folds: rows of another seed serve where ids say that they are the same ones.
        for record in others:
            _add_rows(found, store, record, record.cell.seed)
        return found
    for seed in dict.fromkeys(seed for _, seed in replaced):
        for record in _records_of(store, others, seed):
            _add_rows(found, store, record, seed)
    return found


def rows_of_task(task: str, seeds: Iterable[int], data: Path | None) -> dict[RowsKey, Reference]:
    """Return the rows of a task that is there, by seed where they rotate with it."""
    from volta.features.extract import Extraction, load_task

    definition, options = find_task(task, data), LoadOptions(data)
    found: dict[RowsKey, Reference] = {}
    for seed in dict.fromkeys(seeds):
        if isinstance(definition, WholeTask):
            whole = definition.load("features", options)
        else:
            by_seed = replace(options, seed=seed) if definition.rotates else options
            whole = load_task(definition, "features", by_seed, Extraction(map_shards=None))
        who = f"task {task}"
        found[seed, str(TEST)] = Reference(who, len(whole.test), whole.test.labels, numbered=True)
        for name, ood_set in whole.ood.items():
            found[seed, f"ood:{name}"] = Reference(who, len(ood_set.inputs), numbered=True)
        for name, shifted in whole.shifts.items():
            found[seed, f"shift:{name}"] = Reference(who, len(shifted), shifted.labels, numbered=True)
    return found


def _records_of(store: RunStore, records: Sequence[CellRecord], seed: int) -> Sequence[CellRecord]:
    """Return the records with the test rows of a seed; those of others will do where all seeds have the same rows."""
    same = [record for record in records if record.cell.seed == seed]
    if same:
        return same
    by_seed = {record.cell.seed: record for record in records}
    labels = (store.arrays_of(record, ["test/labels"])["test/labels"] for record in by_seed.values())
    rows = {array.astype(np.int64).tobytes() for array in labels}
    if len(rows) > 1:
        raise InputError(
            f"{store.root} has other test rows for every seed, and none for seed {seed}; its seeds are "
            f"{', '.join(map(str, by_seed))}: say which one yours are of, --seed N or METHOD-N.npz"
        )
    return records


def _add_rows(found: dict[RowsKey, Reference], store: RunStore, record: CellRecord, seed: int) -> None:
    """Add the rows of those sets of a cell that no cell before it had."""
    # Training rows have no predictions, and everyone may hold out rows of their own.
    new = [name for name in record.rows if name not in _HELD_OUT and (seed, name) not in found]
    if not new:
        return
    arrays = store.arrays_of(record, [f"{name}/{kind}" for name in new for kind in ("id", "labels", "ood_score")])
    who = f"{record.cell.method} in {store.root}"
    for name in new:
        ids = arrays.get(f"{name}/id")
        labels = None if is_ood(name) else arrays[f"{name}/labels"].astype(np.int64)
        n_rows = len(arrays[f"{name}/ood_score"]) if labels is None else len(labels)
        found[seed, name] = Reference(who, n_rows, labels, ids, numbered=ids is None)


@dataclass(frozen=True)
class Destination:
    """The task and protocol in a run folder that external predictions belong to; ``named``: the task was asked for."""

    task: str
    protocol: str
    named: bool = False


def find_destination(store: RunStore, task: str | None, protocol: str | None) -> Destination:
    """Return where external predictions go: the one task and protocol that a run folder has, or a place of their own.

    In a new folder the task is called as the folder is, unless it is named, and the protocol is ``external``.
    """
    for option, name in (("--task", task), ("--protocol", protocol)):
        if name is not None:
            check_plain_name(name, option)
    if not store.has_manifest:
        return Destination(task or _plain(store.root.resolve().name), protocol or EXTERNAL, named=task is not None)
    groups = list(dict.fromkeys((cell.task, cell.protocol) for cell in store.cells()))
    fitting = [group for group in groups if task in (None, group[0]) and protocol in (None, group[1])]
    if len(fitting) == 1:
        return Destination(*fitting[0])
    held = ", ".join(f"{one} under {way}" for one, way in groups)
    if not fitting and task is not None:
        return Destination(task, protocol or EXTERNAL, named=True)
    raise InputError(f"--out {store.root} holds {held}; say with --task and --protocol which one the rows are those of")


def add_predictions(
    store: RunStore,
    models: Sequence[ExternalModel],
    place: Destination,
    *,
    near: Collection[str] = (),
    command: str = "",
    data: Path | None = None,
) -> list[Cell]:
    """Store every model as a finished cell and return the cells; all is checked before anything is written.

    Rows have to be those of the cells that are there; in a new folder those of the task that was named, if it is
    known, and of each other. A method of an earlier evaluation is replaced, a benchmarked one never.
    near: the OOD sets, by their names, that are near; all others are far, those that the run knows as it knows them.
    """
    for model in models:
        check_name(model)
    store.check_usable()
    manifest = store.known_manifest()
    cells = _cells_of(manifest, place)
    done = [store.read_record(cell) for cell in cells if store.is_done(cell)]
    _check_names(store, models, cells, done)
    rows = known_rows(store, done, models)
    if not rows and place.named and place.task in all_tasks(data):
        rows = rows_of_task(place.task, [model.seed for model in models], data)
    matched = match_rows(models, rows)
    near_sets = _near_sets(store, done, matched, near)
    # One model's arrays at a time: what is stored may be larger than what was given.
    store.create()
    added = [_store_model(store, model, place, near_sets) for model in matched]
    with store.manifest_lock():
        # Another process may have added to it meanwhile.
        known = store.known_manifest()
        manifest = updated_manifest(known, added, command=command, environment=scoring_environment())
        store.write_manifest(manifest)
    for cell in _cells_of(manifest, place):
        if store.is_done(cell):
            _agree_on_near(store.read_record(cell), store, near_sets)
    return added


def _store_model(store: RunStore, model: ExternalModel, place: Destination, near: Collection[str]) -> Cell:
    arrays = stored_arrays(model)
    cell = make_cell(model, place, arrays)
    if store.is_done(cell) and store.is_intact(cell):
        return cell
    store.set_aside_damaged([cell])
    record = make_record(model, cell, arrays, near)
    lock = store.try_lock(cell)
    if lock is None:
        raise InputError(f"{cell.label} is being stored by another process; wait for it, then try again")
    with lock:
        if not store.is_done(cell):
            store.write_cell(record, arrays)
    return cell


def make_record(
    model: ExternalModel, cell: Cell, arrays: Mapping[str, Array], near: Collection[str] = ()
) -> CellRecord:
    """Return the record of external predictions; ``near``: the OOD sets that are near, as ``ood:NAME``."""
    started = time.perf_counter()
    own_near = tuple(EvalSet(name) for name in model.sets if name in near)
    metrics, floored = metrics_of(arrays, [one.name for one in own_near])
    return CellRecord(
        cell=cell,
        title=model.method,
        origin=EXTERNAL,
        parameters={},
        budget=Budget(),
        device="cpu",
        threads=1,
        data={name: hash_array(rows.labels) for name, rows in model.sets.items() if rows.labels is not None},
        source=f"predictions from {Path(model.where).name}",
        backbone=None,
        rows={name: len(rows) for name, rows in model.sets.items()},
        near_ood=own_near,
        metrics=metrics,
        floored_rows=floored,
        notes=(),
        environment=scoring_environment(),
        wall_s=time.perf_counter() - started,
        fingerprints=Fingerprints("", "", scoring_fingerprint()),
    )


def make_cell(model: ExternalModel, place: Destination, arrays: Mapping[str, Array]) -> Cell:
    """Return the cell of external predictions, its key made of them."""
    decisive = {
        "schema": SCHEMA,
        "task": place.task,
        "protocol": place.protocol,
        "method": model.method,
        "seed": model.seed,
        "predictions": {name: hash_array(np.ascontiguousarray(values)) for name, values in arrays.items()},
    }
    return Cell(place.task, place.protocol, model.method, model.seed, hash_text(canonical_json(decisive)))


def _check_names(
    store: RunStore, models: Sequence[ExternalModel], cells: Sequence[Cell], done: Sequence[CellRecord]
) -> None:
    """Refuse the name of a method that was benchmarked here."""
    external = {record.cell for record in done if record.origin == EXTERNAL}
    taken = {cell.method for cell in cells if cell not in external}
    for model in models:
        if model.method in taken:
            raise InputError(
                f"{model.where}: {store.root} has a benchmarked method called {model.method!r}; name yours otherwise: "
                "--method NAME"
            )


def _near_sets(
    store: RunStore, done: Sequence[CellRecord], models: Sequence[ExternalModel], near: Collection[str]
) -> frozenset[str]:
    """Return the OOD sets that are near for every method: those asked for now, and those that the run has as near."""
    given = list(dict.fromkeys(name for model in models for name in model.sets if is_ood(name)))
    for name in near:
        if f"ood:{name}" not in given:
            known = ", ".join(one.removeprefix("ood:") for one in given) or "none"
            raise InputError(f"--near is {name!r}; the OOD sets are: {known}")
    asked, held = {f"ood:{name}" for name in near}, set[str]()
    for record in done:
        known_near = {str(one) for one in record.near_ood}
        held |= known_near
        if record.origin != EXTERNAL and (far := sorted(asked & set(record.rows) - known_near)):
            raise InputError(
                f"--near is {far[0].removeprefix('ood:')!r}, which {store.root} counts as far; leave it out, or "
                "evaluate in another folder"
            )
    return frozenset(asked | held)


def _cells_of(manifest: Manifest | None, place: Destination) -> list[Cell]:
    cells = manifest.cells if manifest else ()
    return [cell for cell in cells if (cell.task, cell.protocol) == (place.task, place.protocol)]


def _agree_on_near(record: CellRecord, store: RunStore, near: Collection[str]) -> None:
    """Score external predictions again for which other sets were near: a table's means are over the same sets."""
    wanted = tuple(EvalSet(name) for name in record.rows if name in near)
    if record.origin == EXTERNAL and set(wanted) != set(record.near_ood):
        rescore(store, replace(record, near_ood=wanted))


def _plain(name: str) -> str:
    """Return a folder's name as that of a task, and never that of a task that comes with the package."""
    plain = plain_name(name).strip(".") or EXTERNAL
    return f"{EXTERNAL}-{plain}" if plain in TASKS else plain
