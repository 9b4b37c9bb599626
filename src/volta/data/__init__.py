"""From raw files to a Task: one file per task, one table ``TASKS``."""

from volta.data.corruptions.corrupt import CORRUPTION_NAMES
from volta.data.feature_files import store_shifts
from volta.data.importing import store_features, task_of_features
from volta.data.lookup import all_tasks, corruption_sheet, find_task, pixel_sets
from volta.data.task import LoadOptions, TaskDefinition, cache_folder, data_root
from volta.data.tasks import TASKS

__all__ = [
    "CORRUPTION_NAMES",
    "TASKS",
    "LoadOptions",
    "TaskDefinition",
    "all_tasks",
    "cache_folder",
    "corruption_sheet",
    "data_root",
    "find_task",
    "pixel_sets",
    "store_features",
    "store_shifts",
    "task_of_features",
]
