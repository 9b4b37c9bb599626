"""Paths below a folder that was named, and files opened as themselves: nothing is reached through a symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from volta.core.errors import StoreError

if TYPE_CHECKING:
    from filelock import FileLock

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Opening a pipe that stands in a file's place would wait for who is at its other end.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def inside(root: Path, *parts: str) -> Path:
    """Return the path of ``parts`` below ``root``, or refuse it where a part is no plain name or is a symbolic link.

    ``root`` was named by the user and may be a link itself.
    """
    path = Path(root)
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part:
            raise StoreError(f"{part!r} is no name of a file in {root}; it was altered: name another folder")
        path = path / part
        if path.is_symlink():
            raise _link(path)
    return path


def open_file(path: Path) -> BinaryIO:
    """Open a regular file of ours for reading; a link, a pipe or a folder in its place is refused."""
    return os.fdopen(_opened(path, os.O_RDONLY), "rb")


def open_to_write(path: Path, *, append: bool = False) -> BinaryIO:
    """Open a file of ours to be written where it lies, emptied first unless ``append``; it is made if it is not there.

    A link, a pipe or a folder in its place is refused, and so is a file that has a second name (a hard link): what is
    written to it would stand in another folder too.
    """
    descriptor = _opened(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0))
    try:
        if os.fstat(descriptor).st_nlink > 1:
            raise StoreError(f"{path} has a second name (a hard link) that would be written to as well; remove it")
        if not append:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "ab" if append else "wb")


def is_plain_file(path: Path) -> bool:
    """Whether a regular file is there, no link, that has no second name under which it would be written to as well."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def open_named(path: Path) -> BinaryIO:
    """Open a regular file that a user named, which may be a link, for reading."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    return os.fdopen(_regular(descriptor, path), "rb")


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file of ours; one that is larger than ``max_bytes`` is refused unread."""
    with open_file(path) as file:
        # Asked for more, Python takes the memory for all of it before it reads.
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > max_bytes:
            raise StoreError(f"{path} has more than {max_bytes:,} bytes, which no such file has; remove it")
        return file.read(n_bytes)


def lock_file(root: Path, *parts: str) -> FileLock:
    """Return the lock of ``parts`` below ``root``; a lock file that is a link would be opened where it points to."""
    from filelock import FileLock

    path = inside(root, *parts)
    if path.exists() and not path.is_file():
        raise _no_file(path)
    return FileLock(path)


def _opened(path: Path, flags: int) -> int:
    """Return the descriptor of a regular file that is no link."""
    if not _NO_FOLLOW and Path(path).is_symlink():
        raise _link(path)
    try:
        descriptor = os.open(path, flags | _NO_FOLLOW | _NO_WAIT, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) and Path(path).is_symlink():
            raise _link(path) from error
        if error.errno == errno.ENXIO:
            raise _no_file(path) from error
        raise
    return _regular(descriptor, path)


def _regular(descriptor: int, path: Path) -> int:
    """Return the descriptor if it is that of a regular file, and close it otherwise."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def _no_file(path: Path) -> StoreError:
    return StoreError(f"{path} is not a file but a folder, pipe or device; name a file")


def _link(path: Path) -> StoreError:
    return StoreError(
        f"{path} is a symbolic link, and files of ours are neither read nor written through links; "
        "put what it points to in its place, or remove it"
    )
