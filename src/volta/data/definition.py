"""A task as one value: what it downloads, how it is prepared, where its images and features are read from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from volta.core.errors import InputError, MissingDataError
from volta.core.types import EncoderKind, InputKind, OodSet, Task
from volta.data.download.archive import Archive
from volta.data.missing import missing_features, missing_pixels
from volta.data.options import LoadOptions
from volta.data.prepare import Preparation, make_task
from volta.data.raw_sets import RawSets
from volta.data.row_limits import limit_sets

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


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskDefinition:
    """All that is known of a task before it is loaded.

    ``near`` and ``far`` name its OOD sets. ``archives`` are what ``volta data get NAME`` fetches,
    ``optional_archives`` what has to be asked for by its own name. ``images`` is None where there are none;
    ``trains_on_pixels`` is False where they only serve to extract features from. ``origin`` says where the data is from
    if nothing is downloaded; ``root`` is the data folder of a task that lives in one. ``rotates`` marks a task so small
    that its test rows rotate with the run's seed, as in cross-validation. ``scaled`` is False for own data, whose
    columns may have any scale: a benchmark then scales them, see :func:`volta.data.prepare.scale_task`.
    """

    name: str
    title: str
    preparation: Preparation
    features: FeatureSource
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

    def image_sets(self, options: LoadOptions | None = None) -> RawSets:
        """Return all image sets with their labels, before val and cal are split off."""
        if self.images is None:
            raise MissingDataError(f"{self.name} has no images, only features; there is nothing to extract")
        options = self._at_home(options)
        if missing := self.images.missing(options):
            raise missing_pixels(self.name, options.folder, missing)
        return limit_sets(self._with_ood(self.images.read(options), options), options.limit_test, self.name)

    def feature_sets(self, options: LoadOptions | None = None) -> RawSets:
        """Return all feature sets with their labels, before val and cal are split off."""
        options = self._at_home(options)
        if not self.features.is_there(options.folder):
            raise missing_features(
                self.name, options.folder, have_pixels=self.has_images(options), downloadable=bool(self.archives)
            )
        raw = limit_sets(self._with_ood(self.features.read(options), options), options.limit_test, self.name)
        lacking = [name for name in (*self.near, *self.far) if options.wants_ood(name) and name not in raw.ood]
        return replace(raw, source=f"{raw.source}; without: {', '.join(lacking)}") if lacking else raw

    def _at_home(self, options: LoadOptions | None) -> LoadOptions:
        options = options or LoadOptions()
        return options if options.root is not None or self.root is None else replace(options, root=self.root)

    def _with_ood(self, raw: RawSets, options: LoadOptions) -> RawSets:
        """Return the sets with the OOD sets asked for, the near ones marked."""
        ood = {name: OodSet(part.inputs, near=name in self.near) for name, part in raw.ood.items()}
        return replace(raw, ood=options.pick_ood(ood))
