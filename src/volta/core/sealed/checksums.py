"""Checksums of files that are opened again and again: worked out once a process while a file stays the same.

A file counts as the same while device, number, size and times are. Those of large files are remembered beside them,
so that data larger than memory are read through once and not by every process: a changed file is read through again,
and what a disk changed by itself, times and all, is found by ``volta data verify``.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from volta.core.errors import StoreError
from volta.core.files import hash_file
from volta.core.sealed.kind import FileKind
from volta.core.sealed.links import open_file
from volta.core.sealed.objects import read_object, write_object

PIECE = 1 << 20
LARGE_BYTES = 1 << 30
SEEN = FileKind("note of a checked file", 1, "delete it", max_bytes=1 << 12)

_Identity = tuple[int, ...]
_known: dict[tuple[str, str], tuple[_Identity, str]] = {}


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; worked out once a process while the file stays the same."""
    return _once("sha256", path, hash_file)


def seal_of_file(path: Path) -> str:
    """Return the seal of a file: the SHA-256 of the CRC-32 of each MiB, which finds damage at a CRC's speed."""
    with open_file(path) as file:
        sums = []
        buffer = memoryview(bytearray(PIECE))
        while n_read := file.readinto(buffer):  # type: ignore[attr-defined]
            sums.append(zlib.crc32(buffer[:n_read]))
    return seal_of_sums(sums)


def seal_of_sums(sums: list[int]) -> str:
    """Return the seal that the CRC-32 of each MiB give."""
    return hashlib.sha256(b"".join(value.to_bytes(4, "little") for value in sums)).hexdigest()


def check_seal(path: Path, seal: str, *, large_bytes: int = LARGE_BYTES) -> bool:
    """Tell whether a file has the seal that was noted when it was written."""
    identity = _identity(path)
    is_large = identity[2] >= large_bytes
    if is_large and _remembered(path, identity, seal):
        return True
    same = _once("seal", path, seal_of_file) == seal
    if is_large and same:
        # Where the folder cannot be written, the next process reads the file through again.
        with suppress(OSError):
            write_object(_note(path), SEEN, {"identity": list(identity), "array_seal": seal})
    return same


def _once(how: str, path: Path, compute: Callable[[Path], str]) -> str:
    identity = _identity(path)
    found = _known.get((how, str(path)))
    if found is None or found[0] != identity:
        found = identity, compute(path)
        _known[how, str(path)] = found
    return found[1]


def _identity(path: Path) -> _Identity:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a file but a link, folder, pipe or device; remove it")
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remembered(path: Path, identity: _Identity, seal: str) -> bool:
    try:
        stored = read_object(_note(path), SEEN)
        return stored.integers("identity") == identity and stored.text("array_seal") == seal
    except OSError:
        return False


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.seen")
