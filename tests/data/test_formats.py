"""The parsers of CIFAR's, SVHN's and CIFAR-10-C's files, on small files in the genuine formats and on broken ones."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.core.types import Split
from volta.data import cifar
from volta.data.cifar import CIFAR10_TRAIN, class_names, read_cifar10, read_cifar100, read_records
from volta.data.cifar10c import CORRUPTION_NAMES, generated_shifts, official_shifts
from volta.data.svhn import read_svhn

from .genuine import CIFAR10, cifar10_tar, cifar10c_tar, cifar100_tar, images, npy, svhn_mat

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
    train = read_cifar10(folder, CIFAR10_TRAIN)
    assert np.array_equal(train.inputs, np.concatenate([pixels[name] for name in CIFAR10_TRAIN]))
    assert np.array_equal(train.labels, np.concatenate([labels[name] for name in CIFAR10_TRAIN]))
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
    with pytest.raises(InputError, match="is not a list of class names"):
        class_names(path, 10)


def test_svhn_axes_and_the_ten_that_means_zero(root: Path) -> None:
    content, pixels, digits = svhn_mat(ROWS)
    (root / "test_32x32.mat").write_bytes(content)
    split = read_svhn(root / "test_32x32.mat")
    assert np.array_equal(split.inputs, pixels)
    assert np.array_equal(split.labels, digits)
    assert split.inputs.flags.c_contiguous


def test_broken_svhn_files_are_refused(root: Path) -> None:
    from scipy.io import savemat

    path = root / "test_32x32.mat"
    content, _, _ = svhn_mat(ROWS)
    for broken in (b"", b"<html>", content[: len(content) // 2]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="fetch it again"):
            read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8)})
    with pytest.raises(InputError, match="has no variable 'y'"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))})
    with pytest.raises(InputError, match="float64, expected"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.zeros((2, 1))})
    with pytest.raises(InputError, match="outside 1-10"):
        read_svhn(path)


def test_cifar10c_slices_severities_and_stays_on_disk(root: Path) -> None:
    test = Split(images(ROWS, 1), np.arange(ROWS) % 10)
    content, arrays = cifar10c_tar(test.labels, CORRUPTION_NAMES)
    extract(content, root)
    shifts = official_shifts(root / "CIFAR-10-C", (1, 4), test)
    assert len(shifts) == 2 * 19
    fog = shifts["fog-4"]
    assert isinstance(fog.inputs, np.memmap)
    assert np.array_equal(fog.inputs, arrays["fog"][3 * ROWS : 4 * ROWS].transpose(0, 3, 1, 2))
    assert np.array_equal(fog.labels, test.labels)
    assert shifts["fog-4"] is fog


def test_broken_cifar10c_is_refused(root: Path) -> None:
    test = Split(images(ROWS, 1), np.arange(ROWS) % 10)
    content, _ = cifar10c_tar(test.labels[::-1], CORRUPTION_NAMES[:1])
    extract(content, root)
    folder = root / "CIFAR-10-C"
    with pytest.raises(InputError, match="does not hold the test labels five times"):
        official_shifts(folder, (1,), test)
    (folder / "labels.npy").write_bytes(npy(np.tile(test.labels, 5)))
    shifts = official_shifts(folder, (1,), test)
    with pytest.raises(InputError, match=r"fog.npy is missing"):
        shifts["fog-1"]
    (folder / "fog.npy").write_bytes(npy(np.zeros((ROWS, 32, 32, 3), np.uint8)))
    with pytest.raises(InputError, match="has shape"):
        shifts["fog-1"]
    (folder / "snow.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match="not a whole npy file"):
        shifts["snow-1"]
    (folder / "frost.npy").write_bytes(npy_object())
    with pytest.raises(InputError, match="not a whole npy file"):
        shifts["frost-1"]


def npy_object() -> bytes:
    buffer = BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def test_generated_shifts_follow_the_corruptions_and_are_cached(root: Path) -> None:
    corruptions = pytest.importorskip("volta.data.corruptions")
    assert tuple(corruptions.CORRUPTIONS) == CORRUPTION_NAMES
    test = Split(images(6, 1), np.arange(6))
    shifts = generated_shifts(test, (3,), root)
    from volta.core.seeding import SPLIT_SEED

    expected = corruptions.corrupt(test.inputs.transpose(0, 2, 3, 1), "contrast", 3, seed=SPLIT_SEED)
    made = shifts["contrast-3"]
    assert np.array_equal(made.inputs, expected.transpose(0, 3, 1, 2))
    cached = list((root / "corrupted").glob("contrast-3-*.npy"))
    assert len(cached) == 1
    before = cached[0].stat().st_mtime_ns
    assert np.array_equal(generated_shifts(test, (3,), root)["contrast-3"].inputs, made.inputs)
    assert cached[0].stat().st_mtime_ns == before
