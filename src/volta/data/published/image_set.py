"""A published set of images: its official archive where it is there, else a zip of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Split
from volta.data.download.archive import Archive
from volta.data.formats.decoded_images import decoded_images
from volta.data.formats.image_files import list_images
from volta.data.formats.image_folder import place_images


@dataclass(frozen=True, eq=False)
class FoundSet:
    """One set that was found, its class names and where it came from."""

    split: Split
    class_names: tuple[str, ...] = ()
    source: str = ""


class PublishedSet(Protocol):
    """A set of images that can be found in a data folder, or made."""

    @property
    def n_rows(self) -> int:
        """How many images the whole set has."""

    @property
    def described(self) -> str:
        """What to say is missing."""

    def is_there(self, root: Path) -> bool:
        """Whether the set can be loaded."""

    def find(self, root: Path) -> FoundSet:
        """Load the set."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A set of ``n_rows`` images: its archive, how that is read, and the zip whose ``part`` can stand in for it."""

    title: str
    n_rows: int
    archive: Archive
    stand_in: str
    part: str
    read: Callable[[Path], tuple[Split, tuple[str, ...]]]

    @property
    def described(self) -> str:
        """What to say is missing."""
        return self.archive.described

    def is_there(self, root: Path) -> bool:
        """Whether the set can be loaded."""
        return self.archive.place(root).exists() or (root / self.stand_in).is_file()

    def find(self, root: Path) -> FoundSet:
        """Load the set, from the archive if it is there, else from the stand-in."""
        place = self.archive.place(root)
        if not place.exists():
            return self._stand_in(root / self.stand_in)
        try:
            split, names = self.read(place)
        except FileNotFoundError as error:
            raise InputError(
                f"{error.filename} is missing; get the archive again: volta data get {self.archive.name}"
            ) from error
        return FoundSet(split, names, f"{self.title}: official archive ({self.archive.file})")

    def _stand_in(self, path: Path) -> FoundSet:
        """Read one split of a zip ``part/<class>/*``; numbered files of a test-only zip keep their numbering."""
        files = list_images(path)
        everything = place_images(files)
        placed = [item for item in everything if item.split == self.part]
        if len(placed) == len(everything):
            placed.sort(key=lambda item: (PurePosixPath(item.path).name, item.path))
        if not placed:
            raise InputError(f"{path} has no images in {self.part}/<class>/; expected an image folder with that split")
        names = sorted({item.label for item in placed})
        index = {name: number for number, name in enumerate(names)}
        labels = np.array([index[item.label] for item in placed], np.int64)
        images, encoding = decoded_images(files, [item.path for item in placed])
        text = f"{self.title}: {len(labels):,} images of {path.name}, {encoding}, not the official archive"
        return FoundSet(Split(images, labels), tuple(names), text)
