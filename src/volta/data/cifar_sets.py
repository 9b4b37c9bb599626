"""The image sets of ``cifar10`` and ``cifar100``: official archives where they are there, else zips of JPEG images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.types import OodSet, Split
from volta.data.catalog import ARCHIVES
from volta.data.cifar import CIFAR10_CLASSES, CIFAR10_TRAIN, class_names, read_cifar10, read_cifar100
from volta.data.cifar10c import generated_shifts, official_shifts
from volta.data.decoded import decoded
from volta.data.image_files import list_images
from volta.data.image_folder import place_images
from volta.data.missing import missing_pixels
from volta.data.noise import uniform_noise_images
from volta.data.options import LoadOptions, cache_folder
from volta.data.rows import CorruptionOrigin, LazyMapping, RawSets
from volta.data.svhn import read_svhn


@dataclass(frozen=True, eq=False)
class Found:
    """One set that was found, its class names and where it came from."""

    split: Split
    class_names: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class ImageSet:
    """A set of images: its official archive, how that is read, and the zip of images that can stand in for it."""

    title: str
    archive: str
    stand_in: str
    part: str
    read: Callable[[Path], tuple[Split, tuple[str, ...]]]

    @property
    def described(self) -> str:
        """What to say is missing."""
        archive = ARCHIVES[self.archive]
        return f"{archive.folder}/ (from {archive.file})" if archive.folder else archive.file

    def is_there(self, root: Path) -> bool:
        """Whether the set can be loaded."""
        return ARCHIVES[self.archive].place(root).exists() or (root / self.stand_in).is_file()

    def find(self, root: Path, cache: Path) -> Found | None:
        """Load the set, from the archive if it is there, else from the stand-in; None if neither is."""
        archive = ARCHIVES[self.archive]
        place = archive.place(root)
        if place.exists():
            try:
                split, names = self.read(place)
            except FileNotFoundError as error:
                raise InputError(
                    f"{error.filename} is missing; get the archive again: volta data get {self.archive}"
                ) from error
            return Found(split, names, f"{self.title}: official archive ({archive.file})")
        stand_in = root / self.stand_in
        if not stand_in.is_file():
            return None
        split, names = _read_zip(stand_in, self.part, cache)
        text = f"{self.title}: {len(split):,} images of {stand_in.name}, re-encoded (JPEG), not the official archive"
        return Found(split, names, text)


IMAGE_SETS: dict[str, ImageSet] = {
    "cifar10_train": ImageSet(
        "CIFAR-10 train",
        "cifar-10",
        "cifar10-images.zip",
        "train",
        lambda folder: (read_cifar10(folder, CIFAR10_TRAIN), class_names(folder / "batches.meta.txt", 10)),
    ),
    "cifar10_test": ImageSet(
        "CIFAR-10 test",
        "cifar-10",
        "cifar10-images.zip",
        "test",
        lambda folder: (read_cifar10(folder, ("test_batch.bin",)), CIFAR10_CLASSES),
    ),
    "cifar100_train": ImageSet(
        "CIFAR-100 train",
        "cifar-100",
        "cifar100-images.zip",
        "train",
        lambda folder: (read_cifar100(folder, "train"), class_names(folder / "fine_label_names.txt", 100)),
    ),
    "cifar100_test": ImageSet(
        "CIFAR-100 test",
        "cifar-100",
        "cifar100-test-images.zip",
        "test",
        lambda folder: (read_cifar100(folder, "test"), ()),
    ),
    "svhn_test": ImageSet("SVHN test", "svhn", "svhn-test-images.zip", "test", lambda path: (read_svhn(path), ())),
}


@dataclass(frozen=True)
class CifarTask:
    """Which sets make up a task; the near OOD set first."""

    train: str
    test: str
    near: tuple[str, str]
    far: tuple[str, str] = ("svhn", "svhn_test")


CIFAR_TASKS: dict[str, CifarTask] = {
    "cifar10": CifarTask("cifar10_train", "cifar10_test", ("cifar100", "cifar100_test")),
    "cifar100": CifarTask("cifar100_train", "cifar100_test", ("cifar10", "cifar10_test")),
}


def missing_sets(task: str, options: LoadOptions) -> list[str]:
    """Return what a load of the pixels would lack, as file names; nothing is read."""
    root = options.folder
    parts = [IMAGE_SETS[name] for name in _needed(task, options)]
    absent = [part for part in parts if not part.is_there(root)]
    return list(dict.fromkeys(part.described for part in absent))


def read_cifar_sets(task: str, options: LoadOptions) -> RawSets:
    """Return the pixels of ``cifar10`` or ``cifar100`` with OOD sets and, for ``cifar10``, corruptions."""
    root, cache = options.folder, cache_folder()
    if missing := missing_sets(task, options):
        raise missing_pixels(task, root, missing)
    plan = CIFAR_TASKS[task]
    found = {name: IMAGE_SETS[name].find(root, cache) for name in _needed(task, options)}
    train, test = found[plan.train], found[plan.test]
    if train is None or test is None:
        raise missing_pixels(task, root, [IMAGE_SETS[plan.train].described])
    ood = {
        name: OodSet(part.split.inputs, near=name == plan.near[0])
        for name, key in (plan.near, plan.far)
        if (part := found.get(key)) is not None
    }
    if options.wants_ood("noise"):
        ood["noise"] = OodSet(uniform_noise_images(task))
    shifts, origin, note = _shifts(task, options, test.split, cache)
    sources = [part.source for part in found.values() if part is not None] + ([note] if note else [])
    return RawSets(
        parts={"train": train.split, "test": test.split},
        ood=options.pick_ood(ood),
        shifts=shifts,
        class_names=train.class_names,
        source="; ".join(sources),
        corruptions=origin,
    )


def _needed(task: str, options: LoadOptions) -> list[str]:
    plan = CIFAR_TASKS[task]
    return [plan.train, plan.test] + [key for name, key in (plan.near, plan.far) if options.wants_ood(name)]


def _shifts(
    task: str, options: LoadOptions, test: Split, cache: Path
) -> tuple[LazyMapping[Split], CorruptionOrigin, str]:
    unasked = task != "cifar10" and options.shifts != "generated"
    if unasked or options.shifts == "none" or not options.severities:
        return LazyMapping({}), "none", ""
    archive = ARCHIVES["cifar-10-c"]
    folder = archive.place(options.folder)
    official_images = ARCHIVES["cifar-10"].place(options.folder).exists()
    if options.shifts == "official" and not folder.is_dir():
        raise MissingDataError(
            f"CIFAR-10-C is not under {options.folder}: missing {folder.name} (from {archive.file})\n"
            f"get it with: volta data get cifar-10-c --data {options.folder}   or generate it: shifts='generated'"
        )
    if options.shifts == "official" or (options.shifts == "auto" and folder.is_dir() and official_images):
        note = f"shifts: official archive ({archive.file})"
        return official_shifts(folder, options.severities, test), "official", note
    note = "shifts: CIFAR-10-C's corruptions, generated here from the test images"
    return generated_shifts(test, options.severities, cache), "generated", note


def _read_zip(path: Path, part: str, cache: Path) -> tuple[Split, tuple[str, ...]]:
    """Read one split of a zip ``part/<class>/*``; numbered files of a test-only zip keep their numbering."""
    files = list_images(path)
    everything = place_images(files)
    placed = [item for item in everything if item.split == part]
    if len(placed) == len(everything):
        placed.sort(key=lambda item: (PurePosixPath(item.path).name, item.path))
    if not placed:
        raise InputError(f"{path} has no images in {part}/<class>/; expected an image folder with that split")
    names = sorted({item.label for item in placed})
    index = {name: number for number, name in enumerate(names)}
    labels = np.array([index[item.label] for item in placed], np.int64)
    return Split(decoded(files, [item.path for item in placed], cache), labels), tuple(names)
