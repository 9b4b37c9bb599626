"""Tiny ImageNet: 200 wnids in sorted order; classes 0-99 known, 100-199 OOD; tested on the official validation set.

Read in place from ``tiny-imagenet-200.zip``, or from the unpacked folder.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Array, OodSet, Split
from volta.data.formats.decoded_images import decoded_images
from volta.data.formats.image_files import ImageFiles, list_images
from volta.data.raw_sets import RawSets

N_KNOWN = 100
OOD_CLASSES = "classes_100_199"
FOLDER = "tiny-imagenet-200"
_ANNOTATIONS = f"{FOLDER}/val/val_annotations.txt"


def read_tiny_imagenet(source: Path) -> RawSets:
    """Return train (500 a known class), test (50 a known class) and the OOD classes' validation images, 64×64."""
    files = list_images(source)
    prefix = "" if source.is_dir() else f"{FOLDER}/"
    train = sorted(name for name in files.names if name.startswith(f"{prefix}train/"))
    wnids = sorted({_class_of(name, prefix) for name in train})
    if len(wnids) != 2 * N_KNOWN:
        raise InputError(
            f"{source} has {len(wnids)} classes in train/, expected {2 * N_KNOWN}; fetch tiny-imagenet-200.zip again"
        )
    index = {wnid: number for number, wnid in enumerate(wnids)}
    known = [name for name in train if index[_class_of(name, prefix)] < N_KNOWN]
    annotations = _read_annotations(source, files)
    val = sorted(f"{prefix}val/images/{name}" for name in annotations)
    missing = set(val) - set(files.names)
    if missing:
        raise InputError(f"{source} lacks {len(missing)} annotated images, e.g. {min(missing)}; fetch it again")
    unknown = sorted(set(annotations.values()) - set(wnids))
    if unknown:
        raise InputError(
            f"{source}: val_annotations.txt names {unknown[0]}, which has no training images; fetch it again"
        )
    val_labels = np.array([index[annotations[PurePosixPath(name).name]] for name in val])
    is_known = val_labels < N_KNOWN
    return RawSets(
        parts={
            "train": Split(
                _images(files, known),
                np.array([index[_class_of(name, prefix)] for name in known], np.int64),
            ),
            "test": Split(_images(files, _where(val, is_known)), val_labels[is_known].astype(np.int64)),
        },
        ood={OOD_CLASSES: OodSet(_images(files, _where(val, ~is_known)))},
        class_names=tuple(wnids[:N_KNOWN]),
        source=f"Tiny ImageNet, official archive ({source.name})",
    )


def _images(files: ImageFiles, names: list[str]) -> Array:
    images, _ = decoded_images(files, names)
    return images


def _class_of(name: str, prefix: str) -> str:
    return PurePosixPath(name[len(prefix) :]).parts[1]


def _where(names: list[str], mask: Array) -> list[str]:
    return [name for name, wanted in zip(names, mask, strict=True) if wanted]


def _read_annotations(source: Path, files: ImageFiles) -> dict[str, str]:
    name = "val/val_annotations.txt" if source.is_dir() else _ANNOTATIONS
    if name not in files.ignored:
        raise InputError(f"{source} has no {name}; expected tiny-imagenet-200.zip or its unpacked folder")
    (_, data) = next(iter(files.read([name])))
    rows = [line.split("\t") for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise InputError(f"{source}: {name} is not a table of file names and classes; fetch it again")
    return {row[0]: row[1] for row in rows}
