"""Tasks read from feature files, whole, incomplete and broken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.data.genuine import CIFAR10
from volta.core.errors import InputError
from volta.core.types import Split
from volta.data import LoadOptions, find_task
from volta.data.feature_files import store_shifts
from volta.data.inventory import verify_data


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
    assert "incomplete: cifar100 7 of 10,000 rows, noise 5 of 10,000 rows; without: svhn" in task.source
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


def test_sets_that_are_stored_at_once_all_stay(tmp_path: Path) -> None:
    split = Split(np.ones((400, 50), dtype=np.float32), np.zeros(400, dtype=np.int64))
    names = [f"fog-{severity}" for severity in range(1, 6)]
    with ThreadPoolExecutor(len(names)) as pool:
        (path, *_) = pool.map(lambda name: store_shifts("mine", {name: split}, LoadOptions(tmp_path)), names)
    with np.load(path) as stored:
        assert {name for name in stored.files if name.endswith("_x")} == {f"{name}_x" for name in names}
