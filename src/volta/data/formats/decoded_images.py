"""Decoded images kept in the cache, so that an archive of files is decoded once and then memory-mapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.cache import ArrayCache
from volta.core.types import Array
from volta.data.formats.image_files import ImageFiles, decode_all
from volta.data.options import cache_folder

_VERSION = 2


def decoded_images(files: ImageFiles, names: Sequence[str]) -> tuple[Array, str]:
    """Return the named images as (n, 3, h, w) uint8 and how their files hold them, from the cache if they are there.

    The key is the names and the source's stamp; a cache that cannot be written is done without.
    """
    cache = ArrayCache(cache_folder() / "decoded")
    if not cache.writable:
        decoded = decode_all(files, names)
        return decoded.array, describe_encodings(decoded.encodings)
    parts = {"what": "decoded images", "decoder": _VERSION, "source": files.stamp, "names": list(names)}

    def write(path: Path) -> Mapping[str, Any]:
        decoded = decode_all(files, names, into=path)
        if isinstance(decoded.array, np.memmap):
            decoded.array.flush()
        return {"encodings": dict(decoded.encodings), "names": len(names)}

    found = cache.obtain(parts, write)
    return found.array, describe_encodings(found.meta["encodings"])


def describe_encodings(encodings: Mapping[str, int]) -> str:
    """Return in words how files hold their pixels: «re-encoded (JPEG)», «losslessly encoded (WebP)».

    ``encodings`` counts files by :func:`~volta.data.formats.image_decoding.encoding`.
    """
    words: Counter[str] = Counter()
    for name, count in encodings.items():
        kind, _, how = name.partition(", ")
        words[f"losslessly encoded ({kind})" if how == "lossless" else f"re-encoded ({kind})"] += count
    return " and ".join(text for text, _ in words.most_common()) or "no images"
