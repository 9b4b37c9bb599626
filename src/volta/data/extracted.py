"""Features extracted from a task's images: kept as its feature files, or made a task at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array, OodSet, Split, Task
from volta.data.formats.feature_files import add_shifts, write_feature_sets
from volta.data.lookup import find_task, pixel_sets
from volta.data.options import LoadOptions
from volta.data.prepare import make_task
from volta.data.raw_sets import CorruptionOrigin, RawSets


def store_features(name: str, features: Mapping[str, Array], options: LoadOptions | None = None) -> list[Path]:
    """Keep features extracted from a task's images so that ``find_task(name).load("features")`` finds them.

    ``features`` has one (n, d) array for each set that ``pixel_sets(name, options).inputs()`` names, rows in its order;
    shifts and OOD sets may be left out.
    """
    options = options or LoadOptions()
    if options.limit_test is not None:
        raise InputError(
            f"limit_test is {options.limit_test}, and the feature file would hold a part of the test rows alone; "
            "store all rows, or shifted sets alone (--only shifts)"
        )
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


def store_shifts(
    name: str, shifts: Mapping[str, Split], options: LoadOptions, origin: CorruptionOrigin = "none"
) -> Path:
    """Keep features of shifted test sets beside a task's feature file; return the file.

    With ``options.limit_test`` they are of a part of the test rows and lie in a file of their own, named by how many.
    ``origin`` says whose images of CIFAR-10-C's corruptions they were made of.
    """
    return add_shifts(options.folder, name, shifts, options.limit_test, origin)


def task_of_features(
    name: str, features: Mapping[str, Array], options: LoadOptions | None = None, *, source: str = ""
) -> Task:
    """Return a task on features extracted from its images.

    ``features`` has one (n, d) array for each set that ``pixel_sets(name, options).inputs()`` names, rows in its order;
    ``source`` says what made them.
    """
    options = options or LoadOptions()
    task = find_task(name, options.root)
    pixels = task.image_sets(options)
    parts = {key: _with_features(key, split.labels, features) for key, split in pixels.parts.items()}
    raw = RawSets(
        parts,
        {key: OodSet(features[f"ood:{key}"], part.near) for key, part in pixels.ood.items()},
        {key: _with_features(f"shift:{key}", part.labels, features) for key, part in pixels.shifts.items()},
        pixels.class_names,
        f"{source}; {pixels.source}" if source else pixels.source,
    )
    return make_task(name, raw, task.preparation, "features")


def _with_features(key: str, labels: NDArray[np.int64], features: Mapping[str, Array]) -> Split:
    if key not in features:
        raise InputError(f"features lacks the set {key!r}; pass features of every image set of the task")
    if len(features[key]) != len(labels):
        raise InputError(f"features of {key} have {len(features[key])} rows for {len(labels)} images; pass one each")
    return Split(features[key], labels)
