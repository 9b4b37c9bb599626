"""Tasks on features: from a feature file where there is one, else extracted from the task's images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from volta.core.cache import CachedArray
from volta.core.errors import InputError, MissingDataError
from volta.core.files import DEFAULT_LIMITS, Limits
from volta.core.types import Array, InputKind, Split, Task
from volta.data import CORRUPTION_NAMES, LoadOptions, TaskDefinition, task_of_features
from volta.data.task_builder import RawSets
from volta.features.backbones.backbone import Backbone
from volta.features.backbones.load import load_backbone
from volta.features.engines import Precision
from volta.features.extract import MapShards, NotExtractedError, OnSet, extract, extract_sets

CHECKED_ROWS = 36
TOLERANCE = 0.01


class NotCheckedError(NotExtractedError):
    """Whether a backbone made the stored features is not known yet, and this was no call to find out."""


@dataclass(frozen=True)
class Agreement:
    """How far features made now are from the stored ones: the largest distance of a row, in parts of its length.

    ``n_rows`` is 0 where the stored test rows are not those of the images.
    """

    n_rows: int
    difference: float

    @property
    def holds(self) -> bool:
        """Whether one backbone made both; other engines and half precision stay far below the tolerance."""
        return self.difference <= TOLERANCE

    def __str__(self) -> str:
        if self.n_rows == 0:
            return "the stored features have other test rows than the images"
        return (
            f"features of {self.n_rows} test images differ from the stored ones by {self.difference:.2g} of their "
            "length at most"
        )


@dataclass(frozen=True, eq=False)
class StoredSets:
    """Stored feature sets, the image sets they go with, and how well the backbone makes the one of the other."""

    stored: RawSets
    images: RawSets
    agreement: Agreement

    @property
    def missing(self) -> list[str]:
        """Names of the shifted sets that images have and stored features lack."""
        return [name for name in self.images.shifts if name not in self.stored.shifts]


def match_stored(
    source: TaskDefinition,
    options: LoadOptions,
    network: Backbone,
    *,
    map_shards: MapShards | None = map,
    **settings: Any,
) -> StoredSets:
    """Return a task's stored features with its images, and whether ``network`` makes them of its test images.

    ``settings`` are those of :func:`~volta.features.extract.extract`.
    """
    stored, images = source.feature_sets(options), source.image_sets(replace(options, ood=()))
    agreement = _agreement(stored.parts["test"], images.parts["test"], network, map_shards=map_shards, **settings)
    return StoredSets(stored, images, agreement)


def extract_missing(
    found: StoredSets,
    network: Backbone,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
    **settings: Any,
) -> dict[str, CachedArray]:
    """Return the features of the shifted sets that are not stored, from the cache or extracted now."""
    if not found.agreement.holds:
        raise InputError(
            f"{found.agreement}, so {network.name} with these weights did not make them ({TOLERANCE:g} is allowed); "
            "pass the backbone and weights that did (--backbone, --weights), or move the feature files away to "
            "extract everything again"
        )
    images = found.images.inputs()
    sets = {f"shift:{name}": images[f"shift:{name}"] for name in found.missing}
    return extract_sets(sets, network, on_set=on_set, map_shards=map_shards, **settings)


def with_labels(found: StoredSets, features: Mapping[str, CachedArray]) -> dict[str, Split]:
    """Return extracted shifted sets by name, with the labels of their images."""
    names = {key: key.removeprefix("shift:") for key in features}
    return {name: Split(features[key].array, found.images.shifts[name].labels) for key, name in names.items()}


def _agreement(stored: Split, images: Split, network: Backbone, **settings: Any) -> Agreement:
    if not np.array_equal(stored.labels, images.labels):
        return Agreement(0, float("inf"))
    rows = np.unique(np.linspace(0, len(images) - 1, CHECKED_ROWS).astype(np.int64))
    try:
        made = extract(images.inputs[rows], network, **settings).array
    except NotExtractedError as error:
        raise NotCheckedError(
            f"whether {network.name} made the stored features is not checked yet, on {len(rows)} test images"
        ) from error
    return Agreement(len(rows), _distance(made, stored.inputs[rows]))


def _distance(made: Array, stored: Array) -> float:
    if made.shape != stored.shape:
        return float("inf")
    lengths = np.maximum(np.linalg.norm(stored, axis=1), np.finfo(np.float32).tiny)
    return float(np.max(np.linalg.norm(made - stored, axis=1) / lengths))


DEFAULT_BACKBONE = "resnet18"


@dataclass(frozen=True)
class Extraction:
    """Which backbone makes features of images; ``backbone`` None takes a feature file first, then ResNet-18.

    ``limits`` bound what the backbone's file may cost. ``precision`` is that of the backbone's products, ``amp`` lets
    PyTorch choose a lower one. ``threads`` is how many it may use (None: as many as torch has); neither it nor
    ``device`` changes a feature that is meant.
    """

    backbone: str | None = None
    weights: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    precision: Precision = "f32"
    threads: int | None = None
    device: str = "cpu"
    amp: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """How the backbone runs, as :func:`~volta.features.extract.extract` takes it."""
        device = torch.device(self.device)
        return {"precision": self.precision, "threads": self.threads, "device": device, "amp": self.amp}

    @property
    def is_named(self) -> bool:
        """Whether a backbone or its weights were asked for."""
        return self.backbone is not None or self.weights is not None

    @property
    def title(self) -> str:
        """What makes the features, for a source note."""
        title = (self.backbone or DEFAULT_BACKBONE) + (" in mixed precision" if self.amp else "")
        return title if self.weights is None else f"{title} with weights {self.weights.name}"

    def network(self, root: Path) -> Backbone:
        """Return the backbone, its weights looked for under ``root`` unless they are named."""
        return load_backbone(self.backbone or DEFAULT_BACKBONE, weights=self.weights, root=root, limits=self.limits)


def load_task(
    source: TaskDefinition,
    kind: InputKind,
    options: LoadOptions,
    extraction: Extraction,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> Task:
    """Return a task as pixels or features; features that are nowhere yet are extracted from its images.

    Stored features are used, and only the corrupted test sets that they lack are extracted. A backbone that is
    asked for by name extracts everything, unless a few test images tell that it made what is stored.
    """
    if kind == "pixels" or source.images is None:
        return _corrupted(source.load(kind, options), source, options)
    task = _stored(source, options, extraction, on_set, map_shards)
    if task is None:
        features = extract_task(source, options, extraction, on_set=on_set, map_shards=map_shards)
        arrays = {key: found.array for key, found in features.items()}
        task = task_of_features(source, arrays, options, source=f"features by {extraction.title}")
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
    found = match_stored(source, options, network, map_shards=map_shards, **extraction.settings)
    if extraction.is_named and not (found.agreement.holds and _image_ood(source, options) <= set(task.ood)):
        return None
    if complete and not (extraction.is_named and found.missing):
        return task
    extracted = extract_missing(found, network, on_set=on_set, map_shards=map_shards, **extraction.settings)
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
    source: TaskDefinition,
    options: LoadOptions,
    extraction: Extraction,
    *,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> dict[str, CachedArray]:
    """Return the features of every image set of a task, from the cache or extracted now."""
    return extract_sets(
        source.image_sets(options).inputs(),
        extraction.network(options.folder),
        on_set=on_set,
        map_shards=map_shards,
        **extraction.settings,
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
