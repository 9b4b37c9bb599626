"""Feature rows on their way into the cache: checked, brought to the type asked for, written shard by shard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.cache import ShardWriter
from volta.core.errors import InputError
from volta.core.types import Array

DTYPES = ("float32", "float16")


class FeatureWriter:
    """Writes one feature set, row range by row range; hold the key's lock while using it."""

    def __init__(self, folder: Path, n_rows: int, dtype: str) -> None:
        if dtype not in DTYPES:
            raise InputError(f"dtype is {dtype!r}; pass one of {', '.join(DTYPES)}")
        self._n_rows = n_rows
        self._dtype = np.dtype(dtype)
        self._shards = ShardWriter(folder, n_rows, self._dtype)

    def done(self) -> list[tuple[int, int]]:
        """Return the row ranges that an earlier writer finished and whose bytes are still what it wrote."""
        return self._shards.done()

    def write(self, start: int, features: Array) -> None:
        """Put rows ``start`` onwards, (rows, d), on disk; values that are not finite or do not fit are refused."""
        if features.ndim != 2 or start + len(features) > self._n_rows:
            raise InputError(
                f"features has shape {features.shape} at row {start} of {self._n_rows}; expected (rows, d)"
            )
        if not np.isfinite(features).all():
            row = start + int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
            raise InputError(f"the backbone gives a value that is not finite for image {row}; check image and weights")
        with np.errstate(over="ignore"):
            rows = features.astype(self._dtype)
        if not np.isfinite(rows).all():
            raise InputError(
                f"a feature of {np.abs(features).max():.3g} does not fit {self._dtype}; pass dtype='float32'"
            )
        self._shards.write(start, rows)

    def finish(self, key: str, meta: Mapping[str, Any], width: int) -> None:
        """Move the array into place; ``width`` is d for a set without rows."""
        self._shards.finish(key, meta, (width,))
