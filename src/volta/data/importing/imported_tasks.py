"""Imported tasks on disk: ``imported/NAME/task.json`` beside content-named npy files, opened as memory maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.core.files import hash_file
from volta.core.sealed import check_seal, inside, read_object
from volta.core.set_names import check_task_name
from volta.core.types import Array, EncoderKind, OodSet, Split
from volta.data.corruptions.shifts import generated_shifts
from volta.data.definition import TaskDefinition
from volta.data.formats.array_files import read_npy
from volta.data.formats.feature_files import PARTS, FeatureFiles
from volta.data.importing.task_record import TASK_KIND, ArrayReference, StoredSplit, TaskRecord
from volta.data.options import LoadOptions, cache_folder
from volta.data.prepare import HALF, Preparation
from volta.data.raw_sets import CorruptionOrigin, LazyMapping, RawSets
from volta.data.row_limits import limited_rows

TASK_FILE = "task.json"
ARRAYS = "arrays"
DAMAGED = "damaged"


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
    class_names = record.class_names
    has_images = record.kind == "pixels"
    return TaskDefinition(
        name=name,
        title=f"{record.title}, {len(class_names)} classes",
        preparation=_preparation(record.encoder),
        # The features of an image task come from its feature files once they are extracted.
        features=FeatureFiles(name, class_names, every_shift=True) if has_images else arrays,
        images=arrays if has_images else None,
        near=tuple(key for key, one in record.ood.items() if one.near),
        far=tuple(key for key, one in record.ood.items() if not one.near),
        origin="imported",
        root=root,
        scaled=False,
    )


def _preparation(encoder: EncoderKind) -> Preparation:
    return Preparation(encoder, 0.2, HALF)


def read_record(root: Path, name: str) -> TaskRecord:
    """Return the description of an imported task."""
    check_task_name(name)
    path = inside(root, "imported", name, TASK_FILE)
    if not path.is_file():
        raise MissingDataError(
            f"there is no imported task {name!r} under {root}: missing {path.relative_to(root)}\n"
            f"import it with: volta data import SRC --name {name} --data {root}   or point at it with: --data DIR"
        )
    return TaskRecord.from_json(read_object(path, TASK_KIND))


def had_images(root: Path, name: str) -> bool:
    """Whether a task of images stands under this name, so that feature files of the name were extracted from it.

    A task whose description cannot be read any more may have been one.
    """
    try:
        return read_record(root, name).kind == "pixels"
    except MissingDataError:
        return False
    except VoltaError:
        return True


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
        folder = _arrays(options.folder, self.name)
        parts = {part: _split(folder, record.parts[part]) for part in PARTS}
        described = {} if options.shifts == "none" else record.shifts
        shifts: dict[str, Callable[[], Split]] = {key: partial(_split, folder, part) for key, part in described.items()}
        origin: CorruptionOrigin = "none"
        if options.shifts == "generated" and record.kind == "pixels":
            shifts |= self._generated(parts["test"], options, shifts)
            origin = "generated"
        return RawSets(
            parts=parts,
            ood={key: OodSet(_open(folder, part.inputs)) for key, part in record.ood.items()},
            shifts=LazyMapping(shifts),
            class_names=record.class_names,
            source=record.source,
            corruptions=origin,
        )

    def _generated(
        self, test: Split, options: LoadOptions, own: Mapping[str, object]
    ) -> dict[str, Callable[[], Split]]:
        rows = limited_rows(test.labels, options.limit_test, self.name)
        generated = generated_shifts(test, options.severities, cache_folder(), rows)
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
    folder = _arrays(root, name)
    problems = []
    for reference in record.arrays:
        path = folder / reference.file
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif path.is_symlink() or hash_file(path) != reference.sha256:
            problems.append(f"{path} has changed since it was imported")
    return problems


def _arrays(root: Path, name: str) -> Path:
    return inside(root, "imported", name, ARRAYS)


def _split(folder: Path, part: StoredSplit) -> Split:
    return Split(_open(folder, part.inputs), np.array(_open(folder, part.labels)))


def _open(folder: Path, reference: ArrayReference) -> Array:
    path = inside(folder, reference.file)
    try:
        sound = check_seal(path, reference.seal)
        array = read_npy(path)
    except (VoltaError, OSError) as error:
        raise TASK_KIND.refused(path, f"cannot be read ({error})") from error
    if array.shape != reference.shape or array.dtype.str != reference.dtype or not sound:
        raise TASK_KIND.refused(path, "is not the array that was imported: its bytes do not match their checksum")
    return array
