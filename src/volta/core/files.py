"""Files that are either whole or absent: atomic writes, hashes, locks, temporary files, limits."""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, StoreError, no_room

if TYPE_CHECKING:
    from filelock import FileLock


@dataclass(frozen=True)
class Limits:
    """Limits on files from elsewhere; ``--limit NAME=VALUE`` changes one.

    Parameters
    ----------
    n_members
        Files in an archive.
    total_bytes
        Bytes that one file may become when it is unpacked or decoded.
    ratio, free_bytes
        Beyond ``free_bytes``, unpacked or decoded bytes may be ``ratio`` times the file's own at most: no small file
        becomes a huge one.
    header_bytes
        Bytes of the header of an array.
    image_pixels
        Pixels of one image.
    n_classes
        Classes of a task, and hence class numbers in a feature file.
    parser_seconds, parser_bytes
        Wall-clock time and memory of a parser that runs in a process of its own.
    """

    n_members: int = 5_000_000
    total_bytes: int = 1 << 40
    ratio: float = 100.0
    free_bytes: int = 1 << 28
    header_bytes: int = 1 << 20
    image_pixels: int = 80_000_000
    n_classes: int = 100_000
    parser_seconds: float = 120.0
    parser_bytes: int = 4 << 30

    def check_volume(self, path: Path, total: int, packed: int) -> None:
        """Refuse a file of ``packed`` bytes that would become ``total`` bytes."""
        if total > self.total_bytes or (total > self.free_bytes and total > self.ratio * packed):
            raise InputError(
                f"{path} is refused: {packed:,} bytes would unpack to {total:,} or more, as a zip bomb does; "
                f"if it is sound, raise the limit: --limit ratio={total // max(1, packed) + 1}"
            )


DEFAULT_LIMITS = Limits()


def parse_limits(texts: Sequence[str], base: Limits = DEFAULT_LIMITS) -> Limits:
    """Return limits with those changed that ``texts`` name, each NAME=VALUE.

    >>> parse_limits(["ratio=1000", "n_members=10"]).n_members
    10
    """
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(base)}
    values: dict[str, int | float | bool] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise InputError(f"--limit is {text!r}; pass NAME=VALUE with one of {', '.join(kinds)}")
        try:
            number = float(value)
            # A bool is 1 or 0; a count may be written as 1e9.
            values[name] = kinds[name](int(number) if kinds[name] is not float else number)
        except (ValueError, OverflowError) as error:
            raise InputError(f"--limit is {text!r}; {name} needs a number, as in {name}=1e9") from error
        if not number >= 0:
            raise InputError(f"--limit is {text!r}; a limit is not below 0")
    return replace(base, **values)  # type: ignore[arg-type]


_RELEASE_BYTES = 1 << 26


def row_chunks(array: NDArray[Any], rows: int) -> Iterator[NDArray[Any]]:
    """Walk an array in pieces of at most ``rows`` rows, giving pages of a memory map back after each 64 MiB."""
    held = 0
    for start in range(0, len(array), rows):
        piece = array[start : start + rows]
        yield piece
        held += piece.nbytes
        if held >= _RELEASE_BYTES:
            release(array)
            held = 0
    release(array)


def release(array: NDArray[Any]) -> None:
    """Let go of the pages of a read-only memory map; they stay in the kernel's cache and come back when touched.

    Pages that were read otherwise count as this process's memory until something else needs them.
    """
    mapping = getattr(array, "_mmap", None)
    if isinstance(array, np.memmap) and mapping is not None and array.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def file_position(array: NDArray[Any]) -> tuple[str, int] | None:
    """Return the file and the byte at which a memory-mapped, contiguous array (or a slice of one) begins, else None."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(array, np.memmap) or mapping is None or array.filename is None or not array.flags.c_contiguous:
        return None
    begins = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    address = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    return str(array.filename), begins + array.ctypes.data - address


def inside(root: Path, *parts: str) -> Path:
    """Return the path of ``parts`` below ``root``; refuse a part that is no plain name or is a symbolic link.

    A run folder may come from somebody else: nothing outside it is read or written. ``root`` itself was named by the
    user and may be a link.
    """
    path = Path(root)
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part:
            raise StoreError(f"{part!r} is no name of a file in {root}; it was altered: name another folder")
        path = path / part
        if path.is_symlink():
            raise StoreError(
                f"{path} is a symbolic link, which volta neither reads nor writes; "
                "put what it points to in its place, or remove it"
            )
    return path


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file; one that is larger than ``max_bytes`` is refused unread."""
    n_bytes = path.stat().st_size
    if n_bytes > max_bytes:
        raise StoreError(f"{path} has more than {max_bytes:,} bytes, which no such file has; remove it")
    return path.read_bytes()


def lock_file(root: Path, *parts: str) -> FileLock:
    """Return the lock of ``parts`` below ``root``."""
    from filelock import FileLock

    return FileLock(inside(root, *parts))


PART_FOLDER = ".part-"
PART_FILE = ".part"
# A pipe in a stranger's folder would keep who opens it waiting.
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DEEPEST = 16
"""No folder of ours goes deeper."""


@contextmanager
def temp_folder(parent: Path, label: str = "") -> Iterator[Path]:
    """Give a new folder ``.part-LABEL…`` in ``parent``, removed at the end unless moved; it is locked meanwhile."""
    with _locked(lambda: Path(tempfile.mkdtemp(prefix=f"{PART_FOLDER}{label}", dir=parent))) as folder:
        try:
            yield folder
        finally:
            remove_tree(folder)


@contextmanager
def _locked(make: Callable[[], Path]) -> Iterator[Path]:
    """Give a new temporary file or folder under its lock, made again where it is swept before it is locked."""
    while True:
        path = make()
        with living(path) as held:
            if held:
                yield path
                return


@contextmanager
def living(path: Path) -> Iterator[bool]:
    """Hold a lock on a temporary file or folder, so that no sweep takes it; False if it is no longer there.

    The lock is the kernel's own: it ends with the process, however that ends, and needs no file beside it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    except OSError:
        # Folders cannot be opened on every platform; there nothing is swept either.
        yield True
        return
    try:
        _lock(descriptor, wait=True)
        yield _same(descriptor, path)
    finally:
        os.close(descriptor)


def remove_temp_files(folder: Path, *, deep: bool = False) -> list[Path]:
    """Remove what dead processes left in ``folder`` (and, if ``deep``, below it); return what was removed."""
    return [path for path in _candidates(folder, _DEEPEST if deep else 0) if remove_if_dead(path)]


def is_temp_file(name: str) -> bool:
    """Whether a file or folder of this name is one that is moved into place or removed once it is whole."""
    return name.startswith(PART_FOLDER) or (name.startswith(".") and name.endswith(PART_FILE))


def remove_if_dead(path: Path) -> bool:
    """Remove a temporary file or folder whose process is gone, under its lock so that none begins to use it."""
    with if_dead(path) as dead:
        if dead and path.is_dir():
            remove_tree(path)
        elif dead:
            path.unlink(missing_ok=True)
    return dead


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as that can be done."""
    # Python descends by calling itself; a stranger's folder can be deeper than that goes.
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def if_dead(path: Path) -> Iterator[bool]:
    """Tell whether no process lives that made ``path``, and hold its lock meanwhile if so."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _AS_IT_IS)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor, wait=False) and _same(descriptor, path)
    finally:
        os.close(descriptor)


def _candidates(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            continue
        if is_temp_file(entry.name):
            yield Path(entry.path)
        elif depth and entry.is_dir():
            yield from _candidates(Path(entry.path), depth - 1)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Take the lock of an open file or folder; False where another has it or the file system has none."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


_CHUNK_BYTES = 1 << 22


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on a clean exit sync it to disk and move it into place.

    On an error the temporary file is removed and ``path`` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(lambda: _part_file(path)) as temporary:
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
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
            _take_space(file, n_bytes)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise no_room(path, error) from error
    return np.lib.format.open_memmap(path, mode="r+")


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


def _part_file(path: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART_FILE, dir=path.parent)
    os.close(handle)
    return Path(name)


def _write_npy_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _take_space(file: IO[bytes], n_bytes: int) -> None:
    """Make sure that the disk has ``n_bytes`` more for a file; they are written where they cannot be reserved."""
    file.flush()
    if n_bytes and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), file.tell(), n_bytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        else:
            return
    zeros = bytes(min(n_bytes, _CHUNK_BYTES))
    for position in range(0, n_bytes, _CHUNK_BYTES):
        file.write(zeros[: n_bytes - position])


def _umask() -> int:
    # It can only be read by being set: to the strictest, lest another thread open its files to everybody meanwhile.
    current = os.umask(0o077)
    os.umask(current)
    return current
