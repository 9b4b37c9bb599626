"""Imported tasks on disk: ``imported/NAME/task.json`` beside content-named npy files, opened as memory maps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_file
from volta.core.types import Array, EncoderKind, InputKind, OodSet, Split, Task
from volta.data.cifar10c import generated_shifts
from volta.data.feature_files import has_features, read_feature_sets
from volta.data.missing import missing_features
from volta.data.options import LoadOptions, cache_folder
from volta.data.prepare import HALF, Preparation, make_task
from volta.data.rows import CorruptionOrigin, LazyMapping, RawSets

SCHEMA = 1
TASK_FILE = "task.json"
ARRAYS = "arrays"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.]|-(?!-)){0,62}")


@dataclass(frozen=True)
class ImportedTask:
    """What a list of tasks says of an imported one."""

    name: str
    kind: InputKind
    encoder: EncoderKind
    title: str


def task_folder(root: Path, name: str) -> Path:
    """Return where the imported task ``name`` lies; refuse names that are no plain file name."""
    if not _NAME.fullmatch(name) or name.endswith((".", "-")):
        raise InputError(
            f"name is {name!r}; pass up to 63 lower-case letters and digits, with single - _ . between them"
        )
    return root / "imported" / name


def imported_tasks(root: Path) -> list[ImportedTask]:
    """Return the imported tasks under ``root`` by name; one whose file is damaged is listed as such."""
    tasks = []
    for path in sorted((root / "imported").glob(f"[!.]*/{TASK_FILE}")):
        try:
            record = read_record(root, path.parent.name)
            title = f"{record['title']}, {len(record['class_names'])} classes"
            tasks.append(ImportedTask(path.parent.name, record["kind"], record["encoder"], title))
        except InputError as error:
            tasks.append(ImportedTask(path.parent.name, "features", "tabular", f"damaged: {error}"))
    return tasks


def read_record(root: Path, name: str) -> dict[str, Any]:
    """Return the description of an imported task."""
    path = task_folder(root, name) / TASK_FILE
    if not path.is_file():
        raise MissingDataError(
            f"there is no imported task {name!r} under {root}: missing {path.relative_to(root)}\n"
            f"import it with: volta data import SRC --name {name} --data {root}   or point at it with: --data DIR"
        )
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}); import the task again with --force") from error
    if record.get("schema") != SCHEMA:
        raise InputError(
            f"{path} has schema {record.get('schema')}, this volta reads {SCHEMA}; import the task again with --force"
        )
    return record


def read_imported_sets(name: str, options: LoadOptions) -> RawSets:
    """Return the sets of an imported task as memory maps; images can have CIFAR-10-C's corruptions ``generated``."""
    record = read_record(options.folder, name)
    folder = task_folder(options.folder, name) / ARRAYS
    described = {} if options.shifts == "none" else record["shifts"]
    parts = {part: _split(folder, record["parts"][part]) for part in ("train", "val", "cal", "test")}
    origin: CorruptionOrigin = "none"
    shifts: dict[str, Callable[[], Split]] = {key: partial(_split, folder, part) for key, part in described.items()}
    if options.shifts == "generated" and record["kind"] == "pixels":
        generated = generated_shifts(parts["test"], options.severities, cache_folder())
        if both := sorted(set(generated) & set(shifts)):
            raise InputError(
                f"{name} has a shift {both[0]!r} of its own, which --corruptions would make too; leave its severity "
                "out of --severities or import the set under another name"
            )
        shifts |= {key: partial(generated.__getitem__, key) for key in generated}
        origin = "generated"
    ood = {key: OodSet(_open(folder, part["inputs"]), near=part["near"]) for key, part in record["ood"].items()}
    return RawSets(
        parts=parts,
        ood=options.pick_ood(ood),
        shifts=LazyMapping(shifts),
        class_names=tuple(record["class_names"]),
        source=record["source"],
        corruptions=origin,
    )


def imported_preparation(name: str, options: LoadOptions) -> Preparation:
    """Return how an imported task is split and preprocessed."""
    return Preparation(read_record(options.folder, name)["encoder"], 0.2, HALF)


def load_imported(name: str, kind: InputKind, options: LoadOptions) -> Task:
    """Return an imported task; the features of an image task come from its feature file once they are extracted."""
    record = read_record(options.folder, name)
    preparation = imported_preparation(name, options)
    if kind == record["kind"]:
        return make_task(name, read_imported_sets(name, options), preparation, kind)
    if kind == "pixels":
        raise MissingDataError(
            f"{name} was imported as features; it has no images\nimport an image folder to train on pixels"
        )
    if not has_features(options.folder, name):
        raise missing_features(name, options.folder, have_pixels=True, downloadable=False)
    near = frozenset(key for key, part in record["ood"].items() if part["near"])
    names = tuple(record["class_names"])
    raw = read_feature_sets(name, options, near=near, class_names=names, every_shift=True)
    return make_task(name, raw, preparation, kind)


def verify_imported(root: Path, name: str) -> list[str]:
    """Return what is wrong with an imported task's files, having read and hashed them all; empty if nothing is."""
    try:
        record = read_record(root, name)
    except InputError as error:
        return [str(error)]
    folder = task_folder(root, name) / ARRAYS
    problems = []
    for reference in array_references(record):
        path = folder / reference["file"]
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif hash_file(path) != reference["sha256"]:
            problems.append(f"{path} has changed since it was imported")
    return problems


def array_references(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every file that a task's description names, each once."""
    parts = [*record["parts"].values(), *record["ood"].values(), *record["shifts"].values()]
    found = {part[key]["file"]: part[key] for part in parts for key in ("inputs", "labels") if key in part}
    return list(found.values())


def _split(folder: Path, part: dict[str, Any]) -> Split:
    return Split(_open(folder, part["inputs"]), np.array(_open(folder, part["labels"])))


def _open(folder: Path, reference: dict[str, Any]) -> Array:
    path = folder / reference["file"]
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read ({error}); import the task again with --force") from error
    if list(array.shape) != reference["shape"] or array.dtype.str != reference["dtype"]:
        raise InputError(f"{path} is not the array that was imported; import the task again with --force")
    return array
