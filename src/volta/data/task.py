"""What a task is made of: its definition, where its data lies, and what is said when data is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

from volta.core.errors import InputError, MissingDataError
from volta.core.plugins import Plugin
from volta.core.scaling import SCALES, ScaleName
from volta.core.types import EncoderKind, InputKind, OodSet, Task, check_task_name
from volta.data.download import RESNET18_WEIGHTS, Archive
from volta.data.task_builder import Preparation, RawSets, limit_sets, make_task

ROOT_VARIABLE = "VOLTA_DATA"
CACHE_VARIABLE = "VOLTA_CACHE"
SEVERITIES = (1, 2, 3, 4, 5)
ShiftOrigin: TypeAlias = Literal["auto", "official", "generated", "none"]
Part = TypeVar("Part")


@dataclass(frozen=True)
class LoadOptions:
    """What a task is loaded from and which of its extra sets come with it.

    ``root`` is the data folder, see :func:`data_root`. ``severities`` names the corruption severities of ``cifar10``.
    ``shifts`` says where they come from: ``official`` is the CIFAR-10-C archive, ``generated`` makes them here,
    ``auto`` takes the archive where it is there and generates otherwise, ``none`` leaves them out. ``ood`` names the
    OOD sets to load; None is all. ``seed`` is the run's seed, by which a task whose test rows rotate (``digits``) draws
    all its rows; None is the fixed split. ``scale`` says how a benchmark scales columns: ``auto`` scales your data as
    the classifier does and leaves the package's tasks alone, ``standard`` and ``none`` hold for every task.
    ``limit_test`` keeps at most that many rows of test and of each OOD and shifted set, so that no more are extracted.
    """

    root: Path | None = None
    severities: tuple[int, ...] = (1,)
    shifts: ShiftOrigin = "auto"
    ood: tuple[str, ...] | None = None
    seed: int | None = None
    scale: ScaleName = "auto"
    limit_test: int | None = None

    def __post_init__(self) -> None:
        if not set(self.severities) <= set(SEVERITIES):
            raise InputError(f"severities is {self.severities}; pass numbers from 1 to 5, each a CIFAR-10-C severity")
        if self.shifts not in ("auto", "official", "generated", "none"):
            raise InputError(f"shifts is {self.shifts!r}; pass auto, official, generated or none")
        if self.scale not in SCALES:
            raise InputError(f"scale is {self.scale!r}; pass one of {', '.join(SCALES)}")
        if self.limit_test is not None and self.limit_test < 1:
            raise InputError(f"limit_test is {self.limit_test}; pass a whole number of at least 1")

    @property
    def folder(self) -> Path:
        """The data folder this load reads."""
        return data_root(self.root)

    def wants_ood(self, name: str) -> bool:
        """Whether the OOD set ``name`` is asked for."""
        return self.ood is None or name in self.ood

    def pick_ood(self, sets: Mapping[str, Part]) -> dict[str, Part]:
        """Return the OOD sets asked for, or say which one does not exist."""
        for name in self.ood or ():
            if name not in sets:
                raise InputError(
                    f"ood names {name!r}, which this task does not have; it has: {', '.join(sets) or 'none'}"
                )
        return {name: part for name, part in sets.items() if self.wants_ood(name)}


def data_root(root: Path | str | None = None) -> Path:
    """Return the data folder: ``root`` if given, else ``$VOLTA_DATA``, else the platform's cache folder."""
    if root is not None:
        return Path(root).expanduser()
    if named := os.environ.get(ROOT_VARIABLE):
        return Path(named).expanduser()
    return _platform_cache()


def cache_folder() -> Path:
    """Return where derived arrays are kept: ``$VOLTA_CACHE``, else in the platform's cache folder.

    Never in the data folder, which may be shared or meant to stay as it is; permissions do not tell, since an
    administrator may write anywhere.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    return _platform_cache() / "cache"


def _platform_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("volta", appauthor=False)


_MEGA = 1e6


class ImageSource(Protocol):
    """Where a task's images come from."""

    def missing(self, options: LoadOptions) -> list[str]:
        """Return the files that a read would lack; nothing is read."""

    def read(self, options: LoadOptions) -> RawSets:
        """Return the image sets, (n, 3, h, w) uint8; sets may be read when they are asked for."""


class FeatureSource(Protocol):
    """Where a task's features come from when they need not be extracted."""

    def is_there(self, root: Path) -> bool:
        """Whether the features can be read."""

    def read(self, options: LoadOptions) -> RawSets:
        """Return the feature sets, (n, d) float32."""


_TABULAR = Preparation("tabular", 0.2)


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskDefinition:
    """All that is known of a task before it is loaded.

    ``near`` and ``far`` name its OOD sets. ``archives`` are what ``volta data get NAME`` fetches,
    ``optional_archives`` what has to be asked for by its own name. ``images`` is None where there are none;
    ``trains_on_pixels`` is False where they only serve to extract features from. ``origin`` says where the data is from
    if nothing is downloaded; ``root`` is the data folder of a task that lives in one. ``rotates`` marks a task so small
    that its test rows rotate with the run's seed, as in cross-validation. ``scaled`` is False for your data, whose
    columns may have any scale: a benchmark then scales them, see :func:`volta.data.task_builder.scale_task`.
    """

    name: str
    title: str
    preparation: Preparation = _TABULAR
    features: FeatureSource | None = None
    images: ImageSource | None = None
    trains_on_pixels: bool = True
    near: tuple[str, ...] = ()
    far: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    optional_archives: tuple[Archive, ...] = ()
    origin: str = "embedded"
    root: Path | None = None
    rotates: bool = False
    scaled: bool = True

    @property
    def encoder(self) -> EncoderKind:
        """The encoder that the task trains with."""
        return self.preparation.encoder

    @property
    def kinds(self) -> tuple[InputKind, ...]:
        """What the task can be loaded as."""
        return ("features", "pixels") if self.images is not None and self.trains_on_pixels else ("features",)

    @property
    def download(self) -> str:
        """What has to be downloaded, and how."""
        if not self.archives:
            return f"none: {self.origin}"
        n_bytes = sum(archive.size for archive in self.archives)
        return f"{n_bytes / _MEGA:.0f} MB: volta data get {self.name}"

    def load(self, kind: InputKind = "features", options: LoadOptions | None = None) -> Task:
        """Return the task as features or pixels."""
        if kind not in self.kinds:
            raise InputError(f"kind is {kind!r}; this task comes as {' or '.join(self.kinds)}")
        read = self.image_sets if kind == "pixels" else self.feature_sets
        return make_task(self.name, read(options), self.preparation, kind)

    def has_images(self, options: LoadOptions | None = None) -> bool:
        """Whether there are images to extract features from; nothing is read."""
        return self.images is not None and not self.images.missing(self._at_home(options))

    def has_features(self, options: LoadOptions | None = None) -> bool:
        """Whether there are features to read; nothing is read."""
        return self.features is not None and self.features.is_there(self._at_home(options).folder)

    def image_sets(self, options: LoadOptions | None = None) -> RawSets:
        """Return all image sets with their labels, before val and cal are split off."""
        if self.images is None:
            raise MissingDataError(f"{self.name} has no images, only features; there is nothing to extract")
        options = self._at_home(options)
        if missing := self.images.missing(options):
            where = f"--data {options.folder}"
            raise MissingDataError(
                f"{self.name} is not complete under {options.folder}: missing {', '.join(missing)}\n"
                f"get it with: volta data get {self.name} {where}   or point at it with: --data DIR (or VOLTA_DATA=DIR)"
            )
        return limit_sets(self._with_ood(self.images.read(options), options), options.limit_test, self.name)

    def feature_sets(self, options: LoadOptions | None = None) -> RawSets:
        """Return all feature sets with their labels, before val and cal are split off."""
        options = self._at_home(options)
        if self.features is None or not self.has_features(options):
            extract = f"volta extract {self.name} --data {options.folder}"
            if not (options.folder / RESNET18_WEIGHTS.file).is_file():
                extract = f"volta data get {RESNET18_WEIGHTS.name} --data {options.folder} && {extract}"
            lacking = f"features/{self.name}.npz"
            if not self.has_images(options):
                lacking += " and the images to extract it from"
                if self.archives:
                    extract = f"volta data get {self.name} --data {options.folder} && {extract}"
            raise MissingDataError(
                f"{self.name} has no features under {options.folder}: missing {lacking}\n"
                f"get them with: {extract}   or point at them with: --data DIR (or VOLTA_DATA=DIR)"
            )
        raw = limit_sets(self._with_ood(self.features.read(options), options), options.limit_test, self.name)
        absent = [name for name in (*self.near, *self.far) if options.wants_ood(name) and name not in raw.ood]
        return replace(raw, source=f"{raw.source}; without: {', '.join(absent)}") if absent else raw

    def _at_home(self, options: LoadOptions | None) -> LoadOptions:
        options = options or LoadOptions()
        return options if options.root is not None or self.root is None else replace(options, root=self.root)

    def _with_ood(self, raw: RawSets, options: LoadOptions) -> RawSets:
        """Return the sets with the OOD sets asked for, the near ones marked."""
        ood = {name: OodSet(part.inputs, near=name in self.near) for name, part in raw.ood.items()}
        return replace(raw, ood=options.pick_ood(ood))


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeTask(TaskDefinition):
    """A task that ``make`` returns ready to use, with its splits."""

    make: Callable[[], Task]

    @property
    def encoder(self) -> EncoderKind:
        """The encoder that the task trains with."""
        return self.make().fit.encoder

    def load(self, kind: InputKind = "features", options: LoadOptions | None = None) -> Task:
        """Return the task with the OOD sets and shifts that ``options`` ask for."""
        task, options = self.make(), options or LoadOptions()
        if task.fit.kind != kind:
            raise InputError(f"{self.name} comes as {task.fit.kind}, and {kind} are needed; make it of features")
        shifts = {} if options.shifts == "none" else task.shifts
        return replace(task, name=self.name, ood=options.pick_ood(task.ood), shifts=shifts)


def task_in_memory(task: Task) -> WholeTask:
    """Return a task in memory as one that can be run by its name."""
    check_task_name(task.name)
    return _definition(task.name, "made of arrays", "given as arrays", partial(_same, task))


def plugin_task(plugin: Plugin) -> TaskDefinition:
    """Return the task that an entry point ``volta.tasks`` names: a function that gives a Task, or a TaskDefinition."""
    found = plugin.load()
    if isinstance(found, TaskDefinition):
        return replace(found, name=plugin.name)
    if not callable(found):
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} is a {type(found).__name__}; "
            "expected a function without arguments that returns a volta.Task"
        )
    title = (getattr(found, "__doc__", "") or plugin.name).strip().partition("\n")[0]
    return _definition(plugin.name, title, f"plug-in {plugin.package}", partial(_plugin_task_once, plugin))


# Functions of the module, not of the instance, so that a task can be pickled for other processes.
def _same(task: Task) -> Task:
    return task


@cache
def _plugin_task_once(plugin: Plugin) -> Task:
    """Call a plug-in's function once in each process and check its result."""
    task = plugin.load()()
    if not isinstance(task, Task):
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} gave a {type(task).__name__}; expected a volta.Task"
        )
    return replace(task, source=f"{task.source}, plug-in {plugin.package}")


def _definition(name: str, title: str, origin: str, make: Callable[[], Task]) -> WholeTask:
    return WholeTask(name=name, title=title, origin=origin, make=make, scaled=False)
