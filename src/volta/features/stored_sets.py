"""Features that are stored already: whether a backbone makes them, and the shifted sets that they lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from volta.core.cache import CachedArray
from volta.core.errors import InputError
from volta.core.types import Array, Split
from volta.data import LoadOptions, find_task
from volta.data.raw_sets import RawSets
from volta.features.backbones import Backbone
from volta.features.extract import MapShards, NotExtractedError, OnSet, extract, extract_sets
from volta.features.openvino import Precision

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
    name: str,
    options: LoadOptions,
    network: Backbone,
    *,
    threads: int | None = None,
    map_shards: MapShards | None = map,
) -> StoredSets:
    """Return a task's stored features with its images, and whether ``network`` makes them of its test images."""
    source = find_task(name, options.root)
    stored, images = source.feature_sets(options), source.image_sets(replace(options, ood=()))
    agreement = _agreement(stored.parts["test"], images.parts["test"], network, threads, map_shards)
    return StoredSets(stored, images, agreement)


def extract_missing(
    found: StoredSets,
    network: Backbone,
    *,
    precision: Precision = "f32",
    threads: int | None = None,
    on_set: OnSet | None = None,
    map_shards: MapShards | None = map,
) -> dict[str, CachedArray]:
    """Return the features of the shifted sets that are not stored, from the cache or extracted now."""
    if not found.agreement.holds:
        raise InputError(
            f"{found.agreement}, so {network.name} with these weights did not make them ({TOLERANCE:g} is allowed); "
            "pass the backbone and weights that did (--backbone, --weights), or move the feature files away to "
            "extract everything anew"
        )
    images = found.images.inputs()
    sets = {f"shift:{name}": images[f"shift:{name}"] for name in found.missing}
    return extract_sets(sets, network, precision=precision, threads=threads, on_set=on_set, map_shards=map_shards)


def with_labels(found: StoredSets, features: Mapping[str, CachedArray]) -> dict[str, Split]:
    """Return extracted shifted sets by name, with the labels of their images."""
    names = {key: key.removeprefix("shift:") for key in features}
    return {name: Split(features[key].array, found.images.shifts[name].labels) for key, name in names.items()}


def _agreement(
    stored: Split, images: Split, network: Backbone, threads: int | None, map_shards: MapShards | None
) -> Agreement:
    if not np.array_equal(stored.labels, images.labels):
        return Agreement(0, float("inf"))
    rows = np.unique(np.linspace(0, len(images) - 1, CHECKED_ROWS).astype(np.int64))
    try:
        made = extract(images.inputs[rows], network, threads=threads, map_shards=map_shards).array
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
