"""Files that are either whole or absent, and hashes of what is in them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from volta.core.foreign import no_room
from volta.core.leftovers import PART_FILE, living
from volta.core.mapped import row_chunks

_CHUNK_BYTES = 1 << 22


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on a clean exit sync it to disk and move it into place.

    On an error the temporary file is removed and ``path`` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _part_file(path) as temporary:
        try:
            yield temporary
            _sync(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Call ``write`` on an open binary file that becomes ``path`` only if it succeeds."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write(file)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomic(path, lambda file: file.write(text.encode()))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys sorted, so that equal values give equal bytes."""
    write_text(path, canonical_json(value, indent=2) + "\n")


def write_rows(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[np.ndarray]) -> None:
    """Write an npy file of ``shape`` from pieces that follow one another, so that it never has to fit in memory.

    It is written, not mapped: on a full disk a write fails with an error, a mapped page kills the process.
    """
    try:
        with path.open("wb") as file:
            _write_npy_header(file, dtype, shape)
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype=dtype).data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise no_room(path, error) from error


def reserve_npy(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Return a new npy file as a writable memory map; its space is taken, so that no page finds the disk full."""
    try:
        with path.open("wb") as file:
            _write_npy_header(file, dtype, shape)
            n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
            _take_space(file, file.tell(), n_bytes)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise no_room(path, error) from error
    return np.lib.format.open_memmap(path, mode="r+")


def reserve_again(path: Path) -> None:
    """Take the space of a file that has its full size but may have holes, as one that was copied has."""
    try:
        with path.open("rb+") as file:
            _reserved(file, 0, max(1, path.stat().st_size))
    except OSError as error:
        raise no_room(path, error) from error


def write_png(path: Path, image: np.ndarray) -> None:
    """Write a uint8 image (h, w, 3) into place."""
    from PIL import Image

    write_atomic(path, lambda file: Image.fromarray(image).save(file, "PNG"))


def canonical_json(value: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys; NaN and infinities are refused rather than written as invalid JSON."""
    return json.dumps(value, sort_keys=True, indent=indent, allow_nan=False, ensure_ascii=False)


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex, read in pieces."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def stored_bytes(path: Path) -> int:
    """Return the size of a file, or of all files below a folder however deep; linked folders are not entered."""
    if path.is_file():
        return path.stat().st_size
    total, folders = 0, [str(path)]
    while folders:
        # What goes away meanwhile, or cannot be looked into, does not count.
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    total += entry.stat().st_size
    return total


def hash_array(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's dtype, shape and values, read in pieces so that memory maps stay on disk."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    rows_per_chunk = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
    for chunk in row_chunks(array, rows_per_chunk):
        digest.update(np.ascontiguousarray(chunk).data)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the platform allows it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _part_file(path: Path) -> Iterator[Path]:
    """Give a new temporary file beside ``path``, locked so that a sweep of left-overs passes it by."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART_FILE, dir=path.parent)
        os.close(handle)
        with living(Path(name)) as held:
            if held:
                yield Path(name)
                return


def _write_npy_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _take_space(file: IO[bytes], start: int, n_bytes: int) -> None:
    file.flush()
    if n_bytes and _reserved(file, start, n_bytes):
        return
    # Where space cannot be reserved it is written.
    zeros = bytes(min(n_bytes, _CHUNK_BYTES))
    for position in range(0, n_bytes, _CHUNK_BYTES):
        file.write(zeros[: n_bytes - position])


def _reserved(file: IO[bytes], start: int, n_bytes: int) -> bool:
    """Reserve space in a file; False where its system cannot."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(file.fileno(), start, n_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        return False
    return True


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    # It can only be read by being set: to the strictest, lest another thread open its files to everybody meanwhile.
    current = os.umask(0o077)
    os.umask(current)
    return current
