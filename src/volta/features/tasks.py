"""Tasks on features: from a feature file where there is one, else extracted from the task's images and kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from volta.core.cache import CachedArray
from volta.core.errors import InputError, MissingDataError
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import InputKind, Task
from volta.data import CORRUPTION_NAMES, LoadOptions, TaskDefinition, find_task, pixel_sets, task_of_features
from volta.features.backbones import Backbone, load_backbone
from volta.features.extract import MapShards, OnSet, extract_sets
from volta.features.openvino import Precision
from volta.features.stored_sets import extract_missing, match_stored, with_labels

DEFAULT_BACKBONE = "resnet18"


@dataclass(frozen=True)
class Extraction:
    """Which backbone makes features of images; ``backbone`` None takes a feature file first, then ResNet-18.

    ``limits`` bound what the backbone's file may cost. ``precision`` is that of the backbone's products. ``threads`` is
    how many it may use (None: as many as torch has), which changes no feature that is meant.
    """

    backbone: str | None = None
    weights: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    precision: Precision = "f32"
    threads: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether a backbone or its weights were asked for."""
        return self.backbone is not None or self.weights is not None

    @property
    def title(self) -> str:
        """What makes the features, for a source note."""
        title = self.backbone or DEFAULT_BACKBONE
        return title if self.weights is None else f"{title} with weights {self.weights.name}"

    def network(self, root: Path) -> Backbone:
        """Return the backbone, its weights looked for under ``root`` unless they are named."""
        return load_backbone(self.backbone or DEFAULT_BACKBONE, weights=self.weights, root=root, limits=self.limits)


def load_task(
    name: str,
    kind: InputKind,
    options: LoadOptions,
    extraction: Extraction,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> Task:
    """Return a task as pixels or features; features that are nowhere yet are extracted from its images.

    Stored features stand, and only shifted sets that they lack are extracted. A backbone that is asked for by name
    extracts everything, unless a few test images tell that it made what is stored.
    """
    source = find_task(name, options.root)
    if kind == "pixels" or source.images is None:
        return _corrupted(source.load(kind, options), source, options)
    task = _stored(source, options, extraction, on_set, map_shards)
    if task is None:
        features = extract_task(name, options, extraction, on_set=on_set, map_shards=map_shards)
        arrays = {key: found.array for key, found in features.items()}
        task = task_of_features(name, arrays, options, source=f"features by {extraction.title}")
    return _corrupted(task, source, options)


def _stored(
    source: TaskDefinition,
    options: LoadOptions,
    extraction: Extraction,
    on_set: OnSet | None,
    map_shards: MapShards | None,
) -> Task | None:
    """Return the task on its stored features, with the shifted sets that they lack; None where all is extracted."""
    try:
        task = source.load("features", options)
    except MissingDataError as missing:
        if not source.has_images(options):
            raise missing from None
        return None
    complete = _has_corruptions(task, source, options)
    if not extraction.is_named and (complete or not source.has_images(replace(options, ood=()))):
        return task
    network = extraction.network(options.folder)
    found = match_stored(source.name, options, network, threads=extraction.threads, map_shards=map_shards)
    if extraction.is_named and not (found.agreement.holds and _image_ood(source, options) <= set(task.ood)):
        return None
    if complete and not (extraction.is_named and found.missing):
        return task
    extracted = extract_missing(
        found,
        network,
        precision=extraction.precision,
        threads=extraction.threads,
        on_set=on_set,
        map_shards=map_shards,
    )
    shifts = with_labels(found, extracted)
    return replace(
        task, shifts={**task.shifts, **shifts}, source=f"{task.source}; shifts by {extraction.title}: {found.agreement}"
    )


def _image_ood(source: TaskDefinition, options: LoadOptions) -> set[str]:
    """Return the names of the OOD sets whose images are there."""
    try:
        return set(source.image_sets(options).ood)
    except MissingDataError:
        return set()


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
        extraction.network(options.folder),
        precision=extraction.precision,
        threads=extraction.threads,
        on_set=on_set,
        map_shards=map_shards,
    )


def _corrupted(task: Task, source: TaskDefinition, options: LoadOptions) -> Task:
    """Return the task, or say that it cannot have the corruptions that were asked for."""
    if not _has_corruptions(task, source, options):
        asked = "--corruptions (shifts generated)" if options.shifts == "generated" else f"--shifts {options.shifts}"
        raise InputError(
            f"{asked} needs the images of {task.name}, which are not there, and no features of them are; leave it out"
        )
    return task


def _has_corruptions(task: Task, source: TaskDefinition, options: LoadOptions) -> bool:
    """Whether the task has every corruption at every severity, where they are to be generated or the archive's."""
    is_published = getattr(source.images, "corrupted", None) is not None
    asked = options.shifts == "generated" or (options.shifts == "official" and is_published)
    return not asked or all(
        f"{name}-{severity}" in task.shifts for name in CORRUPTION_NAMES for severity in options.severities
    )
