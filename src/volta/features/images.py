"""Images as extraction sees them: a known number, a hash of their content, parts, and uint8 batches in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_array, hash_file, hash_text
from volta.core.types import Array
from volta.data.formats.image_decoding import BadImageError, decode, pillow_warnings_off
from volta.features.preprocessing import check_pixels


class Images(Protocol):
    """What can be extracted from. Parts go to other processes, so they should hold little but their own images."""

    def __len__(self) -> int: ...

    @property
    def content_hash(self) -> str:
        """A hash that differs whenever any image or their order differs."""

    def part(self, start: int, stop: int) -> Images:
        """Return images ``start`` to ``stop``."""

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order, as (at most ``batch_size``, 3, h, w) uint8; h and w may differ between batches."""


@dataclass(frozen=True, eq=False)
class PixelArray:
    """Images of one size in an array or a memory map, (n, 3, h, w) uint8; a part is a copy of its own rows."""

    pixels: Array

    def __post_init__(self) -> None:
        check_pixels(self.pixels)

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of shape and values."""
        return hash_array(self.pixels)

    def part(self, start: int, stop: int) -> PixelArray:
        """Return images ``start`` to ``stop``, copied, so that a memory map is not pickled whole."""
        return PixelArray(np.array(self.pixels[start:stop]))

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order."""
        for start in range(0, len(self.pixels), batch_size):
            yield np.asarray(self.pixels[start : start + batch_size])


@dataclass(frozen=True)
class ImagePaths:
    """Image files of any sizes, in the order given; they are decoded when they are walked."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the files' own, in order: where they lie and what they are called does not count."""
        return hash_text("\n".join(hash_file(_existing(path)) for path in self.paths))

    def part(self, start: int, stop: int) -> ImagePaths:
        """Return images ``start`` to ``stop``."""
        return ImagePaths(self.paths[start:stop])

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order; a batch ends where the next image has another size."""
        batch: list[Array] = []
        for path in self.paths:
            pixels = _decoded(path)
            if batch and (len(batch) == batch_size or batch[0].shape != pixels.shape):
                yield np.stack(batch)
                batch = []
            batch.append(pixels)
        if batch:
            yield np.stack(batch)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"image {path} does not exist; pass paths of image files")
    return path


def _decoded(path: Path) -> Array:
    try:
        with pillow_warnings_off():
            return decode(_existing(path).read_bytes()).transpose(2, 0, 1)
    except BadImageError as error:
        raise InputError(f"image {path} cannot be used: {error}; mend it or leave it out") from error
