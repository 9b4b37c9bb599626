"""From raw files to a Task: one module per source, one table of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError
from volta.core.types import Array, EncoderKind, InputKind, OodSet, Split, Task
from volta.data import built_in, digits
from volta.data.catalog import TASK_ARCHIVES
from volta.data.cifar10c import CORRUPTION_NAMES, sheet_of
from volta.data.feature_files import write_feature_sets
from volta.data.imported import (
    ImportedTask,
    imported_preparation,
    imported_tasks,
    load_imported,
    read_imported_sets,
)
from volta.data.options import SEVERITIES, LoadOptions, cache_folder, data_root
from volta.data.prepare import PREPARATIONS, make_task
from volta.data.rows import RawSets

__all__ = [
    "CORRUPTION_NAMES",
    "TASKS",
    "LoadOptions",
    "TaskSource",
    "all_tasks",
    "cache_folder",
    "corruption_sheet",
    "data_root",
    "find_task",
    "image_sets",
    "pixel_sets",
    "store_features",
    "task_of_features",
]


@dataclass(frozen=True)
class TaskSource:
    """A task that can be loaded by name, and what a list of tasks says of it."""

    title: str
    build: Callable[[InputKind, LoadOptions], Task]
    encoder: EncoderKind
    kinds: tuple[InputKind, ...]
    download: str

    def load(self, kind: InputKind = "features", options: LoadOptions | None = None) -> Task:
        """Return the task as features or pixels."""
        if kind not in self.kinds:
            raise InputError(f"kind is {kind!r}; this task comes as {' or '.join(self.kinds)}")
        return self.build(kind, options or LoadOptions())


TASKS: dict[str, TaskSource] = {
    "digits": TaskSource(
        "scikit-learn digits, classes 0-7; OOD: 8-9, uniform noise, shuffled pixels",
        lambda kind, options: digits.load(kind),
        "tabular",
        ("features",),
        "none: embedded",
    ),
    "cifar10": TaskSource(
        "CIFAR-10; OOD: CIFAR-100 (near), SVHN, uniform noise; shifts: CIFAR-10-C",
        built_in.load_cifar10,
        "vision",
        ("features", "pixels"),
        "403 MB: volta data get cifar10",
    ),
    "cifar100": TaskSource(
        "CIFAR-100; OOD: CIFAR-10 (near), SVHN, uniform noise",
        built_in.load_cifar100,
        "vision",
        ("features", "pixels"),
        "403 MB: volta data get cifar100",
    ),
    "tinyimagenet": TaskSource(
        "Tiny ImageNet, classes 0-99; OOD: classes 100-199 (near)",
        built_in.load_tinyimagenet,
        "tabular",
        ("features",),
        "248 MB: volta data get tinyimagenet",
    ),
}
"""The tasks that come with the package; imported ones join them in :func:`all_tasks`."""


def all_tasks(root: Path | None = None) -> dict[str, TaskSource]:
    """Return the built-in tasks and those imported under ``root``."""
    folder = data_root(root)
    return TASKS | {task.name: _imported_source(task, folder) for task in imported_tasks(folder)}


def find_task(name: str, root: Path | None = None) -> TaskSource:
    """Return the task called ``name``, built-in or imported under ``root``, or say which names there are."""
    if name in TASKS:
        return TASKS[name]
    tasks = all_tasks(root)
    if name not in tasks:
        raise InputError(f"there is no task {name!r}; the tasks are: {', '.join(tasks)} (see: volta tasks)")
    return tasks[name]


def pixel_sets(name: str, options: LoadOptions | None = None) -> RawSets:
    """Return all image sets of a task with their labels, before val and cal are split off."""
    options = options or LoadOptions()
    if name in TASK_ARCHIVES:
        return built_in.built_in_pixels(name, options)
    if "pixels" not in find_task(name, options.root).kinds:
        raise MissingDataError(f"{name} has no images, only features; there is nothing to extract")
    return read_imported_sets(name, options)


def image_sets(name: str, root: Path | None = None) -> Mapping[str, Array]:
    """Return a task's images by set, each (n, 3, h, w) uint8, in a stable order: parts, OOD sets, shifts.

    A set is read or made only when it is asked for.
    """
    return pixel_sets(name, LoadOptions(root)).inputs()


def corruption_sheet(name: str, options: LoadOptions) -> NDArray[np.uint8] | None:
    """Return a contact sheet of the 19 corruptions at 5 severities on a task's first test image.

    None where the task's shifts do not include them, or its images are not there.
    """
    try:
        sets = pixel_sets(name, replace(options, severities=SEVERITIES, ood=()))
    except MissingDataError:
        return None
    return sheet_of(sets)


def store_features(name: str, features: Mapping[str, Array], options: LoadOptions | None = None) -> list[Path]:
    """Keep features extracted from :func:`pixel_sets` so that ``find_task(name).load("features")`` finds them.

    ``features`` has one (n, d) array for each set that ``pixel_sets(name, options).inputs()`` names, rows in its order;
    shifts and OOD sets may be left out.
    """
    options = options or LoadOptions()
    pixels = pixel_sets(name, options)
    sets = pixels.inputs()
    for key, rows in features.items():
        if key not in sets:
            raise InputError(f"features names the set {key!r}, which {name} does not have; it has: {', '.join(sets)}")
        if len(rows) != len(sets[key]):
            raise InputError(
                f"features of {key} have {len(rows)} rows but the set has {len(sets[key])}; pass one row an image"
            )
    for key in pixels.parts:
        if key not in features:
            raise InputError(f"features lacks the set {key!r}; pass features of each of: {', '.join(pixels.parts)}")
    return write_feature_sets(options.folder, name, features, pixels)


def task_of_features(
    name: str, features: Mapping[str, Array], options: LoadOptions | None = None, *, source: str = ""
) -> Task:
    """Return a task on features extracted from the images that :func:`pixel_sets` gives.

    ``features`` has one (n, d) array for each set that ``pixel_sets(name, options).inputs()`` names, rows in its order;
    ``source`` says what made them.
    """
    options = options or LoadOptions()
    pixels = pixel_sets(name, options)
    parts = {key: _with_features(key, split.labels, features) for key, split in pixels.parts.items()}
    raw = RawSets(
        parts,
        {key: OodSet(features[f"ood:{key}"], part.near) for key, part in pixels.ood.items()},
        {key: _with_features(f"shift:{key}", part.labels, features) for key, part in pixels.shifts.items()},
        pixels.class_names,
        f"{source}; {pixels.source}" if source else pixels.source,
    )
    preparation = PREPARATIONS[name] if name in PREPARATIONS else imported_preparation(name, options)
    return make_task(name, raw, preparation, "features")


def _with_features(key: str, labels: NDArray[np.int64], features: Mapping[str, Array]) -> Split:
    if key not in features:
        raise InputError(f"features lacks the set {key!r}; pass features of every image set of the task")
    if len(features[key]) != len(labels):
        raise InputError(f"features of {key} have {len(features[key])} rows for {len(labels)} images; pass one each")
    return Split(features[key], labels)


def _imported_source(task: ImportedTask, root: Path) -> TaskSource:
    def build(kind: InputKind, options: LoadOptions) -> Task:
        return load_imported(task.name, kind, options if options.root else replace(options, root=root))

    kinds: tuple[InputKind, ...] = ("features", "pixels") if task.kind == "pixels" else ("features",)
    return TaskSource(
        task.title,
        build,
        task.encoder,
        kinds,
        "none: imported",
    )
