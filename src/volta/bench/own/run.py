"""Own predictions become finished cells of a run folder, new or beside those that a benchmark put there."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from volta.bench.cells import SCHEMA, Cell
from volta.bench.environment import scoring_environment
from volta.bench.eval_set import EvalSet
from volta.bench.manifest import Manifest, RunSettings
from volta.bench.own.checking import check_name
from volta.bench.own.known_rows import known_rows, rows_of_task
from volta.bench.own.predictions import OwnModel, is_ood, stored_arrays
from volta.bench.own.rows import match_rows
from volta.bench.records import OWN, CellRecord
from volta.bench.rescoring import rescore
from volta.bench.scoring import metrics_of
from volta.bench.stamps import Stamps, scoring_stamp
from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.core.files import canonical_json, hash_array, hash_text
from volta.core.set_names import check_plain_name, plain_name
from volta.core.types import Array
from volta.data import TASKS, all_tasks
from volta.networks.recipe import Budget


@dataclass(frozen=True)
class Place:
    """Which task and protocol of a run folder own predictions belong to; ``named``: whether the task was asked for."""

    task: str
    protocol: str
    named: bool = False


def find_place(store: RunStore, task: str | None, protocol: str | None) -> Place:
    """Return where own predictions go: the one task and protocol that a run folder has, or a place of their own.

    In a new folder the task is called as the folder is, unless it is named, and the protocol is ``own``.
    """
    for option, name in (("--task", task), ("--protocol", protocol)):
        if name is not None:
            check_plain_name(name, option)
    if not store.has_manifest:
        return Place(task or _plain(store.root.resolve().name), protocol or OWN, named=task is not None)
    groups = list(dict.fromkeys((cell.task, cell.protocol) for cell in store.cells()))
    fitting = [group for group in groups if task in (None, group[0]) and protocol in (None, group[1])]
    if len(fitting) == 1:
        return Place(*fitting[0])
    held = ", ".join(f"{one} under {way}" for one, way in groups)
    if not fitting and task is not None:
        return Place(task, protocol or OWN, named=True)
    raise InputError(f"--out {store.root} holds {held}; say with --task and --protocol which one the rows are those of")


def add_predictions(
    store: RunStore,
    models: Sequence[OwnModel],
    place: Place,
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
    manifest = _manifest(store)
    _check_names(store, manifest, models, place)
    known = known_rows(store, manifest, place.task, place.protocol, [(one.method, one.seed) for one in models])
    if not known and place.named and place.task in all_tasks(data):
        known = rows_of_task(place.task, [model.seed for model in models], data)
    matched = match_rows(models, known)
    near_sets = _near_sets(store, manifest, matched, place, near)
    settings = _settings(manifest, place, matched)
    # One model's arrays at a time: what is stored may be larger than what was given.
    store.create()
    cells = [_store_model(store, model, place, near_sets, settings) for model in matched]
    with store.manifest_lock():
        # Another process may have added to it meanwhile.
        manifest = _manifest(store)
        manifest = _merged(manifest, _settings(manifest, place, matched), cells, command)
        store.write_manifest(manifest)
    _agree_on_near(_done_records(store, manifest, place), store, near_sets)
    return cells


def _manifest(store: RunStore) -> Manifest | None:
    return store.read_manifest() if store.has_manifest else None


def _store_model(store: RunStore, model: OwnModel, place: Place, near: Collection[str], settings: RunSettings) -> Cell:
    started = time.perf_counter()
    arrays = stored_arrays(model)
    cell = _cell(model, place, arrays)
    if store.is_done(cell) and store.is_intact(cell):
        return cell
    store.set_aside_damaged([cell])
    own_near = tuple(EvalSet.parse(name) for name in model.sets if name in near)
    metrics, floored = metrics_of(arrays, [one.name for one in own_near])
    record = CellRecord(
        cell=cell,
        title=model.method,
        origin=OWN,
        parameters={},
        budget=settings.budget,
        device=settings.device,
        threads=settings.threads,
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
        stamps=Stamps("", "", scoring_stamp()),
    )
    lock = store.try_lock(cell)
    if lock is None:
        raise InputError(f"{cell.label} is being stored by another process; wait for it, then try again")
    with lock:
        if not store.is_done(cell):
            store.write_cell(record, arrays)
    return cell


def _cell(model: OwnModel, place: Place, arrays: dict[str, Array]) -> Cell:
    decisive = {
        "schema": SCHEMA,
        "task": place.task,
        "protocol": place.protocol,
        "method": model.method,
        "seed": model.seed,
        "predictions": {name: hash_array(np.ascontiguousarray(values)) for name, values in arrays.items()},
    }
    return Cell(place.task, place.protocol, model.method, model.seed, hash_text(canonical_json(decisive)))


def _check_names(store: RunStore, manifest: Manifest | None, models: Sequence[OwnModel], place: Place) -> None:
    """Refuse the name of a method that was benchmarked here."""
    taken = {
        cell.method
        for cell in (manifest.cells if manifest else ())
        if (cell.task, cell.protocol) == (place.task, place.protocol)
        and not (store.is_done(cell) and store.read_record(cell).origin == OWN)
    }
    for model in models:
        if model.method in taken:
            raise InputError(
                f"{model.where}: {store.root} has a benchmarked method called {model.method!r}; name yours otherwise: "
                "--method NAME"
            )


def _near_sets(
    store: RunStore, manifest: Manifest | None, models: Sequence[OwnModel], place: Place, near: Collection[str]
) -> frozenset[str]:
    """Return the OOD sets that are near for every method: those asked for now, and those that the run has as near."""
    given = list(dict.fromkeys(name for model in models for name in model.sets if is_ood(name)))
    for name in near:
        if f"ood:{name}" not in given:
            known = ", ".join(one.removeprefix("ood:") for one in given) or "none"
            raise InputError(f"--near is {name!r}; the OOD sets are: {known}")
    asked, held = {f"ood:{name}" for name in near}, set[str]()
    for record in _done_records(store, manifest, place):
        known_near = {str(one) for one in record.near_ood}
        held |= known_near
        if record.origin != OWN and (far := sorted(asked & set(record.rows) - known_near)):
            raise InputError(
                f"--near is {far[0].removeprefix('ood:')!r}, which {store.root} counts as far; leave it out, or "
                "evaluate in another folder"
            )
    return frozenset(asked | held)


def _done_records(store: RunStore, manifest: Manifest | None, place: Place) -> list[CellRecord]:
    """Return the records of a place's finished cells."""
    return [
        store.read_record(cell)
        for cell in (manifest.cells if manifest else ())
        if (cell.task, cell.protocol) == (place.task, place.protocol) and store.is_done(cell)
    ]


def _agree_on_near(records: Sequence[CellRecord], store: RunStore, near: Collection[str]) -> None:
    """Score own predictions again for which other sets were near: a table's means are over the same sets."""
    for record in records:
        wanted = tuple(EvalSet.parse(name) for name in record.rows if name in near)
        if record.origin == OWN and set(wanted) != set(record.near_ood):
            rescore(store, replace(record, near_ood=wanted))


def _settings(manifest: Manifest | None, place: Place, models: Sequence[OwnModel]) -> RunSettings:
    asked = RunSettings(
        tasks=(place.task,),
        methods=tuple(dict.fromkeys(model.method for model in models)),
        protocols=(place.protocol,),
        seeds=tuple(dict.fromkeys(model.seed for model in models)),
        budget=Budget(),
        device="cpu",
        threads=1,
        backbone=None,
        weights=None,
        severities=(1,),
        shifts="auto",
    )
    if manifest is None:
        return asked
    fixed = manifest.config
    return fixed.extended(
        replace(fixed, tasks=asked.tasks, methods=asked.methods, protocols=asked.protocols, seeds=asked.seeds)
    )


def _merged(manifest: Manifest | None, settings: RunSettings, cells: list[Cell], command: str) -> Manifest:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    commands = (command,) if command else ()
    if manifest is None:
        return Manifest(now, now, settings, tuple(cells), commands, scoring_environment())
    asked = {(cell.block, cell.method) for cell in cells}
    kept = [cell for cell in manifest.cells if (cell.block, cell.method) not in asked]
    return replace(
        manifest,
        updated=now,
        config=settings,
        cells=(*kept, *cells),
        commands=tuple(dict.fromkeys([*manifest.commands, *commands])),
    )


def _plain(name: str) -> str:
    """Return a folder's name as that of a task, and never that of a task that comes with the package."""
    plain = plain_name(name).strip(".") or OWN
    return f"{OWN}-{plain}" if plain in TASKS else plain
