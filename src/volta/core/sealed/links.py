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
# Opening a pipe that stands in a file's place would wait for a writer.
_READ = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


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
    if not _NO_FOLLOW and Path(path).is_symlink():
        raise _link(path)
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) and Path(path).is_symlink():
            raise _link(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{path} is not a file but a folder, pipe or device; remove it")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file of ours; one that is larger than ``max_bytes`` is refused unread."""
    with open_file(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise StoreError(f"{path} has more than {max_bytes:,} bytes, which no such file has; remove it")
    return data


def lock_file(root: Path, *parts: str) -> FileLock:
    """Return the lock of ``parts`` below ``root``; a lock file that is a link would be opened where it points to."""
    from filelock import FileLock

    return FileLock(inside(root, *parts))


def _link(path: Path) -> StoreError:
    return StoreError(
        f"{path} is a symbolic link, and files of ours are neither read nor written through links; "
        "put what it points to in its place, or remove it"
    )
