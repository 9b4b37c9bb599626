"""Imported tasks on disk: ``imported/NAME/task.json`` beside content-named npy files, opened as memory maps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.core.files import hash_file
from volta.core.foreign import reading
from volta.core.set_names import check_task_name
from volta.core.types import Array, EncoderKind, OodSet, Split
from volta.data.corruptions.shifts import generated_shifts
from volta.data.definition import TaskDefinition
from volta.data.formats.array_files import read_npy
from volta.data.formats.feature_files import PARTS, FeatureFiles
from volta.data.options import LoadOptions, cache_folder
from volta.data.prepare import HALF, Preparation
from volta.data.raw_sets import CorruptionOrigin, LazyMapping, RawSets

SCHEMA = 1
TASK_FILE = "task.json"
ARRAYS = "arrays"
DAMAGED = "damaged"
_RECORD_BYTES = 1 << 26
_ARRAY_NAME = re.compile(r"[0-9a-f]{32}\.npy")


def task_folder(root: Path, name: str) -> Path:
    """Return where the imported task ``name`` lies; refuse names that are no plain file name."""
    check_task_name(name)
    return root / "imported" / name


def imported_tasks(root: Path) -> list[TaskDefinition]:
    """Return the imported tasks under ``root`` by name; one whose file is damaged is listed as such."""
    return [_definition(root, path.parent.name) for path in sorted((root / "imported").glob(f"[!.]*/{TASK_FILE}"))]


def _definition(root: Path, name: str) -> TaskDefinition:
    arrays = ImportedArrays(name)
    try:
        record = read_record(root, name)
    except VoltaError as error:
        return TaskDefinition(
            name=name,
            title=f"{DAMAGED}: {error}",
            preparation=_preparation("tabular"),
            features=arrays,
            origin="imported",
            root=root,
            scaled=False,
        )
    class_names = tuple(record["class_names"])
    is_near = {key: bool(part["near"]) for key, part in record["ood"].items()}
    has_images = record["kind"] == "pixels"
    return TaskDefinition(
        name=name,
        title=f"{record['title']}, {len(class_names)} classes",
        preparation=_preparation(record["encoder"]),
        # The features of an image task come from its feature files once they are extracted.
        features=FeatureFiles(name, class_names, every_shift=True) if has_images else arrays,
        images=arrays if has_images else None,
        near=tuple(key for key, near in is_near.items() if near),
        far=tuple(key for key, near in is_near.items() if not near),
        origin="imported",
        root=root,
        scaled=False,
    )


def _preparation(encoder: EncoderKind) -> Preparation:
    return Preparation(encoder, 0.2, HALF)


def read_record(root: Path, name: str) -> dict[str, Any]:
    """Return the description of an imported task."""
    path = task_folder(root, name) / TASK_FILE
    if not path.is_file():
        raise MissingDataError(
            f"there is no imported task {name!r} under {root}: missing {path.relative_to(root)}\n"
            f"import it with: volta data import SRC --name {name} --data {root}   or point at it with: --data DIR"
        )
    with reading(path, "is damaged", "import the task again with --force"):
        if path.stat().st_size > _RECORD_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record.get("schema") != SCHEMA:
            raise InputError(
                f"{path} has schema {record.get('schema')}, this volta reads {SCHEMA}; "
                "import the task again with --force"
            )
        _check_record(record)
    return record


def _check_record(record: dict[str, Any]) -> None:
    """Refuse a description in which something is missing or of another type, with any exception."""
    texts = [record["title"], record["source"], *record["class_names"], *record["ood"], *record["shifts"]]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a name in it is no text")
    if record["kind"] not in ("features", "pixels") or record["encoder"] not in ("tabular", "vision"):
        raise ValueError(f"its kind is {record['kind']!r} and its encoder {record['encoder']!r}")
    labelled = [*(record["parts"][part] for part in PARTS), *record["shifts"].values()]
    references = [part[key] for part in labelled for key in ("inputs", "labels")]
    references += [part["inputs"] for part in record["ood"].values() if isinstance(part["near"], bool)]
    if len(references) < 2 * len(labelled) + len(record["ood"]):
        raise ValueError("an OOD set does not say whether it is near")
    for reference in references:
        if not _ARRAY_NAME.fullmatch(reference["file"]):
            raise ValueError(f"it names the file {reference['file']!r}")
        if not all(type(side) is int and side >= 0 for side in reference["shape"]):
            raise ValueError(f"it gives an array the shape {reference['shape']}")
        if not isinstance(reference["sha256"], str) or not isinstance(reference["dtype"], str):
            raise ValueError("an array in it has no checksum or type")


@dataclass(frozen=True)
class ImportedArrays:
    """The arrays that the task ``name`` was imported as, images or features."""

    name: str

    def is_there(self, root: Path) -> bool:
        """Whether the task is described under ``root``."""
        return (task_folder(root, self.name) / TASK_FILE).is_file()

    def missing(self, options: LoadOptions) -> list[str]:
        """Return the description's path if it is not there."""
        place = task_folder(options.folder, self.name) / TASK_FILE
        return [] if self.is_there(options.folder) else [str(place.relative_to(options.folder))]

    def read(self, options: LoadOptions) -> RawSets:
        """Return the sets as memory maps; images can have CIFAR-10-C's corruptions ``generated``."""
        record = read_record(options.folder, self.name)
        folder = task_folder(options.folder, self.name) / ARRAYS
        parts = {part: _split(folder, record["parts"][part]) for part in PARTS}
        described = {} if options.shifts == "none" else record["shifts"]
        shifts: dict[str, Callable[[], Split]] = {key: partial(_split, folder, part) for key, part in described.items()}
        origin: CorruptionOrigin = "none"
        if options.shifts == "generated" and record["kind"] == "pixels":
            shifts |= self._generated(parts["test"], options, shifts)
            origin = "generated"
        return RawSets(
            parts=parts,
            ood={key: OodSet(_open(folder, part["inputs"])) for key, part in record["ood"].items()},
            shifts=LazyMapping(shifts),
            class_names=tuple(record["class_names"]),
            source=record["source"],
            corruptions=origin,
        )

    def _generated(
        self, test: Split, options: LoadOptions, own: Mapping[str, object]
    ) -> dict[str, Callable[[], Split]]:
        generated = generated_shifts(test, options.severities, cache_folder())
        if both := sorted(set(generated) & set(own)):
            raise InputError(
                f"{self.name} has a shift {both[0]!r} of its own, which --corruptions would make too; leave its "
                "severity out of --severities or import the set under another name"
            )
        return {key: partial(generated.__getitem__, key) for key in generated}


def verify_imported(root: Path, name: str) -> list[str]:
    """Return what is wrong with an imported task's files, having read and hashed them all; empty if nothing is."""
    try:
        record = read_record(root, name)
    except VoltaError as error:
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
        array = read_npy(path)
    except VoltaError as error:
        raise InputError(f"{path} cannot be read ({error}); import the task again with --force") from error
    if list(array.shape) != reference["shape"] or array.dtype.str != reference["dtype"]:
        raise InputError(f"{path} is not the array that was imported; import the task again with --force")
    return array
