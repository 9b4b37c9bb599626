"""The parser of CIFAR's files, on small files in the genuine format and on broken ones."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from tests.data.genuine import CIFAR10, cifar10_tar, cifar100_tar
from volta.core.errors import InputError
from volta.data.tasks import cifar
from volta.data.tasks.cifar import CIFAR10_TRAIN_FILES, class_names, read_cifar10, read_cifar100, read_records

ROWS = 20


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "BATCH_ROWS", ROWS)


def extract(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def test_cifar10_pixels_labels_and_names(root: Path) -> None:
    content, pixels, labels = cifar10_tar(ROWS)
    extract(content, root)
    folder = root / "cifar-10-batches-bin"
    train = read_cifar10(folder, CIFAR10_TRAIN_FILES)
    assert np.array_equal(train.inputs, np.concatenate([pixels[name] for name in CIFAR10_TRAIN_FILES]))
    assert np.array_equal(train.labels, np.concatenate([labels[name] for name in CIFAR10_TRAIN_FILES]))
    assert train.labels.dtype == np.int64
    assert class_names(folder / "batches.meta.txt", 10) == CIFAR10


def test_cifar100_takes_the_fine_label(root: Path) -> None:
    content, pixels, fine = cifar100_tar(ROWS)
    extract(content, root)
    for part in ("train", "test"):
        split = read_cifar100(root / "cifar-100-binary", part)
        assert np.array_equal(split.labels, fine[f"{part}.bin"])
        assert np.array_equal(split.inputs, pixels[f"{part}.bin"])


def test_broken_cifar_files_are_refused(root: Path) -> None:
    path = root / "batch.bin"
    path.write_bytes(bytes(3073 * ROWS - 1))
    with pytest.raises(InputError, match=r"has 61,459 bytes, expected 61,460 \(20 records of 3073\)"):
        read_records(path, 1, ROWS, 10)
    path.write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(InputError, match="record 0 has label 10, expected 0 to 9"):
        read_records(path, 1, 1, 10)
    path.write_text("cat\ndog\n")
    with pytest.raises(InputError, match="names 2 classes, expected 10"):
        class_names(path, 10)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="names 1 classes, expected 10"):
        class_names(path, 10)
