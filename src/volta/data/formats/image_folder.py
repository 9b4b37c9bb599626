"""An image folder as labelled splits: ``train/<class>/*`` and ``test/<class>/*``, or ``<class>/*`` alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Unpack

import numpy as np

from volta.core.errors import InputError
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.data.formats.image_files import ImageFiles, list_images
from volta.data.formats.image_isolation import DecodeOptions, decode_images
from volta.data.formats.source_rows import SPLIT_NAMES, SourceRows


@dataclass(frozen=True)
class Placed:
    """Where an image stands: split (``all`` if the source names none), class and path in the source."""

    split: str
    label: str
    path: str


def place_images(files: ImageFiles) -> list[Placed]:
    """Read split and class of each image from its path, sorted by split and path.

    A folder that wraps everything is passed through. Images must lie in a class folder; deeper folders belong to the
    class.
    """
    if not files.names:
        raise InputError(
            f"{files.source} holds no images; expected train/<class>/*.jpg (or png, webp) or <class>/*.jpg"
        )
    depth = _wrappers(files.names)
    placed = []
    for name in files.names:
        parts = PurePosixPath(name).parts[depth:]
        split = SPLIT_NAMES.get(parts[0].lower()) if len(parts) > 2 else None
        if split is None and len(parts) == 2 and parts[0].lower() in SPLIT_NAMES:
            raise InputError(f"{files.source}: {name} lies in no class folder; expected {parts[0]}/<class>/{parts[1]}")
        if len(parts) < 2:
            raise InputError(f"{files.source}: {name} lies in no class folder; expected <class>/{parts[-1]}")
        placed.append(Placed(split or "all", parts[1] if split else parts[0], name))
    _check_mixture(files.source, placed)
    return sorted(placed, key=lambda item: (item.split, item.path))


def label_image_folder(source: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, SourceRows]:
    """Return each split's labels from the paths alone, without inputs: enough to see whether a task can be made."""
    placed = place_images(list_images(source, limits))
    parts = {}
    for split in dict.fromkeys(item.split for item in placed):
        labels = np.array([item.label for item in placed if item.split == split])
        parts[split] = SourceRows(np.empty((len(labels), 0)), labels, np.arange(len(labels)))
    return parts


def read_image_folder(
    source: Path, *, scratch: Path | None = None, limits: Limits = DEFAULT_LIMITS, **options: Unpack[DecodeOptions]
) -> tuple[dict[str, SourceRows], list[str]]:
    """Return the labelled rows of each split of an image folder, zip or tar, and notes on what was passed over.

    Rows are in sorted-path order within a split. With ``scratch`` the pixels are memory-mapped files in that folder.
    """
    files = list_images(source, limits)
    placed = place_images(files)
    found = decode_images(files, [item.path for item in placed], into=_pixels_file(scratch), **options)
    kept = np.asarray(found.rows)
    splits = np.array([placed[row].split for row in found.rows])
    labels = np.array([placed[row].label for row in found.rows])
    parts = {}
    for split in dict.fromkeys(splits.tolist()):
        where = splits == split
        parts[split] = SourceRows(found.array, labels[where], kept[where])
    notes = [f"left out {name}: {reason}" for name, reason in sorted(found.bad.items())]
    notes += [f"not an image, passed over: {name}" for name in files.ignored]
    return parts, notes


def read_unlabelled_images(
    source: Path, *, scratch: Path | None = None, limits: Limits = DEFAULT_LIMITS, **options: Unpack[DecodeOptions]
) -> tuple[SourceRows, list[str]]:
    """Return the images of a source without labels, whatever its folders: its ``test`` split if it has one, else all.

    Rows are sorted by file name, then path, so that numbered files keep their numbering across class folders.
    """
    files = list_images(source, limits)
    if not files.names:
        raise InputError(f"{source} holds no images; expected jpg, png or webp files")
    depth = _wrappers(files.names)
    names: Iterable[str] = [
        name for name in files.names if SPLIT_NAMES.get(PurePosixPath(name).parts[depth].lower()) == "test"
    ]
    ordered = sorted(names or files.names, key=lambda name: (PurePosixPath(name).name, name))
    found = decode_images(files, ordered, into=_pixels_file(scratch), **options)
    return SourceRows(found.array, None, np.asarray(found.rows)), [
        f"left out {name}: {reason}" for name, reason in sorted(found.bad.items())
    ]


def _pixels_file(scratch: Path | None) -> Path | None:
    return scratch / "pixels.npy" if scratch else None


def _wrappers(names: Iterable[str]) -> int:
    """Return how many leading folders all paths share that are neither a split nor the only class level."""
    paths = [PurePosixPath(name).parts for name in names]
    depth = 0
    while True:
        heads = {parts[depth] for parts in paths}
        shortest = min(len(parts) for parts in paths) - depth
        if len(heads) > 1 or shortest < 3 or next(iter(heads)).lower() in SPLIT_NAMES:
            return depth
        depth += 1


def _check_mixture(source: Path, placed: list[Placed]) -> None:
    splits = {item.split for item in placed}
    if "all" in splits and len(splits) > 1:
        stray = next(item.path for item in placed if item.split == "all")
        named = ", ".join(sorted(splits - {"all"}))
        raise InputError(
            f"{source}: {stray} lies beside the split folders ({named}); put every class folder in a split folder"
        )
