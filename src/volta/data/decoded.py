"""Decoded images kept on disk, so that an archive of files is decoded once and then memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.files import atomic_path, hash_text
from volta.core.types import Array
from volta.data.image_files import ImageFiles, decode_all

_VERSION = 1


def decoded(files: ImageFiles, names: Sequence[str], cache: Path) -> Array:
    """Return the named images as (n, 3, h, w) uint8, from the cache if they were decoded before.

    The key is the names and the source's stamp; a cache that cannot be written is done without.
    """
    key = hash_text("\n".join([str(_VERSION), files.stamp, *names]))[:32]
    path = cache / "decoded" / f"{key}.npy"
    if not path.is_file():
        if not _writable(path.parent):
            return decode_all(files, names)[0]
        with atomic_path(path) as temporary:
            array = decode_all(files, names, into=temporary)[0]
            if isinstance(array, np.memmap):
                array.flush()
    try:
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it, it will be made again") from error
    return mapped


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
