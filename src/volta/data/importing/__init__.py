"""Own images and features as tasks: checked, split, stored under a name, and then tasks like the built-in ones."""

from volta.data.importing.importer import ImportReport, import_task

__all__ = ["ImportReport", "import_task"]
