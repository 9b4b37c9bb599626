"""Tasks on features: from a feature file where there is one, else extracted from the task's images and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from volta.core.cache import CachedArray
from volta.core.errors import InputError, MissingDataError
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import InputKind, Task
from volta.data import CORRUPTION_NAMES, LoadOptions, find_task, pixel_sets, task_of_features
from volta.features.extract import ExtractionProgress, MapShards, extract_sets
from volta.features.openvino import Precision

DEFAULT_BACKBONE = "resnet18"
OnSet = Callable[[str], Callable[[ExtractionProgress], None] | None]


@dataclass(frozen=True)
class Extraction:
    """Which backbone makes features of images; ``backbone`` None takes a feature file first, then ResNet-18.

    ``limits`` bound what the backbone's file may cost. ``precision`` is that of the backbone's products.
    """

    backbone: str | None = None
    weights: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    precision: Precision = "f32"


def load_task(
    name: str,
    kind: InputKind,
    options: LoadOptions,
    extraction: Extraction,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> Task:
    """Return a task as pixels or features; features that are nowhere yet are extracted from its images."""
    source = find_task(name, options.root)
    if kind == "pixels" or source.images is None:
        return _corrupted(source.load(kind, options), options)
    if extraction.backbone is None and extraction.weights is None:
        try:
            task = source.load("features", options)
        except MissingDataError as missing:
            if not source.has_images(options):
                raise missing from None
        else:
            if _has_corruptions(task, options) or not source.has_images(options):
                return _corrupted(task, options)
    features = extract_task(name, options, extraction, on_set=on_set, map_shards=map_shards)
    made_by = f"features by {extraction.backbone or DEFAULT_BACKBONE}"
    if extraction.weights is not None:
        made_by += f" with weights {extraction.weights.name}"
    arrays = {key: found.array for key, found in features.items()}
    return _corrupted(task_of_features(name, arrays, options, source=made_by), options)


def extract_task(
    name: str,
    options: LoadOptions,
    extraction: Extraction,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> dict[str, CachedArray]:
    """Return the features of every image set of a task, from the cache or extracted now."""
    return extract_sets(
        pixel_sets(name, options).inputs(),
        extraction.backbone or DEFAULT_BACKBONE,
        weights=extraction.weights,
        root=options.folder,
        limits=extraction.limits,
        precision=extraction.precision,
        on_set=on_set,
        map_shards=map_shards,
    )


def _corrupted(task: Task, options: LoadOptions) -> Task:
    """Return the task, or say that it cannot have the corruptions that were asked for."""
    if not _has_corruptions(task, options):
        raise InputError(
            f"--corruptions (shifts generated) needs the images of {task.name}, which are not there; leave it out"
        )
    return task


def _has_corruptions(task: Task, options: LoadOptions) -> bool:
    """Whether the task has every corruption at every severity, where they are to be generated."""
    return options.shifts != "generated" or all(
        f"{name}-{severity}" in task.shifts for name in CORRUPTION_NAMES for severity in options.severities
    )
