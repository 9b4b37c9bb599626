"""Layouts without the official archives: zips of re-encoded images, and feature files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.data import LoadOptions, find_task
from volta.data.fetch import list_data, verify_data

from .genuine import CIFAR10, flat_jpeg, zipped

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
    cached = sorted((tmp_path / "cache" / "decoded").glob("*.npy"))
    assert len(cached) == 4
    assert sorted(zips.rglob("*")) == before
    stamps = [path.stat().st_mtime_ns for path in cached]
    assert find_task("cifar10").load("pixels", options).fingerprint == first.fingerprint
    assert [path.stat().st_mtime_ns for path in cached] == stamps
    cached[0].write_bytes(b"x")
    with pytest.raises(InputError, match=r"is damaged .*delete it"):
        find_task("cifar10").load("pixels", options)


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


def write(root: Path, name: str, **arrays: np.ndarray) -> None:
    (root / "features").mkdir(exist_ok=True)
    np.savez(root / "features" / name, **arrays)


def rows(n: int, width: int = 6) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, width)).astype(np.float16)


def test_cifar10_features_with_ood_sets_and_shifts(root: Path) -> None:
    labels = np.arange(50) % 10
    write(root, "cifar10.npz", train_x=rows(50), train_y=labels, test_x=rows(20), test_y=labels[:20])
    write(root, "cifar10-ood.npz", cifar100_x=rows(7), noise_x=rows(5))
    write(root, "cifar10-shifts.npz", **{"fog-1_x": rows(20), "fog-2_x": rows(20)})
    task = find_task("cifar10").load("features", LoadOptions(root))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [40, 5, 5, 20]
    assert (task.fit.encoder, task.fit.kind, task.fit.paper_epochs, task.fit.augment) == (
        "vision",
        "features",
        80,
        False,
    )
    assert task.test.inputs.dtype == np.float32
    assert np.array_equal(task.test.inputs, rows(20).astype(np.float32))
    assert list(task.shifts) == ["fog-1"]
    assert task.class_names == CIFAR10
    assert "not whole: cifar100 7 of 10,000 rows, noise 5 of 10,000 rows; without: svhn" in task.source
    assert list(find_task("cifar10").load("features", LoadOptions(root, severities=(1, 2))).shifts) == [
        "fog-1",
        "fog-2",
    ]


def test_tinyimagenet_features_with_the_official_validation_set(root: Path) -> None:
    train, val = np.repeat(np.arange(100), 5), np.tile(np.arange(200), 2)
    write(root, "tinyimagenet.npz", train_x=rows(500), train_y=train, val_x=rows(400), val_y=val)
    task = find_task("tinyimagenet").load("features", LoadOptions(root))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [400, 50, 50, 200]
    assert (task.fit.n_classes, task.fit.encoder, task.fit.paper_epochs) == (100, "tabular", 100)
    assert np.array_equal(task.ood["classes_100_199"].inputs, rows(400)[val >= 100].astype(np.float32))
    assert task.test.labels.max() == 99


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"train_x": rows(4)}, "has train_x but no train_y"),
        ({"train_x": rows(4), "train_y": np.arange(4)}, "has no test_x and test_y"),
        ({"train_x": rows(4), "train_y": np.arange(4.0)}, "float64; expected class numbers"),
        ({"train_x": rows(4)[:, 0], "train_y": np.arange(4)}, r"has shape \(4,\)"),
        ({"train_x": np.full((2, 2), np.nan), "train_y": np.arange(2)}, "row 0 holds nan"),
    ],
)
def test_feature_files_that_are_refused(root: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    write(root, "cifar10.npz", **arrays)
    with pytest.raises(InputError, match=said):
        find_task("cifar10").load("features", LoadOptions(root))


def test_damaged_and_mismatched_feature_files(root: Path) -> None:
    labels = np.arange(20) % 10
    write(root, "cifar10.npz", train_x=rows(20), train_y=labels, test_x=rows(20), test_y=labels)
    write(root, "cifar10-ood.npz", svhn_x=rows(5, width=3))
    with pytest.raises(InputError, match="svhn has 3 features but train has 6"):
        find_task("cifar10").load("features", LoadOptions(root))
    (root / "features" / "cifar10.npz").write_bytes(b"PK damaged")
    with pytest.raises(InputError, match="cannot be read"):
        find_task("cifar10").load("features", LoadOptions(root))
    assert "cannot be read" in {v.name: v for v in verify_data(root)}["features/cifar10"].problems[0]
