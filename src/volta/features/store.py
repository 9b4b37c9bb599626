"""Features on disk: one memory-mappable .npy per key, written shard by shard, resumable after being killed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from volta.core.errors import InputError, StoreError
from volta.core.files import canonical_json, hash_text, sync_folder, write_json
from volta.core.types import Array

FEATURES = "features.npy"
META = "meta.json"
JOURNAL = "shards.log"
STORE_VERSION = 1
DTYPES = ("float32", "float16")


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Finished features: ``array`` (n, d) is a read-only memory map of ``path``; ``meta`` says what made them."""

    path: Path
    array: Array
    key: str
    meta: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.array)


def feature_key(parts: Mapping[str, Any]) -> str:
    """Return the key of features made of ``parts``: hashes of data and weights, backbone, preprocessing, dtype."""
    return hash_text(canonical_json({"version": STORE_VERSION, **parts}))


class FeatureStore:
    """Feature sets by key under ``root``: ``KEY/features.npy`` and ``KEY/meta.json``.

    While being written the array is ``features.npy.part``, at its full size from the start; each shard's rows are
    synced to disk before a line (first row, end row, SHA-256) is added to the journal. Whatever is killed and whenever,
    a later writer keeps the rows whose hash the journal confirms and makes only the others.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def get(self, key: str) -> FeatureSet | None:
        """Return the finished features under ``key``, memory-mapped, or None if there are none or they are damaged."""
        folder = self.folder(key)
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            array = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        if meta.get("key") != key or list(array.shape) != meta.get("shape") or array.dtype.name != meta.get("dtype"):
            return None
        return FeatureSet(folder / FEATURES, array, key, meta)

    def folder(self, key: str) -> Path:
        """Return the folder of ``key``."""
        return self.root / key[:32]

    def lock(self, key: str) -> FileLock:
        """Return the lock that one writer of ``key`` holds; others wait and then find the features there."""
        self.root.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root / f"{key[:32]}.lock")


class ShardWriter:
    """Writes one feature set, row range by row range; hold :meth:`FeatureStore.lock` while using it."""

    def __init__(self, folder: Path, n_rows: int, dtype: str) -> None:
        if dtype not in DTYPES:
            raise InputError(f"dtype is {dtype!r}; pass one of {', '.join(DTYPES)}")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._part = folder / f"{FEATURES}.part"
        self._journal = folder / JOURNAL
        self._n_rows = n_rows
        self._dtype = np.dtype(dtype)
        self._array: Array | None = self._open()

    def done(self) -> list[tuple[int, int]]:
        """Return the row ranges that an earlier writer finished and whose bytes are still what it wrote."""
        if self._array is None or not self._journal.is_file():
            return []
        found = []
        for line in self._journal.read_text(encoding="utf-8", errors="replace").splitlines():
            match line.split():
                case [first, last, digest] if first.isdigit() and last.isdigit():
                    start, stop = int(first), int(last)
                    if start < stop <= self._n_rows and _digest(self._array[start:stop]) == digest:
                        found.append((start, stop))
        return found

    def write(self, start: int, features: Array) -> None:
        """Put rows ``start`` onwards on disk, then into the journal."""
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
        if self._array is None:
            self._array = np.lib.format.open_memmap(
                self._part, mode="w+", dtype=self._dtype, shape=(self._n_rows, features.shape[1])
            )
        if features.shape[1] != self._array.shape[1]:
            raise StoreError(
                f"{self._part} has {self._array.shape[1]} features a row, now {features.shape[1]}; "
                f"delete {self._folder}"
            )
        self._array[start : start + len(rows)] = rows
        self._array.flush()  # type: ignore[attr-defined]
        with self._journal.open("ab") as journal:
            # A line torn by a kill must not swallow the next one: every entry starts on a line of its own.
            journal.write(f"\n{start} {start + len(rows)} {_digest(rows)}\n".encode())
            journal.flush()
            os.fsync(journal.fileno())

    def finish(self, key: str, meta: Mapping[str, Any], width: int) -> None:
        """Move the array into place and forget the journal; ``width`` is d for a set without rows."""
        if self._array is None:
            self._array = np.lib.format.open_memmap(self._part, mode="w+", dtype=self._dtype, shape=(0, width))
        shape = list(self._array.shape)
        self._array.flush()  # type: ignore[attr-defined]
        self._array = None
        write_json(self._folder / META, {**meta, "key": key, "shape": shape, "dtype": self._dtype.name})
        with self._part.open("rb+") as file:
            os.fsync(file.fileno())
        self._part.replace(self._folder / FEATURES)
        sync_folder(self._folder)
        self._journal.unlink(missing_ok=True)

    def _open(self) -> Array | None:
        """Return the array an earlier writer began, or None if there is none that fits."""
        try:
            array: Array = np.lib.format.open_memmap(self._part, mode="r+")
        except (OSError, ValueError, EOFError):
            array = np.empty(0)
        if array.ndim == 2 and len(array) == self._n_rows and array.dtype == self._dtype:
            return array
        self._journal.unlink(missing_ok=True)
        return None


def _digest(rows: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
