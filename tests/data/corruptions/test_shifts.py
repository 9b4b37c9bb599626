"""CIFAR-10-C's files, whole and broken, and the corruptions generated in their place."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from tests.data.genuine import cifar10c_tar, images, npy
from volta.core.errors import InputError
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Split
from volta.data.corruptions import CORRUPTION_NAMES, CORRUPTIONS, corrupt
from volta.data.corruptions.corrupt import generated_shifts, official_shifts

ROWS = 20


def extract(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


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
    assert tuple(CORRUPTIONS) == CORRUPTION_NAMES
    test = Split(images(6, 1), np.arange(6))
    shifts = generated_shifts(test, (3,), root)
    expected = corrupt(test.inputs.transpose(0, 2, 3, 1), "contrast", 3, seed=SPLIT_SEED)
    made = shifts["contrast-3"]
    assert np.array_equal(made.inputs, expected.transpose(0, 3, 1, 2))
    assert isinstance(made.inputs, np.memmap)
    cached = list((root / "corrupted").glob("*/array.npy"))
    assert len(cached) == 1
    before = cached[0].stat().st_mtime_ns
    assert np.array_equal(generated_shifts(test, (3,), root)["contrast-3"].inputs, made.inputs)
    assert cached[0].stat().st_mtime_ns == before
