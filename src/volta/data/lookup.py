"""Tasks by name: the built-in ones and those imported into a data folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import MissingDataError
from volta.core.plugins import plugins
from volta.core.set_names import plain_name
from volta.core.suggest import unknown_name
from volta.core.types import Array
from volta.data.corruptions.shifts import sheet_of
from volta.data.definition import TaskDefinition
from volta.data.formats.feature_files import features_path
from volta.data.importing.imported_tasks import imported_tasks
from volta.data.options import SEVERITIES, LoadOptions, data_root
from volta.data.raw_sets import RawSets
from volta.data.tasks import TASKS
from volta.data.whole_task import plugin_task


def all_tasks(root: Path | None = None) -> dict[str, TaskDefinition]:
    """Return the built-in tasks, those imported under ``root`` and those of plug-ins."""
    imported = {task.name: task for task in imported_tasks(data_root(root))}
    brought = {name: plugin_task(found) for name, found in plugins("volta.tasks").items()}
    return TASKS | {name: task for name, task in (brought | imported).items() if name not in TASKS}


def find_task(name: str, root: Path | None = None) -> TaskDefinition:
    """Return the task called ``name``, built-in, imported under ``root`` or of a plug-in, or say which there are.

    >>> digits = find_task("digits").load()
    >>> digits.fit.n_classes, sorted(digits.ood)
    (8, ['digits_8_9', 'shuffled_pixels', 'uniform_noise'])
    """
    if name in TASKS:
        return TASKS[name]
    tasks = all_tasks(root)
    if name not in tasks:
        file = features_path(data_root(root), name)
        stored = plain_name(name) == name and file.is_file()
        hint = f"make {file} one with: volta data import {file} --name {name}" if stored else "see: volta tasks"
        raise unknown_name("task", name, tasks, hint)
    return tasks[name]


def pixel_sets(name: str, options: LoadOptions | None = None) -> RawSets:
    """Return all image sets of a task with their labels, before val and cal are split off."""
    options = options or LoadOptions()
    return find_task(name, options.root).image_sets(options)


def image_sets(name: str, root: Path | None = None) -> Mapping[str, Array]:
    """Return a task's images by set, each (n, 3, h, w) uint8, in a stable order: parts, OOD sets, shifts.

    A set is read or made only when it is asked for.
    """
    return pixel_sets(name, LoadOptions(root)).inputs()


def corruption_sheet(name: str, options: LoadOptions) -> NDArray[np.uint8] | None:
    """Return a contact sheet of the 19 corruptions at 5 severities on a task's first test image.

    None where the task's shifts do not include them, or its images are not there.
    """
    try:
        sets = pixel_sets(name, replace(options, severities=SEVERITIES, ood=()))
    except MissingDataError:
        return None
    return sheet_of(sets)
