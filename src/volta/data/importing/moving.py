"""Where imported tasks lie: a task appears whole, replaces another whole, and what killed imports left is swept."""

from __future__ import annotations

import tempfile
from pathlib import Path

from volta.core.errors import InputError, StoreError
from volta.core.files import sync_folder
from volta.core.leftovers import if_dead, living, remove_tree, sweep

_ASIDE = ".old-"


def refuse_existing(target: Path, replace: bool) -> None:
    """Refuse the place of a task that is there already, unless it may be replaced."""
    if target.exists() and not replace:
        raise InputError(
            f"the task {target.name!r} exists already at {target}; choose another name or pass --force to replace it"
        )


def tidy(parent: Path) -> None:
    """Make the folder of imported tasks and sweep what killed imports left there; a task moved aside moves back."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for aside in sorted(parent.glob(f"{_ASIDE}*")):
            with if_dead(aside) as dead:
                if dead:
                    _restore(aside, parent)
        sweep(parent)
    except OSError as error:
        raise StoreError(
            f"{parent} cannot be written: {error.strerror or error}; name another folder with --data"
        ) from error


def move_task(temporary: Path, target: Path) -> None:
    """Move a finished task to its place; one that stands there moves aside first and is removed last."""
    if target.exists():
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=target.parent))
        with living(aside):
            target.rename(aside / target.name)
            temporary.rename(target)
            remove_tree(aside)
    else:
        temporary.rename(target)
    sync_folder(target.parent)


def _restore(aside: Path, parent: Path) -> None:
    for task in aside.iterdir():
        if not (parent / task.name).exists():
            task.rename(parent / task.name)
    remove_tree(aside)
