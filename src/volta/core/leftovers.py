"""Temporary files and folders that a killed process left behind: told from living ones by a lock, and swept."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART_FOLDER = ".part-"
PART_FILE = ".part"
# A pipe in a stranger's folder would keep who opens it waiting.
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DEEPEST = 16
"""No folder of ours goes deeper."""


@contextmanager
def part_folder(parent: Path, label: str = "") -> Iterator[Path]:
    """Give a new folder ``.part-LABEL…`` in ``parent``, removed at the end unless moved; it is locked meanwhile."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PART_FOLDER}{label}", dir=parent))
        with living(folder) as held:
            if not held:
                # Swept between its making and its locking.
                continue
            try:
                yield folder
            finally:
                remove_tree(folder)
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


def sweep(folder: Path, *, deep: bool = False) -> list[Path]:
    """Remove what dead processes left in ``folder`` (and, if ``deep``, below it); return what was removed."""
    return [path for path in _candidates(folder, _DEEPEST if deep else 0) if remove_if_dead(path)]


def is_leftover(name: str) -> bool:
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
        if is_leftover(entry.name):
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
