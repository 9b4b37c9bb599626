"""Each task is one value: what the lists, the downloader and the loaders need is said there and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import volta
from volta.core.errors import InputError, MissingDataError
from volta.core.types import OodSet, Split
from volta.data import TASKS, LoadOptions, TaskDefinition, all_tasks, find_task, pixel_sets, task_of_features
from volta.data.importing import import_task
from volta.data.task_builder import Preparation, RawSets

NAMES = ("digits", "cifar10", "cifar100", "tinyimagenet")


class Stripes:
    """Eight images whose class is their brightness, as a task's file would define them."""

    def missing(self, options: LoadOptions) -> list[str]:
        return [] if (options.folder / "stripes").exists() else ["stripes"]

    def is_there(self, root: Path) -> bool:
        return False

    def read(self, options: LoadOptions) -> RawSets:
        images = np.zeros((40, 3, 4, 4), np.uint8)
        labels = np.arange(40) % 2
        images[labels == 1] = 200
        return RawSets(
            {"train": Split(images, labels), "test": Split(images[:8], labels[:8])},
            {"close": OodSet(images[:3]), "away": OodSet(images[:5])},
            class_names=("dark", "light"),
        )


STRIPES = TaskDefinition(
    name="stripes",
    title="stripes",
    preparation=Preparation("vision", 0.2),
    images=Stripes(),
    features=Stripes(),
    near=("close",),
    far=("away",),
)


def test_the_table_is_keyed_by_name() -> None:
    assert tuple(TASKS) == NAMES
    assert all(name == task.name for name, task in TASKS.items())


def test_lists_say_what_they_said() -> None:
    assert {name: task.download for name, task in TASKS.items()} == {
        "digits": "none: embedded",
        "cifar10": "403 MB: volta data get cifar10",
        "cifar100": "403 MB: volta data get cifar100",
        "tinyimagenet": "248 MB: volta data get tinyimagenet",
    }
    both = ("features", "pixels")
    assert [task.kinds for task in TASKS.values()] == [("features",), both, both, ("features",)]
    assert [task.encoder for task in TASKS.values()] == ["tabular", "vision", "vision", "tabular"]
    assert TASKS["tinyimagenet"].images is not None


def test_one_value_in_the_table_is_a_whole_task(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "stripes", STRIPES)
    assert "stripes" in all_tasks(root)
    with pytest.raises(MissingDataError, match=r"stripes is not complete under .*: missing stripes"):
        find_task("stripes").load("pixels", LoadOptions(root))
    (root / "stripes").touch()
    task = find_task("stripes").load("pixels", LoadOptions(root))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [32, 4, 4, 8]
    assert {name: part.near for name, part in task.ood.items()} == {"close": True, "away": False}
    with pytest.raises(MissingDataError, match="volta extract stripes"):
        find_task("stripes").load("features", LoadOptions(root))
    sets = pixel_sets("stripes", LoadOptions(root, ood=("away",))).inputs()
    assert list(sets) == ["train", "test", "ood:away"]
    features = {name: rows.reshape(len(rows), -1)[:, :2].astype(np.float32) for name, rows in sets.items()}
    of_features = task_of_features(find_task("stripes"), features, LoadOptions(root, ood=("away",)), source="means")
    assert np.array_equal(of_features.fit.cal.labels, task.fit.cal.labels)
    with pytest.raises(InputError, match="which is a built-in task"):
        import_task("any.npz", "stripes", root=root)


def test_images_that_are_not_for_training() -> None:
    only = replace(STRIPES, trains_on_pixels=False)
    assert only.kinds == ("features",)
    with pytest.raises(InputError, match="this task comes as features"):
        only.load("pixels")
    with pytest.raises(MissingDataError, match="digits has no images, only features"):
        pixel_sets("digits")


def test_imported_tasks_are_the_same_kind_of_value(root: Path, tmp_path: Path) -> None:
    rows, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    np.savez(tmp_path / "mine.npz", x=rows, y=labels)
    np.save(tmp_path / "far.npy", rows[:7])
    import_task(tmp_path / "mine.npz", "mine", root=root, ood={"far": tmp_path / "far.npy"})
    task = all_tasks(root)["mine"]
    assert isinstance(task, TaskDefinition)
    assert (task.kinds, task.download, task.near, task.far) == (("features",), "none: imported", (), ("far",))
    assert len(task.load().test) == 12


def test_no_code_asks_for_a_task_by_name() -> None:
    """A dataset costs one file and one line only while nothing outside its file knows its name."""
    package = Path(volta.__file__).parent
    asked = re.compile(r"(==|!=|\bin)\s*\(?\s*[\"'](" + "|".join(NAMES) + r")[\"']")
    allowed = {"stats", "paper"}  # the paper's printed values are of its own tasks
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in allowed
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert found == []
