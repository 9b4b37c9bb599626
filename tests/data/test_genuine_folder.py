"""Genuine data, read in place from the folder that VOLTA_DATA names: features and zips of images."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from volta.data import LoadOptions, find_task
from volta.data.inventory import list_data

# Read before the fixture that hides the user's folders from every other test here.
FOLDER = os.environ.get("VOLTA_DATA")

pytestmark = pytest.mark.validity


@pytest.fixture
def genuine() -> Path:
    if not FOLDER:
        pytest.skip("VOLTA_DATA names no data folder")
    return Path(FOLDER)


def need(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        pytest.skip(f"the data folder has no {name}")
    return folder / name


@pytest.mark.parametrize(
    ("name", "sizes", "near"),
    [
        ("cifar10", [40_000, 5_000, 5_000, 10_000], "cifar100"),
        ("cifar100", [45_000, 2_500, 2_500, 10_000], "cifar10"),
        ("tinyimagenet", [40_000, 5_000, 5_000, 5_000], "classes_100_199"),
    ],
)
def test_features_have_the_sizes_of_the_sets(genuine: Path, name: str, sizes: list[int], near: str) -> None:
    need(genuine, f"features/{name}.npz")
    task = find_task(name).load("features", LoadOptions(genuine))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == sizes
    assert [key for key, part in task.ood.items() if part.near] == [near]
    assert task.fit.input_shape == (512,)
    assert len(np.unique(task.test.labels)) == task.fit.n_classes == len(task.class_names)


def test_zips_of_images_are_found_and_described_by_what_they_hold(genuine: Path) -> None:
    for name in ("cifar10-images.zip", "cifar100-test-images.zip", "svhn-test-images.zip"):
        need(genuine, name)
    task = find_task("cifar10").load("pixels", LoadOptions(genuine, shifts="none"))
    assert len(task.test) == 10_000
    assert task.fit.input_shape == (3, 32, 32)
    assert list(task.ood) == ["cifar100", "svhn", "noise"]
    need(genuine, "features/cifar10.npz")
    features = find_task("cifar10").load("features", LoadOptions(genuine))
    assert np.array_equal(features.test.labels, task.test.labels)
    note = {holding.name: holding.note for holding in list_data(genuine)}["cifar-10"]
    if ".webp" in note:
        assert "losslessly encoded (WebP), not the official archive" in task.source
