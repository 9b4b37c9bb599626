from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.genuine import image_folder, tar, zipped
from volta.core.checksummed import encode_object, read_object
from volta.core.errors import InputError, MissingDataError, StoreError
from volta.data import LoadOptions, all_tasks, find_task, pixel_sets, store_features
from volta.data.importing import import_task
from volta.data.inventory import list_data, verify_data
from volta.data.lookup import TASK_KIND

rng = np.random.default_rng(0)


def table(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def blobs(n: int, n_classes: int = 4, width: int = 5) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % n_classes
    return rng.normal(size=(n, width)) + labels[:, None], labels


def test_one_set_of_features_is_split_60_20_20(root: Path, tmp_path: Path) -> None:
    x, y = blobs(200)
    names = np.array(["ant", "bee", "cow", "doe"])[y]
    report = import_task(table(tmp_path / "mine.npz", x=x, y=names), "my-task", root=root)
    assert dict(report.rows) == {"train": 120, "val": 20, "cal": 20, "test": 40}
    assert report.class_names == ("ant", "bee", "cow", "doe")
    task = find_task("my-task", root).load("features", LoadOptions(root))
    assert (task.fit.kind, task.fit.encoder, task.fit.n_classes) == ("features", "tabular", 4)
    assert isinstance(task.fit.train.inputs, np.memmap)
    assert task.fit.train.inputs.dtype == np.float32
    parts = (task.fit.train, task.fit.val, task.fit.cal, task.test)
    assert np.bincount(task.test.labels).tolist() == [10] * 4
    left = np.concatenate([task.fit.train.labels, task.fit.val.labels])
    assert np.abs(np.bincount(task.fit.val.labels) - np.bincount(left) * 20 / 140).max() < 1
    rows = {tuple(row): label for row, label in zip(x.astype(np.float32).tolist(), y.tolist(), strict=True)}
    seen = [
        (tuple(row), label)
        for part in parts
        for row, label in zip(part.inputs.tolist(), part.labels.tolist(), strict=True)
    ]
    assert len(seen) == 200
    assert dict(seen) == rows
    assert "imported from mine.npz" in task.source


@pytest.mark.parametrize("kind", ["features", "pixels"])
def test_copies_of_a_row_are_in_one_part(root: Path, tmp_path: Path, kind: str) -> None:
    x, y = blobs(100, width=48)
    if kind == "pixels":
        x = rng.integers(256, size=(100, 4, 4, 3), dtype=np.uint8)
    index = rng.permutation(np.arange(100).repeat(np.where(y == 3, 8, 1)))
    report = import_task(table(tmp_path / "mine.npz", x=x[index], y=y[index]), "mine", root=root)
    assert (report.rows["cal"], report.rows["test"]) == (10, 20)
    n_left_out = len(index) - sum(report.rows.values())
    assert n_left_out > 0
    assert f"{n_left_out} rows are left out as duplicates of drawn test or calibration rows" in " ".join(report.notes)
    task = find_task("mine", root).load(kind, LoadOptions(root))
    seen = [{row.tobytes() for row in part.inputs} for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 100


def test_train_and_test_are_kept_and_val_is_halved(root: Path, tmp_path: Path) -> None:
    x, y = blobs(80)
    a = import_task(table(tmp_path / "a.npz", train_x=x, train_y=y, test_x=x[:20], test_y=y[:20]), "a", root=root)
    assert dict(a.rows) == {"train": 64, "val": 8, "cal": 8, "test": 20}
    source = table(tmp_path / "b.npz", train_x=x, train_y=y, val_x=x[:40], val_y=y[:40], test_x=x[:20], test_y=y[:20])
    assert dict(import_task(source, "b", root=root).rows) == {"train": 80, "val": 20, "cal": 20, "test": 20}
    source = table(tmp_path / "c.npz", train_x=x, train_y=y, cal_x=x[:8], cal_y=y[:8])
    assert dict(import_task(source, "c", root=root).rows) == {"train": 56, "val": 8, "cal": 8, "test": 16}


def test_the_same_import_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    x, y = blobs(60)
    source = table(tmp_path / "a.npz", x=x, y=y)
    first = import_task(source, "a", root=root)
    before = (first.folder / "task.json").read_bytes()
    import_task(source, "a", root=root, replace=True)
    assert (first.folder / "task.json").read_bytes() == before
    assert sorted(path.name for path in (root / "imported").iterdir()) == ["a"]


def test_an_existing_task_stays_unless_replaced(root: Path, tmp_path: Path) -> None:
    x, y = blobs(60)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    other = table(tmp_path / "b.npz", x=x[:40, :2], y=y[:40])
    with pytest.raises(InputError, match=r"exists already at .*--force"):
        import_task(other, "a", root=root)
    assert find_task("a", root).load("features", LoadOptions(root)).fit.input_shape == (5,)
    import_task(other, "a", root=root, replace=True)
    assert find_task("a", root).load("features", LoadOptions(root)).fit.input_shape == (2,)
    with pytest.raises(InputError, match="has one class"):
        import_task(table(tmp_path / "c.npz", x=x, y=0 * y), "a", root=root, replace=True)
    assert find_task("a", root).load("features", LoadOptions(root)).fit.input_shape == (2,)
    assert [path.name for path in (root / "imported").iterdir()] == ["a"]


def test_ood_sets_and_shifts_come_along(root: Path, tmp_path: Path) -> None:
    x, y = blobs(60)
    np.save(tmp_path / "far.npy", x[:7] + 50)
    report = import_task(
        table(tmp_path / "a.npz", x=x, y=y),
        "a",
        root=root,
        ood={"far": tmp_path / "far.npy", "close": table(tmp_path / "close.npz", x=x[:5])},
        shifts={"drift": table(tmp_path / "d.npz", x=x[:9] + 1, y=y[:9]), "drift-3": tmp_path / "d.npz"},
        near=["close"],
    )
    assert report.rows["ood:far"] == 7
    task = find_task("a", root).load("features", LoadOptions(root))
    assert {name: part.near for name, part in task.ood.items()} == {"far": False, "close": True}
    assert list(task.shifts) == ["drift-1", "drift-3"]
    assert np.array_equal(task.shifts["drift-3"].labels, y[:9])
    assert task.fingerprint
    assert list(find_task("a", root).load("features", LoadOptions(root, ood=("far",), shifts="none")).ood) == ["far"]
    with pytest.raises(InputError, match=r"has 2 columns but train has 5"):
        import_task(tmp_path / "a.npz", "b", root=root, ood={"far": table(tmp_path / "w.npz", x=x[:, :2])})
    with pytest.raises(InputError, match="label 9, which no training row has"):
        import_task(
            tmp_path / "a.npz", "b", root=root, shifts={"s": table(tmp_path / "s.npz", x=x[:2], y=np.array([0, 9]))}
        )
    with pytest.raises(InputError, match="near names 'x'"):
        import_task(tmp_path / "a.npz", "b", root=root, near=["x"])
    assert not (root / "imported" / "b").exists()


def test_nan_rows_are_refused_or_left_out_on_request(root: Path, tmp_path: Path) -> None:
    x, y = blobs(60)
    x[3, 2], x[7, 0], x[8, 1] = np.nan, np.inf, 1e300
    source = table(tmp_path / "a.npz", x=x, y=y)
    with pytest.raises(InputError, match=r"3 rows hold NaN .*the first is row 3, column 2; .*--skip-bad"):
        import_task(source, "a", root=root)
    report = import_task(source, "a", root=root, skip_bad=True)
    assert sum(report.rows.values()) == 57
    assert len(find_task("a", root).load().fit.train) == report.rows["train"]
    assert "left out 3 rows" in report.notes[0]


@pytest.mark.parametrize("kind", ["folder", "zip", "tar", "wrapped"])
def test_image_folders_and_archives_of_them(root: Path, tmp_path: Path, kind: str) -> None:
    counts = {"train/cat": 10, "train/dog": 10, "test/cat": 3, "test/dog": 3}
    folder = image_folder(tmp_path / "images", counts)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.png"))}
    source = folder
    if kind == "zip":
        source = tmp_path / "images.zip"
        source.write_bytes(zipped(files))
    elif kind == "tar":
        source = tmp_path / "images.tgz"
        source.write_bytes(tar(files, "gz"))
    elif kind == "wrapped":
        source = tmp_path / "wrapped.zip"
        source.write_bytes(zipped({f"my data/v1/{name}": content for name, content in files.items()}))
    report = import_task(source, "pets", root=root, ood={"noise": image_folder(tmp_path / "noise", {"": 4}, seed=9)})
    assert dict(report.rows) == {"train": 16, "val": 2, "cal": 2, "test": 6, "ood:noise": 4}
    task = find_task("pets", root).load("pixels", LoadOptions(root))
    assert (task.fit.kind, task.fit.encoder, task.fit.augment) == ("pixels", "vision", False)
    assert task.class_names == ("cat", "dog")
    assert task.fit.input_shape == (3, 12, 12)
    from PIL import Image

    with Image.open(folder / "test/dog/001.png") as picture:
        expected = np.asarray(picture).transpose(2, 0, 1)
    assert np.array_equal(task.test.inputs[4], expected)
    assert task.test.labels.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(MissingDataError, match=r"no features .*\n.*volta extract pets"):
        find_task("pets", root).load("features", LoadOptions(root))


def test_class_folders_without_splits_and_image_sizes(root: Path, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", {"cat": 10, "dog": 10}, side=9)
    image_folder(folder, {"eel": 10}, side=20)
    (folder / "cat" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="mixed sizes"):
        import_task(folder, "pets", root=root)
    report = import_task(folder, "pets", root=root, image_size=(16, 16))
    assert dict(report.rows) == {"train": 18, "val": 3, "cal": 3, "test": 6}
    assert report.notes == ("not an image, passed over: cat/notes.txt",)


def test_what_the_paths_give_away_is_said_before_anything_is_decoded(root: Path, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", {"cat": 6, "dog": 6})
    (folder / "eel").mkdir()
    (folder / "eel" / "broken.jpg").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"fewer than the 3 .*eel \(1\)"):
        import_task(folder, "pets", root=root)


def test_progress_counts_the_images(root: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = image_folder(tmp_path / "images", {"cat": 6, "dog": 6})
    import_task(folder, "pets", root=root, progress=lambda *args: seen.append(args))
    assert seen[-1] == ("images", 12, 12)


def test_undecodable_images_are_named_and_skipped_on_request(root: Path, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", {"cat": 6, "dog": 6})
    (folder / "dog" / "broken.jpg").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"1 image cannot be used: dog/broken.jpg: .*--skip-bad"):
        import_task(folder, "pets", root=root)
    report = import_task(folder, "pets", root=root, skip_bad=True)
    assert sum(report.rows.values()) == 12
    assert report.notes[0].startswith("left out dog/broken.jpg")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "holds no images"),
        ({"cat": 5, "dog": 1}, r"fewer than the 3 training rows that splitting takes: dog \(1\)"),
        ({"train/cat": 5, "train/dog": 1, "test/cat": 2}, r"fewer than the 2 training rows .*dog \(1\)"),
        ({"cat": 5}, "has one class"),
        ({"test/cat": 5, "test/dog": 5}, "has only test; a task needs a train split"),
        ({"train/cat": 5, "train/dog": 5, "test/eel": 2}, "label eel, which no training row has"),
        ({"train": 5, "test": 5}, "lies in no class folder; expected"),
        ({"train/cat": 5, "train/dog": 5, "fish": 5}, "lies next to the split folders"),
        ({"": 3, "cat": 3}, "lies in no class folder"),
    ],
)
def test_folders_that_are_refused(root: Path, tmp_path: Path, counts: dict[str, int], said: str) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    image_folder(folder, counts)
    with pytest.raises(InputError, match=said):
        import_task(folder, "pets", root=root)
    assert not (root / "imported" / "pets").exists()


def test_pixels_in_an_npz(root: Path, tmp_path: Path) -> None:
    last = rng.integers(0, 256, (40, 8, 9, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    import_task(table(tmp_path / "a.npz", x=last, y=labels), "a", root=root)
    import_task(table(tmp_path / "b.npz", x=last.transpose(0, 3, 1, 2), y=labels), "b", root=root)
    a, b = (find_task(name, root).load("pixels", LoadOptions(root)) for name in "ab")
    assert a.fit.input_shape == b.fit.input_shape == (3, 8, 9)
    grey = table(tmp_path / "c.npz", train_images=last[..., 0], train_labels=labels[:, None])
    import_task(grey, "c", root=root)
    c = find_task("c", root).load("pixels", LoadOptions(root))
    assert np.array_equal(c.test.inputs[:, 0], c.test.inputs[:, 2])
    with pytest.raises(InputError, match=r"expected \(n, d\) features, or 8-bit images"):
        import_task(table(tmp_path / "d.npz", x=last / 255.0, y=labels), "d", root=root)
    with pytest.raises(InputError, match="no single axis holds"):
        import_task(table(tmp_path / "e.npz", x=last[:, :3], y=labels), "e", root=root)


@pytest.mark.parametrize("name", ["", "A", "../up", "a/b", "a--b", "-a", ".a", "a-", "x" * 64, "a b"])
def test_names_that_are_no_plain_names_are_refused(root: Path, tmp_path: Path, name: str) -> None:
    x, y = blobs(20)
    with pytest.raises(InputError, match="name is"):
        import_task(table(tmp_path / "a.npz", x=x, y=y), name, root=root)


def test_built_in_names_and_missing_sources(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a built-in task"):
        import_task(tmp_path, "cifar10", root=root)
    with pytest.raises(MissingDataError, match="does not exist"):
        import_task(tmp_path / "nothing", "a", root=root)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be written"):
        import_task(tmp_path, "a", root=tmp_path / "file")


def test_imported_tasks_are_listed_found_and_verified(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    report = import_task(table(tmp_path / "a.npz", x=x, y=y), "mine", root=root)
    assert list(all_tasks(root))[-1] == "mine"
    assert all_tasks(root)["mine"].kinds == ("features",)
    with pytest.raises(InputError, match="this task comes as features"):
        find_task("mine", root).load("pixels", LoadOptions(root))
    with pytest.raises(InputError, match=r"no task 'yours'; the tasks are: digits, cifar10, .*mine"):
        find_task("yours", root)
    assert [holding.name for holding in list_data(root)][-1] == "mine"
    assert verify_data(root)[0].problems == ()
    file = next((report.folder / "arrays").glob("*.npy"))
    with file.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"\x7f")
    assert "has changed since it was imported" in verify_data(root)[0].problems[0]
    file.unlink()
    assert "is missing" in verify_data(root)[0].problems[0]
    with pytest.raises(StoreError, match="import the task again with --force"):
        find_task("mine", root).load("features", LoadOptions(root))


def test_a_damaged_description_does_not_hide_the_other_tasks(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    report = import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    import_task(tmp_path / "a.npz", "b", root=root)
    (report.folder / "task.json").write_text("{")
    assert all_tasks(root)["a"].title.startswith("damaged")
    assert find_task("b", root).load("features", LoadOptions(root))
    with pytest.raises(StoreError, match="is damaged"):
        find_task("a", root).load("features", LoadOptions(root))
    (report.folder / "task.json").write_bytes(encode_object(replace(TASK_KIND, version=99), {}))
    with pytest.raises(StoreError, match=r"newer version of volta \(format 99"):
        find_task("a", root).load("features", LoadOptions(root))


def test_extracted_features_of_an_imported_image_task(root: Path, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", {"cat": 20, "dog": 20})
    foggy = image_folder(tmp_path / "foggy", {"cat": 2, "dog": 3}, seed=5)
    import_task(folder, "pets", root=root, ood={"other": foggy}, shifts={"fog-4": foggy}, near=["other"])
    options = LoadOptions(root)
    sets = pixel_sets("pets", options).inputs()
    assert list(sets) == ["train", "val", "cal", "test", "ood:other", "shift:fog-4"]
    store_features("pets", {name: rows.reshape(len(rows), -1)[:, :6] / 255 for name, rows in sets.items()}, options)
    task = find_task("pets", root).load("features", options)
    pixels = find_task("pets", root).load("pixels", options)
    assert (task.fit.kind, task.fit.encoder) == ("features", "vision")
    assert task.class_names == ("cat", "dog")
    assert np.array_equal(task.fit.cal.labels, pixels.fit.cal.labels)
    assert np.allclose(task.fit.cal.inputs, pixels.fit.cal.inputs.reshape(len(pixels.fit.cal), -1)[:, :6] / 255)
    assert np.array_equal(task.shifts["fog-4"].labels, [0, 0, 1, 1, 1])
    assert task.ood["other"].near


def test_a_feature_file_of_the_data_folder_becomes_a_task_and_stays(root: Path) -> None:
    x, y = blobs(80)
    (root / "features").mkdir(parents=True)
    file = table(root / "features" / "intents.npz", train_x=x, train_y=y, test_x=x[:20], test_y=y[:20])
    others = table(root / "features" / "intents-ood.npz", outside_x=x + 9, away_x=x[:7] - 9)
    shifted = table(root / "features" / "intents-shifts.npz", **{"typos-2_x": x[:9], "typos-2_y": y[:9]})
    with pytest.raises(InputError, match=r"intents.npz one with: volta data import .*intents.npz --name intents"):
        find_task("intents", root)
    for _ in range(2):
        import_task(
            file, "intents", root=root, ood={"away": others}, shifts={"typos-2": shifted}, near=["away"], replace=True
        )
        task = find_task("intents", root).load("features", LoadOptions(root))
        assert np.array_equal(task.ood["away"].inputs, np.float32(x[:7] - 9))
        assert np.array_equal(task.shifts["typos-2"].labels, y[:9])
        assert all(path.is_file() for path in (file, others, shifted))


def test_corruptions_of_own_images_on_request(root: Path, tmp_path: Path) -> None:
    import_task(image_folder(tmp_path / "images", {"cat": 20, "dog": 20}, side=16), "pets", root=root)
    task = find_task("pets", root).load("pixels", LoadOptions(root, severities=(2,), shifts="generated"))
    assert len(task.shifts) == 19
    brighter = task.shifts["brightness-2"]
    assert brighter.inputs.shape == task.test.inputs.shape
    assert brighter.inputs.mean() > task.test.inputs.mean()


def test_generated_corruptions_do_not_replace_own_shifts(root: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", {"cat": 20, "dog": 20}, side=16)
    import_task(images, "pets", root=root, shifts={"fog-2": images})
    with pytest.raises(InputError, match="already has a set 'fog-2', which --corruptions would make too"):
        find_task("pets", root).load("pixels", LoadOptions(root, severities=(2,), shifts="generated"))
    assert len(find_task("pets", root).load("pixels", LoadOptions(root, shifts="generated")).shifts) == 20


def test_a_replaced_task_loses_the_features_of_its_old_images(root: Path, tmp_path: Path) -> None:
    import_task(image_folder(tmp_path / "images", {"cat": 20, "dog": 20}, side=16), "pets", root=root)
    sets = pixel_sets("pets", LoadOptions(root)).inputs()
    store_features("pets", {key: np.zeros((len(sets[key]), 4), np.float32) for key in sets}, LoadOptions(root))
    assert find_task("pets", root).load("features", LoadOptions(root)).fit.input_shape == (4,)
    part = table(root / "features" / "pets-shifts-4.npz", **{"fog-1_x": np.zeros((4, 4)), "fog-1_y": np.zeros(4, int)})
    import_task(image_folder(tmp_path / "others", {"cat": 30, "dog": 30}, side=16), "pets", root=root, replace=True)
    assert not part.exists()
    with pytest.raises(MissingDataError):
        find_task("pets", root).load("features", LoadOptions(root))


def test_a_task_imported_from_its_own_feature_file_keeps_it(root: Path, tmp_path: Path) -> None:
    import_task(image_folder(tmp_path / "images", {"cat": 20, "dog": 20}, side=16), "pets", root=root)
    sets = pixel_sets("pets", LoadOptions(root)).inputs()
    rows = np.random.default_rng(0)
    store_features("pets", {key: rows.normal(size=(len(sets[key]), 4)) for key in sets}, LoadOptions(root))
    file = root / "features" / "pets.npz"
    import_task(file, "pets", root=root, replace=True)
    assert file.is_file()
    # It is no longer known to be of these images, so images do not come under its name in silence.
    with pytest.raises(
        InputError, match=r"pets.npz was not extracted from images called 'pets'.*choose another --name"
    ):
        import_task(image_folder(tmp_path / "others", {"cat": 20, "dog": 20}, side=16), "pets", root=root, replace=True)
    assert find_task("pets", root).load("features", LoadOptions(root)).fit.input_shape == (4,)


def test_features_of_a_task_whose_description_is_damaged_go_with_it(root: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", {"cat": 20, "dog": 20}, side=16)
    import_task(images, "pets", root=root)
    sets = pixel_sets("pets", LoadOptions(root)).inputs()
    store_features("pets", {key: np.zeros((len(sets[key]), 4), np.float32) for key in sets}, LoadOptions(root))
    (root / "imported" / "pets" / "task.json").write_text("{")
    import_task(images, "pets", root=root, replace=True)
    assert not (root / "features" / "pets.npz").exists()


def test_pickles_are_never_opened(root: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    trap = np.array([Trap()] * 4, dtype=object)
    np.save(tmp_path / "trap.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "trap.npz", x=trap, y=np.arange(4))
    for name in ("trap.npy", "trap.npz"):
        with pytest.raises(InputError):
            import_task(tmp_path / name, "a", root=root)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "record",
    [b"[" * 100_000, b"null", b"[]", b'{"schema": 1}', b"\xff\xfe", b'{"schema": 1, "class_names": 3}', b""],
)
def test_whatever_a_description_holds_the_other_tasks_are_there(root: Path, tmp_path: Path, record: bytes) -> None:
    x, y = blobs(40)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    import_task(table(tmp_path / "b.npz", x=x, y=y), "b", root=root)
    (root / "imported" / "a" / "task.json").write_bytes(record)
    assert len(find_task("b", root).load().test) == 8
    assert {holding.name for holding in list_data(root)} >= {"a", "b"}
    assert [verdict.name for verdict in verify_data(root) if verdict.problems] == ["a"]
    with pytest.raises(StoreError, match=r"task\.json.*import the task again with --force"):
        find_task("a", root).load()


def test_a_description_cannot_name_files_elsewhere(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    path = root / "imported" / "a" / "task.json"
    record = read_object(path, TASK_KIND, dict[str, Any])
    record["parts"]["train"]["inputs"]["file"] = "../../../secret.npy"
    path.write_bytes(encode_object(TASK_KIND, record))
    with pytest.raises(StoreError, match=r"file is '\.\./\.\./\.\./secret.npy', which names no array"):
        find_task("a", root).load()


def test_an_altered_array_is_noticed_when_it_is_opened(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    report = import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    find_task("a", root).load()
    for path in sorted((report.folder / "arrays").iterdir()):
        whole = bytearray(path.read_bytes())
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(StoreError, match=r"is not the array that was imported.*import the task again with --force"):
            find_task("a", root).load()
        path.write_bytes(whole)
    find_task("a", root).load()


@pytest.mark.parametrize("place", ["", "task.json", "arrays"])
def test_a_task_is_not_read_through_links(root: Path, tmp_path: Path, place: str) -> None:
    x, y = blobs(40)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    import_task(tmp_path / "a.npz", "b", root=root)
    linked = root / "imported" / "a" / place if place else root / "imported" / "a"
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a symbolic link"):
        find_task("a", root).load()
    assert len(find_task("b", root).load().test) == 8


def test_a_folder_with_another_name_is_listed_as_damaged(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    shutil.copytree(root / "imported" / "a", root / "imported" / "No Name")
    assert all_tasks(root)["No Name"].title.startswith("damaged")
    assert {holding.name for holding in list_data(root)} >= {"a", "No Name"}
    assert len(find_task("a", root).load().test) == 8


def test_the_report_says_what_was_read(root: Path, tmp_path: Path) -> None:
    x, y = blobs(50)
    x[3, 2], x[7, 0] = -90.0, 80.5
    report = import_task(
        table(tmp_path / "a.npz", x=x, y=y),
        "a",
        root=root,
        ood={"far": table(tmp_path / "b.npz", x=np.full((3, 5), 7.0))},
    )
    assert dict(report.class_rows) == {"0": 13, "1": 13, "2": 12, "3": 12}
    assert report.ranges["ood:far"] == (7.0, 7.0)
    assert min(low for low, _ in report.ranges.values()) == -90.0
    assert max(high for _, high in report.ranges.values()) == 80.5
    assert set(report.ranges) == set(report.rows)


def test_a_task_that_a_killed_replacement_moved_aside_comes_back(root: Path, tmp_path: Path) -> None:
    x, y = blobs(40)
    import_task(table(tmp_path / "a.npz", x=x, y=y), "a", root=root)
    aside = root / "imported" / ".old-x"
    aside.mkdir()
    (root / "imported" / "a").rename(aside / "a")
    (root / "imported" / ".part-y" / "arrays").mkdir(parents=True)
    import_task(table(tmp_path / "b.npz", x=x, y=y), "b", root=root)
    assert sorted(path.name for path in (root / "imported").iterdir()) == ["a", "b"]
    assert len(find_task("a", root).load().test) == 8


def test_nothing_is_moved_out_of_a_folder_that_is_linked_to(root: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "letters").write_text("mine")
    (root / "imported").mkdir(parents=True)
    (root / "imported" / ".old-x").symlink_to(private)
    x, y = blobs(40)
    import_task(table(tmp_path / "b.npz", x=x, y=y), "b", root=root)
    assert (private / "letters").read_text() == "mine"
    assert not (root / "imported" / "letters").exists()


def text_table(path: Path, header: str, columns: list[np.ndarray]) -> Path:
    rows = [",".join(map(str, row)) for row in zip(*(column.tolist() for column in columns), strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_columns_of_further_tables_are_matched_by_name(root: Path, tmp_path: Path) -> None:
    x, y = blobs(60, n_classes=3, width=3)
    a, b, c = x.T
    source = text_table(tmp_path / "mine.csv", "a,b,c,species", [a, b, c, y])
    far = text_table(tmp_path / "far.csv", "c,a,b", [c, a, b])
    wet = text_table(tmp_path / "wet.csv", "species,b,c,a", [y, b, c, a])
    import_task(source, "mine", root=root, label="species", ood={"far": far}, shifts={"wet-1": wet})
    task = find_task("mine", root).load("features", LoadOptions(root))
    assert np.array_equal(task.ood["far"].inputs, x.astype(np.float32))
    assert np.array_equal(task.shifts["wet-1"].inputs, x.astype(np.float32))
    short = text_table(tmp_path / "short.csv", "c,a", [c, a])
    with pytest.raises(InputError, match="lacks the column 'b', which the training rows have"):
        import_task(source, "other", root=root, label="species", ood={"far": short})
    long = text_table(tmp_path / "long.csv", "c,a,b,d", [c, a, b, a])
    with pytest.raises(InputError, match="has a column 'd', which the training rows lack"):
        import_task(source, "other", root=root, label="species", ood={"far": long})


@pytest.mark.parametrize("kind", ["csv", "npz", "npz of whole numbers"])
def test_columns_far_from_zero_keep_their_digits(root: Path, tmp_path: Path, kind: str) -> None:
    seconds, y = 1_700_000_000 + np.arange(300), np.arange(300) % 3
    other = rng.normal(size=300)
    if kind == "csv":
        source = text_table(tmp_path / "mine.csv", "time,other,label", [seconds, other, y])
    else:
        columns = [seconds, np.arange(300)] if kind.endswith("numbers") else [seconds, other]
        source = table(tmp_path / "mine.npz", x=np.stack(columns, axis=1), y=y)
    import_task(source, "mine", root=root)
    task = find_task("mine", root).load("features", LoadOptions(root))
    parts = (task.fit.train, task.fit.val, task.fit.cal, task.test)
    assert sorted(np.concatenate([part.inputs[:, 0] for part in parts])) == seconds.tolist()


def test_a_task_that_appears_meanwhile_is_not_replaced(root: Path, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pets", {"cat": 12, "dog": 12})
    x, y = blobs(60)
    made = []

    def meanwhile(*_: object) -> None:
        if not made:
            made.append(import_task(table(tmp_path / "a.npz", x=x, y=y), "mine", root=root))

    with pytest.raises(InputError, match="the task 'mine' exists already"):
        import_task(folder, "mine", root=root, progress=meanwhile)
    assert find_task("mine", root).load("features", LoadOptions(root)).fit.train.inputs.shape[1] == 5
