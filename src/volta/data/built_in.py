"""The loaders of the downloadable tasks: ``cifar10``, ``cifar100`` and ``tinyimagenet``.

The first two come as pixels or features. Tiny ImageNet's pixels only serve to extract features from: it is tabular.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.types import InputKind, OodSet, Split, Task
from volta.data.catalog import ARCHIVES
from volta.data.cifar import CIFAR10_CLASSES
from volta.data.cifar_sets import CIFAR_TASKS, missing_sets, read_cifar_sets
from volta.data.feature_files import features_path, has_features, read_feature_sets, read_npz
from volta.data.missing import missing_features, missing_pixels
from volta.data.noise import N_NOISE
from volta.data.options import LoadOptions, cache_folder
from volta.data.prepare import PREPARATIONS, make_task
from volta.data.rows import RawSets
from volta.data.tiny_imagenet import FOLDER, N_KNOWN, OOD_CLASSES, read_tiny_imagenet

_OOD_ROWS = {"cifar10": 10_000, "cifar100": 10_000, "svhn": 26_032, "noise": N_NOISE}


def load_cifar10(kind: InputKind, options: LoadOptions) -> Task:
    """Return ``cifar10``: 40,000 train, 5,000 val, 5,000 cal, 10,000 test; OOD: CIFAR-100 (near), SVHN, noise."""
    return _load("cifar10", kind, options)


def load_cifar100(kind: InputKind, options: LoadOptions) -> Task:
    """Return ``cifar100``: 45,000 train, 2,500 val, 2,500 cal, 10,000 test; OOD: CIFAR-10 (near), SVHN, noise."""
    return _load("cifar100", kind, options)


def load_tinyimagenet(kind: InputKind, options: LoadOptions) -> Task:
    """Return ``tinyimagenet``: classes 0-99, 40,000 train, 5,000 each of val, cal, test; OOD classes 100-199."""
    return _load("tinyimagenet", kind, options)


def built_in_pixels(name: str, options: LoadOptions) -> RawSets:
    """Return the image sets of a downloadable task, unsplit."""
    if name in CIFAR_TASKS:
        return read_cifar_sets(name, options)
    source = _tiny_source(options.folder)
    if source is None:
        raise missing_pixels(name, options.folder, [ARCHIVES["tiny-imagenet"].file])
    raw = read_tiny_imagenet(source, cache_folder())
    return replace(raw, ood=options.pick_ood(raw.ood))


def has_pixels(name: str, options: LoadOptions) -> bool:
    """Whether all images of a downloadable task are there."""
    if name in CIFAR_TASKS:
        return not missing_sets(name, options)
    return _tiny_source(options.folder) is not None


def _load(name: str, kind: InputKind, options: LoadOptions) -> Task:
    if kind == "pixels":
        return make_task(name, built_in_pixels(name, options), PREPARATIONS[name], kind)
    if not has_features(options.folder, name):
        raise missing_features(name, options.folder, have_pixels=has_pixels(name, options))
    return make_task(name, _built_in_features(name, options), PREPARATIONS[name], kind)


def _built_in_features(name: str, options: LoadOptions) -> RawSets:
    if name == "tinyimagenet":
        return _tiny_features(options)
    near = CIFAR_TASKS[name].near[0]
    names = CIFAR10_CLASSES if name == "cifar10" else ()
    raw = read_feature_sets(name, options, near=frozenset({near}), ood_rows=_OOD_ROWS, class_names=names)
    lacking = [other for other in (near, "svhn", "noise") if options.wants_ood(other) and other not in raw.ood]
    return replace(raw, source=f"{raw.source}; without: {', '.join(lacking)}") if lacking else raw


def _tiny_features(options: LoadOptions) -> RawSets:
    """Read the features; a ``val`` without ``cal`` is the official validation set over all 200 classes."""
    path = features_path(options.folder, "tinyimagenet")
    arrays = read_npz(path)
    if "val_x" not in arrays or "cal_x" in arrays:
        return read_feature_sets("tinyimagenet", options, near=frozenset({OOD_CLASSES}))
    missing = {"train_x", "train_y", "val_x", "val_y"} - set(arrays)
    if missing:
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; it holds: {', '.join(arrays)}")
    train = Split(arrays["train_x"].astype(np.float32), arrays["train_y"].astype(np.int64))
    val = Split(arrays["val_x"].astype(np.float32), arrays["val_y"].astype(np.int64))
    if train.labels.max() >= 2 * N_KNOWN or val.labels.max() >= 2 * N_KNOWN:
        raise InputError(f"{path} has labels beyond {2 * N_KNOWN - 1}; expected the 200 classes of Tiny ImageNet")
    known = np.flatnonzero(val.labels < N_KNOWN)
    return RawSets(
        parts={"train": train.take(np.flatnonzero(train.labels < N_KNOWN)), "test": val.take(known)},
        ood=options.pick_ood({OOD_CLASSES: OodSet(val.inputs[val.labels >= N_KNOWN], near=True)}),
        class_names=tuple(str(index) for index in range(N_KNOWN)),
        source=f"features from {path.name}",
    )


def _tiny_source(root: Path) -> Path | None:
    for path in (root / FOLDER, root / ARCHIVES["tiny-imagenet"].file):
        if path.exists():
            return path
    return None
