"""Tiny ImageNet: classes 0-99 with 40,000 train and 5,000 each of val, cal and test; near OOD: classes 100-199.

It is tabular: its images only serve to extract features from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Array, OodSet, Split
from volta.data.definition import TaskDefinition
from volta.data.download.archive import Archive
from volta.data.download.transfer import Checksum
from volta.data.formats.array_files import read_npz
from volta.data.formats.feature_files import FeatureFiles, features_path, labelled_part
from volta.data.formats.tiny_imagenet_archive import FOLDER, N_KNOWN, OOD_CLASSES, read_tiny_imagenet
from volta.data.options import LoadOptions
from volta.data.prepare import HALF, Preparation
from volta.data.raw_sets import RawSets

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
        train, val = (_whole_split(arrays, part, path) for part in ("train", "val"))
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


def _whole_split(arrays: dict[str, Array], part: str, path: Path) -> Split:
    split = labelled_part(arrays, part, path)
    if split.labels.max() >= 2 * N_KNOWN:
        raise InputError(f"{path} has labels beyond {2 * N_KNOWN - 1}; expected the 200 classes of Tiny ImageNet")
    return split
