"""From images to a feature set on disk, computed once, shard by shard; and tasks on features, stored or extracted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import nn

from volta.core.cache import ArrayCache, CachedArray, ShardWriter, cache_key
from volta.core.checks import check_count
from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.core.files import DEFAULT_LIMITS, Limits, hash_array, hash_file, hash_text, remove_temp_files
from volta.core.processes import gpu_bytes
from volta.core.types import Array, InputKind, Split, Task
from volta.data import CORRUPTION_NAMES, LoadOptions, TaskDefinition, task_of_features
from volta.data.images import BadImageError, decode, pillow_warnings_off
from volta.data.task import cache_folder
from volta.data.task_builder import RawSets
from volta.features.backbones.backbone import Backbone, check_pixels
from volta.features.backbones.load import load_backbone
from volta.features.engines import (
    Engine,
    Features,
    Precision,
    Runtime,
    batch_rows,
    decisive_parts,
    make_engine,
    run_batches,
)


class Images(Protocol):
    """What can be extracted from. Parts go to other processes, so they should hold little but their own images."""

    def __len__(self) -> int: ...

    @property
    def content_hash(self) -> str:
        """A hash that differs whenever any image or their order differs."""

    def part(self, start: int, stop: int) -> Images:
        """Return images ``start`` to ``stop``."""

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order, as (at most ``batch_size``, 3, h, w) uint8; h and w may differ between batches."""


@dataclass(frozen=True, eq=False)
class PixelArray:
    """Images of one size in an array or a memory map, (n, 3, h, w) uint8; a part is a copy of its own rows."""

    pixels: Array

    def __post_init__(self) -> None:
        check_pixels(self.pixels)

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of shape and values."""
        return hash_array(self.pixels)

    def part(self, start: int, stop: int) -> PixelArray:
        """Return images ``start`` to ``stop``, copied, so that a memory map is not pickled whole."""
        return PixelArray(np.array(self.pixels[start:stop]))

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order."""
        for start in range(0, len(self.pixels), batch_size):
            yield np.asarray(self.pixels[start : start + batch_size])


@dataclass(frozen=True)
class ImagePaths:
    """Image files of any sizes, in the order given; they are decoded when they are walked."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the files' own, in order: where they lie and what they are called does not count."""
        return hash_text("\n".join(hash_file(_existing(path)) for path in self.paths))

    def part(self, start: int, stop: int) -> ImagePaths:
        """Return images ``start`` to ``stop``."""
        return ImagePaths(self.paths[start:stop])

    def batches(self, batch_size: int) -> Iterator[Array]:
        """Walk all images in order; a batch ends where the next image has another size."""
        batch: list[Array] = []
        for path in self.paths:
            pixels = _decoded(path)
            if batch and (len(batch) == batch_size or batch[0].shape != pixels.shape):
                yield np.stack(batch)
                batch = []
            batch.append(pixels)
        if batch:
            yield np.stack(batch)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"image {path} does not exist; pass paths of image files")
    return path


def _decoded(path: Path) -> Array:
    try:
        with pillow_warnings_off():
            return decode(_existing(path).read_bytes()).transpose(2, 0, 1)
    except BadImageError as error:
        raise InputError(f"image {path} cannot be used: {error}; mend it or leave it out") from error


DTYPES = ("float32", "float16")


def as_stored(features: Array, start: int, dtype: np.dtype[Any]) -> Array:
    """Return features (rows, d) of images ``start`` onwards as they are kept; what is not finite there is refused."""
    if features.ndim != 2:
        raise InputError(f"features has shape {features.shape} at row {start}; expected (rows, d)")
    if not np.isfinite(features).all():
        row = start + int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise InputError(f"the backbone gives a value that is not finite for image {row}; check image and weights")
    with np.errstate(over="ignore"):
        rows = features.astype(dtype)
    if not np.isfinite(rows).all():
        raise InputError(f"a feature of {np.abs(features).max():.3g} does not fit {dtype}; pass dtype='float32'")
    return rows


SHARD_ROWS = 2048


@dataclass(frozen=True, eq=False)
class ShardJob:
    """A row range of an image set with all that is needed to extract it, in this process or another."""

    start: int
    images: Images
    engine: Engine
    batch_size: int


Shard: TypeAlias = tuple[int, Features]
"""The first row of a range, and its features (rows, d) float32."""
MapShards: TypeAlias = Callable[[Callable[[ShardJob], Shard], Iterable[ShardJob]], Iterable[Shard]]
"""Like the built-in ``map``: applies the function to every job, here or elsewhere; gives the shards in any order."""


class NotExtractedError(VoltaError):
    """Features are not there yet, and this was no call to extract them."""


@dataclass(frozen=True)
class ExtractionProgress:
    """How far an extraction is: ``n_resumed`` of the ``n_done`` rows were there before it began."""

    n_done: int
    n_rows: int
    n_resumed: int
    seconds: float

    @property
    def rate(self) -> float:
        """Images a second of this run."""
        return (self.n_done - self.n_resumed) / self.seconds if self.seconds > 0.0 else 0.0


OnSet = Callable[[str], Callable[[ExtractionProgress], None] | None]
"""Called with the name of a set; gives what is to hear of its progress."""


def extract_shard(job: ShardJob) -> Shard:
    """Return the features of one job: no side effects, arguments and result can be pickled."""
    return job.start, run_batches(job.engine, job.images.batches(job.batch_size))


def extract(
    images: Images | Array,
    backbone: str | Path | nn.Module | Backbone,
    *,
    weights: Path | None = None,
    root: Path | None = None,
    cache: Path | None = None,
    dtype: str = "float32",
    runtime: Runtime = "auto",
    precision: Precision = "f32",
    device: torch.device | None = None,
    threads: int | None = None,
    amp: bool = False,
    batch_size: int | None = None,
    shard_rows: int = SHARD_ROWS,
    map_shards: MapShards | None = map,
    on_progress: Callable[[ExtractionProgress], None] | None = None,
) -> CachedArray:
    """Return the backbone's features of ``images``, from the cache if they are there, else extracted and kept.

    Parameters
    ----------
    images
        (n, 3, h, w) uint8 pixels, in memory or memory-mapped, or an :class:`~volta.features.extract.Images`.
    backbone, weights, root
        See :func:`~volta.features.backbones.load_backbone`.
    cache
        Folder that holds ``features/`` and ``onnx/``; None: volta's cache folder.
    dtype
        ``float32`` keeps what the network gives; ``float16`` halves the disk at a relative error of at most 2⁻¹¹.
    runtime, device, threads
        See :func:`~volta.features.engines.make_engine`. They do not change which features are meant, so they are noted
        in the set's ``meta`` and are not part of its key.
    precision, amp
        ``f32``, or ``bf16`` through OpenVINO on processors that have it; ``amp``: PyTorch's mixed precision, on GPUs
        above all. Both give other features, under a key of their own.
    batch_size
        Images that run at a time; None: few on a processor, what fits its memory on a GPU.
    shard_rows
        Rows that are lost at most when the process is killed, and the unit that ``map_shards`` spreads.
    map_shards
        The built-in ``map``, or one like it over a pool or cluster; None extracts nothing and raises
        ``NotExtractedError`` where features are not in the cache.
    on_progress
        Called at the start and after each shard.
    """
    for name, value in (("batch_size", batch_size), ("shard_rows", shard_rows)):
        if value is not None:
            check_count(value, name)
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; pass one of {', '.join(DTYPES)}")
    device = device or torch.device("cpu")
    source: Images = PixelArray(images) if isinstance(images, np.ndarray) else images
    folder = cache or cache_folder()
    network = load_backbone(backbone, weights=weights, root=root)
    parts = {
        "what": "features",
        "data": source.content_hash,
        "backbone": network.name,
        "weights": network.weights,
        "preprocessing": network.preprocessing.to_json(),
        "dtype": dtype,
    } | decisive_parts(precision, amp, device)
    key = cache_key(parts)
    store = ArrayCache(folder / "features")
    if (found := store.get(key)) is not None:
        return found
    if map_shards is None:
        raise NotExtractedError("these images have no features yet; pass map_shards to extract them")
    for place in ("features", "onnx"):
        remove_temp_files(folder / place, deep=True)
    with store.lock(key):
        if (found := store.get(key)) is not None:
            return found
        engine = make_engine(
            network, runtime=runtime, precision=precision, device=device, threads=threads, amp=amp, cache=folder
        )
        batch_size = batch_size or batch_rows(network, device, gpu_bytes(device))
        writer = ShardWriter(store.folder(key), len(source), np.dtype(dtype))
        started = time.perf_counter()
        _write_missing(source, engine, writer, batch_size, shard_rows, map_shards, on_progress)
        meta = {**parts, "engine": engine.title, "seconds": round(time.perf_counter() - started, 3)}
        # Of a set that has no images to run, one black image tells d.
        row_shape = () if len(source) else engine(np.zeros((1, 3, 32, 32), dtype=np.uint8)).shape[1:]
        writer.finish(key, meta, row_shape)
    return store.finished(key)


def extract_sets(
    sets: Mapping[str, Images | Array], backbone: Backbone, *, on_set: OnSet | None = None, **settings: Any
) -> dict[str, CachedArray]:
    """Return the features of several image sets by name.

    ``on_set`` is called with each set's name and gives the ``on_progress`` for it; ``settings`` are those of
    :func:`extract`.
    """
    return {
        name: extract(images, backbone, on_progress=on_set(name) if on_set is not None else None, **settings)
        for name, images in sets.items()
    }


def missing_ranges(done: list[tuple[int, int]], n_rows: int, shard_rows: int) -> list[tuple[int, int]]:
    """Return the row ranges, of at most ``shard_rows`` each, that are in none of the ``done`` ranges."""
    ranges = []
    position = 0
    for start, stop in [*sorted(done), (n_rows, n_rows)]:
        while position < start:
            end = min(position + shard_rows, start)
            ranges.append((position, end))
            position = end
        position = max(position, stop)
    return ranges


def _write_missing(
    source: Images,
    engine: Engine,
    writer: ShardWriter,
    batch_size: int,
    shard_rows: int,
    map_shards: MapShards,
    on_progress: Callable[[ExtractionProgress], None] | None,
) -> None:
    n_rows = len(source)
    todo = missing_ranges(writer.done(), n_rows, shard_rows)
    n_resumed = n_done = n_rows - sum(stop - start for start, stop in todo)
    started = time.perf_counter()

    def jobs() -> Iterator[ShardJob]:
        for start, stop in todo:
            yield ShardJob(start, source.part(start, stop), engine, batch_size)

    def tell() -> None:
        if on_progress is not None:
            on_progress(ExtractionProgress(n_done, n_rows, n_resumed, time.perf_counter() - started))

    tell()
    for start, features in map_shards(extract_shard, jobs()):
        writer.write(start, as_stored(features, start, writer.dtype))
        n_done += len(features)
        tell()
    if n_done != n_rows:
        raise InputError(
            f"map_shards gave features of {n_done} of {n_rows} images; it must give one shard for each job"
        )


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
    network: Backbone
    agreement: Agreement

    @property
    def missing(self) -> list[str]:
        """Names of the shifted sets that images have and stored features lack."""
        return [name for name in self.images.shifts if name not in self.stored.shifts]


def match_stored(source: TaskDefinition, options: LoadOptions, extraction: Extraction) -> StoredSets:
    """Return a task's stored features with its images, and whether the backbone makes them of its test images."""
    network = extraction.network(options.folder)
    stored, images = source.feature_sets(options), source.image_sets(replace(options, ood=()))
    agreement = _agreement(stored.parts["test"], images.parts["test"], network, extraction.settings)
    return StoredSets(stored, images, network, agreement)


def extract_missing(found: StoredSets, extraction: Extraction) -> dict[str, CachedArray]:
    """Return the features of the shifted sets that are not stored, from the cache or extracted now."""
    if not found.agreement.holds:
        raise InputError(
            f"{found.agreement}, so {found.network.name} with these weights did not make them ({TOLERANCE:g} is "
            "allowed); pass the backbone and weights that did (--backbone, --weights), or move the feature files away "
            "to extract everything again"
        )
    images = found.images.inputs()
    sets = {f"shift:{name}": images[f"shift:{name}"] for name in found.missing}
    return extract_sets(sets, found.network, on_set=extraction.on_set, **extraction.settings)


def with_labels(found: StoredSets, features: Mapping[str, CachedArray]) -> dict[str, Split]:
    """Return extracted shifted sets by name, with the labels of their images."""
    names = {key: key.removeprefix("shift:") for key in features}
    return {name: Split(features[key].array, found.images.shifts[name].labels) for key, name in names.items()}


def _agreement(stored: Split, images: Split, network: Backbone, settings: Mapping[str, Any]) -> Agreement:
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
    ``device`` changes a feature that is meant. ``on_set`` and ``map_shards`` are those of :func:`extract_sets` and
    :func:`extract`.
    """

    backbone: str | None = None
    weights: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    precision: Precision = "f32"
    threads: int | None = None
    device: str = "cpu"
    amp: bool = False
    on_set: OnSet | None = None
    map_shards: MapShards | None = map

    @property
    def settings(self) -> dict[str, Any]:
        """How the backbone runs, as :func:`~volta.features.extract.extract` takes it."""
        names = ("precision", "threads", "amp", "map_shards")
        return {"device": torch.device(self.device)} | {name: getattr(self, name) for name in names}

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


def load_task(source: TaskDefinition, kind: InputKind, options: LoadOptions, extraction: Extraction) -> Task:
    """Return a task as pixels or features; features that are nowhere yet are extracted from its images.

    Stored features are used, and only the corrupted test sets that they lack are extracted. A backbone that is
    asked for by name extracts everything, unless a few test images tell that it made what is stored.
    """
    if kind == "pixels" or source.images is None:
        return _corrupted(source.load(kind, options), source, options)
    task = _stored(source, options, extraction)
    if task is None:
        arrays = {key: found.array for key, found in extract_task(source, options, extraction).items()}
        task = task_of_features(source, arrays, options, source=f"features by {extraction.title}")
    return _corrupted(task, source, options)


def _stored(source: TaskDefinition, options: LoadOptions, extraction: Extraction) -> Task | None:
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
    found = match_stored(source, options, extraction)
    if extraction.is_named and not (found.agreement.holds and _image_ood(source, options) <= set(task.ood)):
        return None
    if complete and not (extraction.is_named and found.missing):
        return task
    shifts = with_labels(found, extract_missing(found, extraction))
    return replace(
        task, shifts={**task.shifts, **shifts}, source=f"{task.source}; shifts by {extraction.title}: {found.agreement}"
    )


def _image_ood(source: TaskDefinition, options: LoadOptions) -> set[str]:
    """Return the names of the OOD sets whose images are there."""
    try:
        return set(source.image_sets(options).ood)
    except MissingDataError:
        return set()


def extract_task(source: TaskDefinition, options: LoadOptions, extraction: Extraction) -> dict[str, CachedArray]:
    """Return the features of every image set of a task, from the cache or extracted now."""
    images, network = source.image_sets(options).inputs(), extraction.network(options.folder)
    return extract_sets(images, network, on_set=extraction.on_set, **extraction.settings)


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
