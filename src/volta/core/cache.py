"""The one cache of derived arrays: decoded images, corrupted images, features, each under the hash of what made it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.core.checksummed import FileKind, checksum_of_file, has_checksum, read_object, write_object
from volta.core.errors import InputError, StoreError
from volta.core.files import (
    canonical_json,
    hash_text,
    inside,
    lock_file,
    read_file,
    reserve_npy,
    sync_folder,
)
from volta.core.types import Array

if TYPE_CHECKING:
    from filelock import FileLock


ARRAY = "array.npy"
META = "meta.json"
JOURNAL = "shards.log"
PART = f"{ARRAY}.part"
CACHE_VERSION = 1
_JOURNAL_BYTES = 1 << 28
META_FILE = FileKind("description of a cached array", 2, "delete its folder, and it is made again")


@dataclass(frozen=True, eq=False)
class CachedArray:
    """A finished array: a read-only memory map of ``path``; ``meta`` says what made it."""

    path: Path
    array: Array
    key: str
    meta: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.array)


def cache_key(parts: Mapping[str, Any]) -> str:
    """Return the key of an array made of ``parts``: hashes of its inputs and whatever else decides its values."""
    return hash_text(canonical_json({"version": CACHE_VERSION, **parts}))


class ArrayCache:
    """Arrays by key under ``root``: ``KEY/array.npy`` and ``KEY/meta.json``.

    An array is complete or missing; a damaged one counts as missing and is made again. One process makes an array while
    others wait for it. Deleting a cache loses nothing but time.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    @property
    def writable(self) -> bool:
        """Whether arrays can be kept here; the folder is made where it can be."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.root, os.W_OK)

    def get(self, key: str) -> CachedArray | None:
        """Return the finished array under ``key``, memory-mapped, or None if there is none or it is damaged."""
        try:
            meta = read_object(inside(self.root, key[:32], META), META_FILE, dict[str, Any])
            path = inside(self.root, key[:32], ARRAY)
            if meta.get("key") != key or not has_checksum(path, meta.get("array_seal", "")):
                return None
            array = _mapped(path)
            if array is None or [list(array.shape), array.dtype.name] != [meta.get("shape"), meta.get("dtype")]:
                return None
        except OSError:
            return None
        return CachedArray(path, array, key, meta)

    def obtain(self, parts: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any]]) -> CachedArray:
        """Return the array made of ``parts``, first made if it is not there.

        ``make`` writes an npy file to the path it is given and returns what to note of it beside ``parts``.
        """
        key = cache_key(parts)
        if (found := self.get(key)) is not None:
            return found
        with self.lock(key):
            if (found := self.get(key)) is not None:
                return found
            folder = self.folder(key)
            folder.mkdir(parents=True, exist_ok=True)
            part = inside(folder, PART)
            part.unlink(missing_ok=True)
            try:
                noted = make(part)
                made = np.load(part, mmap_mode="r", allow_pickle=False)
                _publish(folder, key, {**parts, **noted}, made.shape, made.dtype)
            finally:
                part.unlink(missing_ok=True)
        return self.finished(key)

    def finished(self, key: str) -> CachedArray:
        """Return an array that was just written; it is an error if it cannot be read back."""
        found = self.get(key)
        if found is None:
            raise StoreError(f"the array written to {self.folder(key)} cannot be read back; check the disk")
        return found

    def folder(self, key: str) -> Path:
        """Return the folder of ``key``."""
        return inside(self.root, key[:32])

    def lock(self, key: str) -> FileLock:
        """Return the lock that one writer of ``key`` holds; others wait and then find the array there."""
        if not self.writable:
            raise StoreError(
                f"{self.root}, where derived arrays are kept, cannot be written; name a folder that can be with the "
                "environment variable VOLTA_CACHE"
            )
        return lock_file(self.root, f"{key[:32]}.lock")


class ShardWriter:
    """Writes one array row range by row range, so that a killed process loses little; hold the key's lock meanwhile.

    While being written the array is ``array.npy.part``, at its full size from the start; each shard's rows are synced
    to disk before a line (first row, end row, SHA-256) is added to the journal. Whatever is killed and whenever, a
    later writer keeps the rows whose hash the journal confirms and makes only the others.
    """

    def __init__(self, folder: Path, n_rows: int, dtype: np.dtype[Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._part = inside(folder, PART)
        self._journal = inside(folder, JOURNAL)
        self._n_rows = n_rows
        self.dtype = dtype
        self._array: np.memmap[Any, Any] | None = self._open()

    def done(self) -> list[tuple[int, int]]:
        """Return the row ranges that an earlier writer finished and whose bytes are still what it wrote."""
        if self._array is None or not self._journal.is_file():
            return []
        found = []
        for line in read_file(self._journal, _JOURNAL_BYTES).decode(errors="replace").splitlines():
            match line.split():
                case [first, last, digest] if first.isdigit() and last.isdigit():
                    start, stop = int(first), int(last)
                    if start < stop <= self._n_rows and _digest(self._array[start:stop]) == digest:
                        found.append((start, stop))
        return found

    def write(self, start: int, rows: Array) -> None:
        """Put rows ``start`` onwards on disk, then into the journal."""
        if start + len(rows) > self._n_rows:
            raise InputError(f"rows has shape {rows.shape} at row {start} of {self._n_rows}; pass rows of the array")
        if self._array is None:
            self._array = reserve_npy(self._part, self.dtype, (self._n_rows, *rows.shape[1:]))
        if rows.shape[1:] != self._array.shape[1:]:
            raise StoreError(
                f"{self._part} has rows of shape {self._array.shape[1:]}, now {rows.shape[1:]}; delete {self._folder}"
            )
        self._array[start : start + len(rows)] = rows
        self._array.flush()
        with self._journal.open("ab") as journal:
            # A line torn by a kill must not swallow the next one: every entry starts on a line of its own.
            journal.write(f"\n{start} {start + len(rows)} {_digest(rows)}\n".encode())
            journal.flush()
            os.fsync(journal.fileno())

    def finish(self, key: str, meta: Mapping[str, Any], row_shape: tuple[int, ...]) -> None:
        """Move the array into place and forget the journal; ``row_shape`` is that of an array without rows."""
        if self._array is None:
            self._array = reserve_npy(self._part, self.dtype, (0, *row_shape))
        shape = self._array.shape
        self._array.flush()
        self._array = None
        _publish(self._folder, key, meta, shape, self.dtype)
        self._journal.unlink(missing_ok=True)

    def _open(self) -> np.memmap[Any, Any] | None:
        """Return the array an earlier writer began, or None if there is none that fits."""
        # Looked at before it is opened for writing, which would make the file as long as a damaged header says.
        found = _mapped(self._part) if self._part.is_file() else None
        if found is not None and found.ndim > 0 and len(found) == self._n_rows and found.dtype == self.dtype:
            return np.lib.format.open_memmap(self._part, mode="r+")
        self._part.unlink(missing_ok=True)
        self._journal.unlink(missing_ok=True)
        return None


def _mapped(path: Path) -> Array | None:
    """Return an npy file as a read-only memory map, or None if it is not one."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:
        # NumPy reads the header with Python's own parser, which raises more kinds than NumPy's documentation names.
        return None
    return array


def _publish(folder: Path, key: str, meta: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write the description, then move the finished array beside it."""
    part = inside(folder, PART)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    described = {
        **meta,
        "key": key,
        "shape": list(shape),
        "dtype": dtype.name,
        "array_seal": checksum_of_file(part),
    }
    write_object(folder / META, META_FILE, described)
    part.replace(folder / ARRAY)
    sync_folder(folder)


def _digest(rows: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
