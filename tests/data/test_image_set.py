"""Zips of images in place of the official archives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.genuine import CIFAR10, encode, flat_jpeg, zipped
from volta.core.errors import InputError
from volta.data import LoadOptions, find_task
from volta.data.inventory import list_data, verify_data

OPTIONS = {"shifts": "none"}


@pytest.fixture
def zips(root: Path) -> Path:
    """A flat image's value tells its class (CIFAR-10) or its number (the others)."""
    own = {
        f"{part}/{name}/{i:04}.jpg": flat_jpeg(10 * number + 5)
        for part, n in (("train", 10), ("test", 4))
        for number, name in enumerate(CIFAR10)
        for i in range(n)
    }
    (root / "cifar10-images.zip").write_bytes(zipped(own))
    hundred = {f"test/{'pear' if i % 2 else 'apple'}/{i:05}.jpg": flat_jpeg(10 * i) for i in range(9)}
    (root / "cifar100-test-images.zip").write_bytes(zipped(hundred))
    digits = {f"test/{9 - i}/{i:05}.jpg": flat_jpeg(20 * i) for i in range(6)}
    (root / "svhn-test-images.zip").write_bytes(zipped(digits))
    return root


def test_cifar10_from_image_zips_says_so(zips: Path) -> None:
    task = find_task("cifar10").load("pixels", LoadOptions(zips, **OPTIONS))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [80, 10, 10, 40]
    assert np.array_equal(task.fit.train.inputs[:, 0, 3, 3], 10 * task.fit.train.labels + 5)
    assert task.class_names == CIFAR10
    assert task.ood["cifar100"].inputs[:, 0, 3, 3].tolist() == [10 * i for i in range(9)]
    assert task.ood["svhn"].inputs[:, 0, 3, 3].tolist() == [20 * i for i in range(6)]
    assert "100 images of cifar10-images.zip, re-encoded (JPEG), not the official archive" in task.source
    assert "9 images of cifar100-test-images.zip" in task.source


def test_decoded_images_are_cached_outside_the_data_folder(zips: Path, tmp_path: Path) -> None:
    before = sorted(zips.rglob("*"))
    options = LoadOptions(zips, **OPTIONS)
    first = find_task("cifar10").load("pixels", options)
    cached = sorted((tmp_path / "cache" / "decoded").glob("*/array.npy"))
    assert len(cached) == 4
    assert sorted(zips.rglob("*")) == before
    stamps = [path.stat().st_mtime_ns for path in cached]
    assert find_task("cifar10").load("pixels", options).fingerprint == first.fingerprint
    assert [path.stat().st_mtime_ns for path in cached] == stamps
    cached[0].write_bytes(b"x")
    assert find_task("cifar10").load("pixels", options).fingerprint == first.fingerprint
    assert cached[0].stat().st_size > 1


def test_a_lossless_zip_is_called_lossless(zips: Path) -> None:
    digits = {
        f"test/{9 - i}/{i:05}.webp": encode(np.full((32, 32, 3), i, np.uint8), "WEBP", lossless=True) for i in range(6)
    }
    (zips / "svhn-test-images.zip").write_bytes(zipped(digits))
    task = find_task("cifar10").load("pixels", LoadOptions(zips, **OPTIONS))
    assert "6 images of svhn-test-images.zip, losslessly encoded (WebP), not the official archive" in task.source
    assert task.ood["svhn"].inputs[:, 0, 3, 3].tolist() == list(range(6))
    again = find_task("cifar10").load("pixels", LoadOptions(zips, **OPTIONS))
    assert again.source == task.source
    notes = {holding.name: holding.note for holding in list_data(zips)}
    assert notes["svhn"] == "6 .webp images in place of the official archive"
    assert notes["cifar-10"] == "140 .jpg images in place of the official archive"


def test_a_cache_that_cannot_be_written_is_done_without(
    zips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "file" / "cache"))
    task = find_task("cifar10").load("pixels", LoadOptions(zips, **OPTIONS))
    assert len(task.test) == 40
    assert "re-encoded (JPEG)" in task.source


def test_stand_ins_are_listed_as_such(zips: Path) -> None:
    states = {holding.name: holding.state for holding in list_data(zips)}
    assert (states["cifar-10"], states["svhn"], states["tiny-imagenet"]) == ("stand-in", "stand-in", "missing")
    assert all(not verdict.problems for verdict in verify_data(zips))
    (zips / "svhn-test-images.zip").write_bytes(b"PK")
    assert "not a whole zip" in {verdict.name: verdict for verdict in verify_data(zips)}["svhn"].problems[0]


def test_a_zip_without_the_split_is_refused(zips: Path) -> None:
    (zips / "svhn-test-images.zip").write_bytes(zipped({"train/1/0.jpg": flat_jpeg(1)}))
    with pytest.raises(InputError, match="has no images in test/<class>/"):
        find_task("cifar10").load("pixels", LoadOptions(zips, **OPTIONS))
