"""Every official file by name: what the tasks are made of, and the weights of backbones."""

from __future__ import annotations

from volta.core.errors import InputError
from volta.data.download.archive import Archive
from volta.data.download.weights import WEIGHTS
from volta.data.tasks import TASKS

ARCHIVES: dict[str, Archive] = {
    archive.name: archive for task in TASKS.values() for archive in (*task.archives, *task.optional_archives)
} | {archive.name: archive for archive in WEIGHTS}


def archive_names(name: str) -> tuple[str, ...]:
    """Return the archives that a task or an archive name stands for."""
    downloadable = {task.name: task for task in TASKS.values() if task.archives}
    if name in downloadable:
        return tuple(archive.name for archive in downloadable[name].archives)
    if name in ARCHIVES:
        return (name,)
    names = ", ".join([*downloadable, *ARCHIVES])
    raise InputError(f"there is nothing to get under the name {name!r}; the names are: {names}")
