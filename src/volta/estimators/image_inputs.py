"""What counts as images: a folder, files, or pixels in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import refuse_mask
from volta.core.errors import InputError, MissingDataError
from volta.core.types import Array
from volta.data.formats.image_files import list_images
from volta.data.formats.image_folder import place_images

if TYPE_CHECKING:
    from volta.features import Images

ImageInput: TypeAlias = "str | Path | Sequence[str | Path] | NDArray[np.uint8] | Images"


def as_images(given: Any) -> Images:
    """Return a folder (all images in it, sorted by path), a list of files or an array of pixels as images."""
    from volta.features.images import ImagePaths, PixelArray

    if isinstance(given, str | Path):
        folder = _folder(Path(given))
        return ImagePaths(tuple(folder / name for name in sorted(list_images(folder).names)))
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        return ImagePaths(tuple(Path(item) for item in given))
    if isinstance(given, np.ndarray) and given.dtype.kind in "US":
        return ImagePaths(tuple(Path(str(item)) for item in given.ravel()))
    if hasattr(given, "content_hash"):
        images: Images = given
        return images
    refuse_mask(given, "X")
    return PixelArray(_channels_first(np.asarray(given)))


def labelled_folder(source: Path) -> tuple[list[Path], NDArray[np.str_]]:
    """Return the images of a folder with one folder a class, and each one's class; of splits, those of ``train``."""
    folder = _folder(source)
    placed = place_images(list_images(folder))
    splits = {item.split for item in placed}
    if "all" not in splits and "train" not in splits:
        raise InputError(f"{source} has the splits {', '.join(sorted(splits))} and no train; name a folder of classes")
    chosen = [item for item in placed if item.split in ("all", "train")]
    return [folder / item.path for item in chosen], np.array([item.label for item in chosen])


def _folder(source: Path) -> Path:
    if not source.is_dir():
        raise MissingDataError(f"{source} is not a folder; pass a folder of images, a list of files, or pixels")
    return source


def _channels_first(pixels: Array) -> Array:
    """Return (n, 3, h, w) uint8, or say why the array is none that can be told to be images."""
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or 3 not in (pixels.shape[1], pixels.shape[3]):
        raise InputError(
            f"X is {pixels.dtype} of shape {pixels.shape}; pass uint8 pixels of shape (n, height, width, 3) or "
            "(n, 3, height, width), a list of files, or a folder; pixels in [0, 1] times 255, rounded, are uint8"
        )
    if pixels.shape[1] == 3 and pixels.shape[3] == 3:
        raise InputError(
            f"X has shape {pixels.shape}, which may be (n, height, width, 3) or (n, 3, height, width); "
            "pass images that are not 3 pixels high and wide"
        )
    return pixels if pixels.shape[1] == 3 else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
