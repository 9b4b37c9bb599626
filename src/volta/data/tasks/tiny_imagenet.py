"""Tiny ImageNet: classes 0-99 known, 100-199 near OOD; its archive and its task.

Read in place from ``tiny-imagenet-200.zip``, or from the unpacked folder.

It is tabular: its images only serve to extract features from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Array, OodSet, Split
from volta.data.arrays import read_npz
from volta.data.download import Archive, Checksum
from volta.data.feature_files import FeatureFiles, features_path, labelled_part
from volta.data.images import ImageFiles, decoded_images, list_images
from volta.data.task import LoadOptions, TaskDefinition
from volta.data.task_builder import HALF, Preparation, RawSets

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


ARCHIVE = Archive(
    "tiny-imagenet",
    "Tiny ImageNet, 200 classes, 100,000 train and 10,000 validation images, 64×64",
    "tiny-imagenet-200.zip",
    (
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "https://zenodo.org/records/10720917/files/tiny-imagenet-200.zip?download=1",
    ),
    248_100_043,
    Checksum("md5", "90528d7ca1a48142e341f4ef8d21d0de"),
    "ImageNet terms: non-commercial research and education",
    "https://www.image-net.org/",
)


@dataclass(frozen=True)
class TinyImageNetImages:
    """The archive as it was downloaded, or the folder it unpacks to."""

    def missing(self, options: LoadOptions) -> list[str]:
        """Return the archive's name if neither it nor its folder is there."""
        return [] if _place(options.folder).exists() else [ARCHIVE.file]

    def read(self, options: LoadOptions) -> RawSets:
        """Return the image sets."""
        return read_tiny_imagenet(_place(options.folder))


@dataclass(frozen=True)
class TinyImageNetFeatures:
    """Feature files whose ``val`` without ``cal`` is the official validation set over all 200 classes."""

    files: FeatureFiles

    def is_there(self, root: Path) -> bool:
        """Whether the features are there."""
        return self.files.is_there(root)

    def read(self, options: LoadOptions) -> RawSets:
        """Return the features, the official validation set divided into test rows and OOD rows."""
        path = features_path(options.folder, self.files.name)
        arrays = read_npz(path)
        if "val_x" not in arrays or "cal_x" in arrays:
            return self.files.read(options)
        missing = {"train_x", "train_y", "val_x", "val_y"} - set(arrays)
        if missing:
            raise InputError(f"{path} lacks {', '.join(sorted(missing))}; it holds: {', '.join(arrays)}")
        train, val = (labelled_part(arrays, part, path) for part in ("train", "val"))
        if max(train.labels.max(), val.labels.max()) >= 2 * N_KNOWN:
            raise InputError(f"{path} has labels beyond {2 * N_KNOWN - 1}; expected the 200 classes of Tiny ImageNet")
        known = np.flatnonzero(val.labels < N_KNOWN)
        return RawSets(
            parts={"train": train.take(np.flatnonzero(train.labels < N_KNOWN)), "test": val.take(known)},
            ood={OOD_CLASSES: OodSet(val.inputs[val.labels >= N_KNOWN])},
            class_names=tuple(str(index) for index in range(N_KNOWN)),
            source=f"features from {path.name}",
        )


TINY_IMAGENET = TaskDefinition(
    name="tinyimagenet",
    title="Tiny ImageNet, classes 0-99; OOD: classes 100-199 (near)",
    preparation=Preparation("tabular", 0.2, HALF),
    images=TinyImageNetImages(),
    trains_on_pixels=False,
    features=TinyImageNetFeatures(FeatureFiles("tinyimagenet")),
    near=(OOD_CLASSES,),
    archives=(ARCHIVE,),
)


def _place(root: Path) -> Path:
    folder = root / FOLDER
    return folder if folder.exists() else ARCHIVE.place(root)
