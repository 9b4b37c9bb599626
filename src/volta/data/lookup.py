"""Tasks by name: the built-in ones, and imported tasks on disk (``task.json`` and content-named arrays)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.checksummed import FileKind, has_checksum, read_object
from volta.core.errors import InputError, MissingDataError, StoreError, VoltaError, unknown_name
from volta.core.files import hash_file, if_dead, inside, living, remove_temp_files, remove_tree, sync_folder
from volta.core.plugins import plugins
from volta.core.types import (
    Array,
    EncoderKind,
    InputKind,
    OodSet,
    Split,
    check_ood_names,
    check_task_name,
    plain_name,
    with_severities,
)
from volta.data.arrays import read_npy
from volta.data.corruptions.corrupt import generated_shifts, sheet_of
from volta.data.feature_files import PARTS, FeatureFiles, features_path
from volta.data.task import SEVERITIES, LoadOptions, TaskDefinition, cache_folder, data_root, plugin_task
from volta.data.task_builder import HALF, CorruptionOrigin, LazyMapping, Preparation, RawSets, limited_rows
from volta.data.tasks import TASKS
from volta.data.tasks.keel import KEEL, keel_folders, table_tasks

TASK_KIND = FileKind("description of a task", 2, "import the task again with --force")
_ARRAY_NAME = re.compile(r"[0-9a-f]{32}\.npy")


@dataclass(frozen=True)
class ArrayReference:
    """A stored array: its file, SHA-256 and checksum, and what its header has to say."""

    file: str
    sha256: str
    seal: str
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if not _ARRAY_NAME.fullmatch(self.file):
            raise InputError(f"file is {self.file!r}, which names no array of a task")
        if any(side < 0 for side in self.shape):
            raise InputError(f"shape is {self.shape}")


@dataclass(frozen=True)
class StoredSplit:
    """Inputs and class numbers of a split or shift."""

    inputs: ArrayReference
    labels: ArrayReference

    def __post_init__(self) -> None:
        inputs, labels = self.inputs.shape, self.labels.shape
        if inputs[:1] != labels or not inputs:
            raise InputError(f"inputs have shape {inputs}, labels {labels}")


@dataclass(frozen=True)
class StoredOod:
    """Inputs of an OOD set, and whether it is near."""

    inputs: ArrayReference
    near: bool


@dataclass(frozen=True)
class TaskRecord:
    """What an imported task is and which files hold it."""

    name: str
    title: str
    source: str
    kind: InputKind
    encoder: EncoderKind
    class_names: tuple[str, ...]
    parts: Mapping[str, StoredSplit]
    ood: Mapping[str, StoredOod] = field(default_factory=dict)
    shifts: Mapping[str, StoredSplit] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def arrays(self) -> list[ArrayReference]:
        """Every file of the task, each once."""
        splits = [*self.parts.values(), *self.shifts.values()]
        found = [*(split.inputs for split in splits), *(split.labels for split in splits)]
        found += [one.inputs for one in self.ood.values()]
        return list({reference.file: reference for reference in found}.values())

    def __post_init__(self) -> None:
        check_ood_names(self.ood, ())
        with_severities(self.shifts)
        if missing := [part for part in PARTS if part not in self.parts]:
            raise InputError(f"parts lacks {missing[0]}")


_ASIDE = ".old-"


def refuse_existing(target: Path, replace: bool) -> None:
    """Refuse the place of a task that is there already, unless it may be replaced."""
    if target.exists() and not replace:
        raise InputError(
            f"the task {target.name!r} exists already at {target}; choose another name or pass --force to replace it"
        )


def tidy(parent: Path) -> None:
    """Make the folder of imported tasks and sweep what killed imports left there; a task moved aside moves back."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for aside in sorted(parent.glob(f"{_ASIDE}*")):
            with if_dead(aside) as dead:
                if dead:
                    _restore(aside, parent)
        remove_temp_files(parent)
    except OSError as error:
        raise StoreError(
            f"{parent} cannot be written: {error.strerror or error}; name another folder with --data"
        ) from error


def move_task(temporary: Path, target: Path) -> None:
    """Move a finished task to its place; one that is there moves aside first and is removed last."""
    if target.exists():
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=target.parent))
        with living(aside):
            target.rename(aside / target.name)
            temporary.rename(target)
            remove_tree(aside)
    else:
        temporary.rename(target)
    sync_folder(target.parent)


def _restore(aside: Path, parent: Path) -> None:
    for task in aside.iterdir():
        if not (parent / task.name).exists():
            task.rename(parent / task.name)
    remove_tree(aside)


TASK_FILE = "task.json"
ARRAYS = "arrays"
DAMAGED = "damaged"


def task_folder(root: Path, name: str) -> Path:
    """Return where the imported task ``name`` lies; refuse names that are no plain file name."""
    check_task_name(name)
    return root / "imported" / name


def imported_tasks(root: Path) -> list[TaskDefinition]:
    """Return the imported tasks under ``root`` by name; one whose file is damaged is listed as such."""
    return [_definition(root, name) for name in _imported_names(root)]


def _imported_names(root: Path) -> list[str]:
    return [path.parent.name for path in sorted((root / "imported").glob(f"[!.]*/{TASK_FILE}"))]


def _definition(root: Path, name: str) -> TaskDefinition:
    arrays = ImportedArrays(name)
    define = partial(TaskDefinition, name=name, origin="imported", root=root, scaled=False)
    try:
        record = read_record(root, name)
    except VoltaError as error:
        return define(title=f"{DAMAGED}: {error}", features=arrays)
    has_images = record.kind == "pixels"
    return define(
        title=f"{record.title}, {len(record.class_names)} classes",
        preparation=Preparation(record.encoder, 0.2, HALF),
        # The features of an image task come from its feature files once they are extracted.
        features=FeatureFiles(name, record.class_names, every_shift=True) if has_images else arrays,
        images=arrays if has_images else None,
        near=tuple(key for key, one in record.ood.items() if one.near),
        far=tuple(key for key, one in record.ood.items() if not one.near),
    )


def read_record(root: Path, name: str) -> TaskRecord:
    """Return the description of an imported task."""
    check_task_name(name)
    path = inside(root, "imported", name, TASK_FILE)
    if not path.is_file():
        raise MissingDataError(
            f"there is no imported task {name!r} under {root}: missing {path.relative_to(root)}\n"
            f"import it with: volta data import SRC --name {name} --data {root}   or point at it with: --data DIR"
        )
    return read_object(path, TASK_KIND, TaskRecord)


def had_images(root: Path, name: str) -> bool:
    """Whether a task of images has this name, so that feature files of the name were extracted from it.

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
        self, test: Split, options: LoadOptions, stored: Mapping[str, object]
    ) -> dict[str, Callable[[], Split]]:
        rows = limited_rows(test.labels, options.limit_test, self.name)
        generated = generated_shifts(test, options.severities, cache_folder(), rows)
        if both := sorted(set(generated) & set(stored)):
            raise InputError(
                f"{self.name} already has a set {both[0]!r}, which --corruptions would make too; leave its "
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
        sound = has_checksum(path, reference.seal)
        array = read_npy(path)
    except (VoltaError, OSError) as error:
        raise TASK_KIND.error(path, f"cannot be read ({error})") from error
    if array.shape != reference.shape or array.dtype.str != reference.dtype or not sound:
        raise TASK_KIND.error(path, "is not the array that was imported: its bytes do not match their checksum")
    return array


def all_tasks(root: Path | None = None) -> dict[str, TaskDefinition]:
    """Return the built-in tasks, those imported under ``root``, those of plug-ins, and KEEL's tables if there."""
    imported = {task.name: task for task in imported_tasks(data_root(root))}
    from_plugins = {name: plugin_task(found) for name, found in plugins("volta.tasks").items()}
    keel = KEEL if keel_folders(data_root(root)) else {}
    return TASKS | {name: task for name, task in (keel | from_plugins | imported).items() if name not in TASKS}


def find_task(name: str, root: Path | None = None) -> TaskDefinition:
    """Return the task called ``name``, built-in, imported under ``root`` or of a plug-in, or say which there are.

    >>> digits = find_task("digits").load()
    >>> digits.fit.n_classes, sorted(digits.ood)
    (8, ['digits_8_9', 'shuffled_pixels', 'uniform_noise'])
    """
    if name in TASKS:
        return TASKS[name]
    if name in KEEL or name.startswith("keel:"):
        return KEEL.get(name) or (table_tasks(name) or [])[0]
    if name in _imported_names(data_root(root)):
        return _definition(data_root(root), name)
    if name in plugins("volta.tasks"):
        return plugin_task(plugins("volta.tasks")[name])
    tasks = all_tasks(root)
    if name not in tasks:
        file = features_path(data_root(root), name)
        stored = plain_name(name) == name and file.is_file()
        hint = f"make {file} one with: volta data import {file} --name {name}" if stored else "see: volta tasks"
        raise unknown_name("task", name, tasks, hint)
    return tasks[name]


def pixel_sets(name: str, options: LoadOptions | None = None) -> RawSets:
    """Return all image sets of a task with their labels, before val and cal are split off."""
    options = options or LoadOptions()
    return find_task(name, options.root).image_sets(options)


def corruption_sheet(task: TaskDefinition, options: LoadOptions) -> NDArray[np.uint8] | None:
    """Return a contact sheet of the 19 corruptions at 5 severities on a task's first test image.

    None where the task's shifts do not include them, or its images are not there.
    """
    try:
        sets = task.image_sets(replace(options, severities=SEVERITIES, ood=()))
    except MissingDataError:
        return None
    return sheet_of(sets)
