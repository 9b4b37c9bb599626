"""The tasks that come with the package: one file each, one table."""

from volta.data.task import TaskDefinition
from volta.data.tasks.cifar import CIFAR10, CIFAR100
from volta.data.tasks.digits import DIGITS
from volta.data.tasks.tiny_imagenet import TINY_IMAGENET

TASKS: dict[str, TaskDefinition] = {task.name: task for task in (DIGITS, CIFAR10, CIFAR100, TINY_IMAGENET)}
"""By name; imported tasks join them in :func:`volta.data.all_tasks`."""
