"""The whole way: archives in the genuine formats, served over HTTP, fetched, unpacked, loaded as tasks, verified."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from volta.core.errors import InputError, MissingDataError, StoreError
from volta.data import (
    TASKS,
    LoadOptions,
    corruption_sheet,
    find_task,
    inventory,
    pixel_sets,
    store_features,
)
from volta.data.corruptions import CORRUPTION_NAMES
from volta.data.download import Checksum
from volta.data.inventory import ARCHIVES, archive_names, get_data, list_data, verify_data
from volta.data.tasks import cifar
from volta.data.tasks.cifar import uniform_noise_images
from volta.data.tasks.tiny_imagenet import OOD_CLASSES

from .file_server import FileServer, Route
from .genuine import cifar10_tar, cifar10c_tar, cifar100_tar, images, svhn_mat, tar, tiny_imagenet_zip

ROWS = 100


@pytest.fixture
def served(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """Replace every official archive by a small one in the same format, behind a dead first address."""
    monkeypatch.setattr(cifar, "BATCH_ROWS", ROWS)
    labels = np.arange(ROWS) % 10
    contents = {
        "cifar-10": cifar10_tar(ROWS)[0],
        "cifar-100": cifar100_tar(ROWS)[0],
        "svhn": svhn_mat(30)[0],
        "cifar-10-c": cifar10c_tar(labels, CORRUPTION_NAMES)[0],
        "tiny-imagenet": tiny_imagenet_zip(5, 2),
        "resnet18": b"weights",
    }
    for name, content in contents.items():
        serve_archive(server, monkeypatch, name, content)
    return server


def serve_archive(server: FileServer, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes) -> None:
    url = server.add(f"/{name}", content)
    checksum = Checksum("md5", hashlib.md5(content).hexdigest())
    urls = (f"{server.address}/gone/{name}", url)
    small = replace(ARCHIVES[name], urls=urls, size=len(content), checksum=checksum)
    monkeypatch.setitem(inventory.ARCHIVES, name, small)


def test_cifar10_from_the_archives(served: FileServer, root: Path) -> None:
    places = get_data("cifar10", root)
    assert [place.name for place in places] == ["cifar-10-batches-bin", "cifar-100-binary", "test_32x32.mat"]
    assert not (root / "cifar-10-binary.tar.gz").exists()
    get_data("cifar-10-c", root)
    task = find_task("cifar10").load("pixels", LoadOptions(root, severities=(1, 5)))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [400, 50, 50, 100]
    left = np.bincount(np.concatenate([task.fit.train.labels, task.fit.val.labels]))
    assert np.abs(np.bincount(task.fit.val.labels) - left / 9).max() < 1
    assert left.tolist() == (50 - np.bincount(task.fit.cal.labels, minlength=10)).tolist()
    assert list(task.ood) == ["cifar100", "svhn", "noise"]
    assert [part.near for part in task.ood.values()] == [True, False, False]
    assert [len(part.inputs) for part in task.ood.values()] == [100, 30, 10_000]
    assert len(task.shifts) == 38
    assert task.class_names[3] == "cat"
    assert (task.fit.encoder, task.fit.kind, task.fit.augment, task.fit.paper_epochs) == ("vision", "pixels", True, 80)
    assert task.fit.normalise == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert task.fit.input_shape == (3, 32, 32)
    assert "official archive (cifar-10-binary.tar.gz)" in task.source
    assert "shifts: official archive" in task.source
    sheet = corruption_sheet(find_task("cifar10"), LoadOptions(root))
    assert sheet is not None
    assert sheet.shape == (19 * 33 - 1, 5 * 33 - 1, 3)
    row = CORRUPTION_NAMES.index("fog")
    shown = sheet[row * 33 : row * 33 + 32, 4 * 33 :].transpose(2, 0, 1)
    assert np.array_equal(shown, task.shifts["fog-5"].inputs[0])
    assert corruption_sheet(find_task("cifar10"), LoadOptions(root, shifts="none")) is None
    whole = np.concatenate([images(ROWS, number) for number in range(5)])
    assert {row.tobytes() for row in whole} == {
        row.tobytes() for part in (task.fit.train, task.fit.val, task.fit.cal) for row in part.inputs
    }
    again = find_task("cifar10").load("pixels", LoadOptions(root, shifts="none"))
    assert again.fit.fingerprint == task.fit.fingerprint
    assert not again.shifts


def test_cifar100_from_the_archives(served: FileServer, root: Path) -> None:
    get_data("cifar100", root)
    task = find_task("cifar100").load("pixels", LoadOptions(root))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [450, 25, 25, 100]
    assert list(task.ood) == ["cifar10", "svhn", "noise"]
    assert task.ood["cifar10"].near
    assert task.fit.normalise == ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    assert (task.fit.augment, task.fit.paper_epochs, len(task.shifts)) == (False, 100, 0)
    assert task.class_names[7] == "fine_07"
    only = find_task("cifar100").load("pixels", LoadOptions(root, ood=("svhn",)))
    assert list(only.ood) == ["svhn"]
    with pytest.raises(InputError, match="ood names 'mnist', which this task does not have"):
        find_task("cifar100").load("pixels", LoadOptions(root, ood=("mnist",)))


@pytest.mark.parametrize("unpacked", [False, True])
def test_tinyimagenet_reads_the_zip_in_place_or_unpacked(served: FileServer, root: Path, unpacked: bool) -> None:
    get_data("tinyimagenet", root)
    if unpacked:
        import zipfile

        with zipfile.ZipFile(root / "tiny-imagenet-200.zip") as archive:
            archive.extractall(root)
        (root / "tiny-imagenet-200.zip").unlink()
    raw = pixel_sets("tinyimagenet", LoadOptions(root))
    assert list(raw.inputs()) == ["train", "test", "ood:classes_100_199"]
    train, test = raw.parts["train"], raw.parts["test"]
    assert train.inputs.shape == (500, 3, 64, 64)
    assert np.array_equal(test.inputs[:, 0, 5, 5], test.labels)
    assert np.array_equal(train.inputs[:, 0, 5, 5], train.labels)
    assert np.bincount(test.labels).tolist() == [2] * 100
    ood_rows = raw.ood[OOD_CLASSES].inputs[:, 0, 5, 5]
    assert sorted(ood_rows.tolist()) == sorted(list(range(100, 200)) * 2)
    store_features("tinyimagenet", {name: rows[:, 0, 0, :4] for name, rows in raw.inputs().items()}, LoadOptions(root))
    task = find_task("tinyimagenet").load("features", LoadOptions(root))
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [400, 50, 50, 200]
    assert np.array_equal(task.fit.cal.inputs[:, 0], task.fit.cal.labels)
    assert task.ood[OOD_CLASSES].near
    with pytest.raises(InputError, match="this task comes as features"):
        find_task("tinyimagenet").load("pixels", LoadOptions(root))


def test_what_is_there_is_not_fetched_again_and_a_hand_placed_archive_is_used(served: FileServer, root: Path) -> None:
    get_data("svhn", root)
    get_data("svhn", root)
    assert len(served.ranges_asked("/svhn")) == 1
    (root / "cifar-100-binary.tar.gz").write_bytes(served.routes["/cifar-100"].body)
    assert {holding.name: holding.state for holding in list_data(root)}["cifar-100"] == "archive only"
    get_data("cifar-100", root, keep_archives=True)
    assert served.ranges_asked("/cifar-100") == []
    assert (root / "cifar-100-binary.tar.gz").is_file()
    get_data("cifar-100", root, again=True)
    assert not (root / "cifar-100-binary.tar.gz").exists()


def test_two_may_get_the_same_at_once(served: FileServer, root: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(lambda _: get_data("cifar-10", root), range(4)))
    assert all(place == places[0] for place in places)
    assert len(list((root / "cifar-10-batches-bin").glob("*.bin"))) == 6


def test_a_broken_download_goes_on(served: FileServer, root: Path) -> None:
    body = served.routes["/svhn"].body
    served.routes["/svhn"] = Route(body, cut_after=1000, cuts=99, ranges=False)
    served.routes["/svhn"].cuts = 99
    (root / "test_32x32.mat.part").write_bytes(body[:500])
    assert {holding.name: holding.state for holding in list_data(root)}["svhn"] == "partial download"
    served.routes["/svhn"] = Route(body)
    get_data("svhn", root)
    assert served.ranges_asked("/svhn") == ["bytes=500-"]


def test_a_tampered_archive_is_refused(served: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = tar({"cifar-10-batches-bin/../../evil": b"1"}, "gz")
    serve_archive(served, monkeypatch, "cifar-10", evil)
    with pytest.raises(InputError, match="would leave the folder"):
        get_data("cifar-10", root)
    assert not (root / "cifar-10-batches-bin").exists()
    served.routes["/svhn"].body = b"x" * len(served.routes["/svhn"].body)
    with pytest.raises(MissingDataError, match=r"test_32x32.mat could not be downloaded .*HTTP 404.*its md5 is"):
        get_data("svhn", root)


def test_verify_finds_what_changed(served: FileServer, root: Path) -> None:
    assert verify_data(root) == []
    get_data("cifar10", root)
    verdicts = {verdict.name: verdict for verdict in verify_data(root)}
    assert set(verdicts) == {"cifar-10", "cifar-100", "svhn"}
    assert all(not verdict.problems for verdict in verdicts.values())
    path = root / "cifar-10-batches-bin" / "test_batch.bin"
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(bytes(content))
    (root / "cifar-100-binary" / "train.bin").unlink()
    (root / "test_32x32.mat").write_bytes(b"x")
    problems = {verdict.name: " ".join(verdict.problems) for verdict in verify_data(root)}
    assert "test_batch.bin has changed" in problems["cifar-10"]
    assert "train.bin is missing" in problems["cifar-100"]
    assert "has 1 bytes" in problems["svhn"]
    assert [verdict.name for verdict in verify_data(root, ["svhn"])] == ["svhn"]
    with pytest.raises(MissingDataError, match="tiny-imagenet is not under"):
        verify_data(root, ["tiny-imagenet"])
    with pytest.raises(InputError, match=r"train.bin is missing; get the archive again: volta data get cifar-100"):
        find_task("cifar100").load("pixels", LoadOptions(root))


def test_a_folder_that_cannot_be_written(served: FileServer, root: Path) -> None:
    (root / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be written"):
        get_data("svhn", root / "file" / "data")


def test_names_that_can_be_got() -> None:
    assert archive_names("cifar10") == ("cifar-10", "cifar-100", "svhn")
    assert archive_names("cifar-10-c") == ("cifar-10-c",)
    with pytest.raises(InputError, match=r"nothing to get under the name 'mnist'; the names are: cifar10, "):
        archive_names("mnist")
    for archive in ARCHIVES.values():
        assert all(url.startswith(("http://", "https://")) for url in archive.urls)
        assert len(archive.checksum.digest) == {"md5": 32, "sha256": 64}[archive.checksum.algorithm]
        assert archive.licence
    assert ARCHIVES["resnet18"].file == f"resnet18-{ARCHIVES['resnet18'].checksum.digest[:8]}.pth"


@pytest.mark.parametrize(
    ("name", "kind"), [(task.name, kind) for task in TASKS.values() if task.archives for kind in task.kinds]
)
def test_missing_data_is_said_in_two_lines_with_the_commands(root: Path, name: str, kind: str) -> None:
    with pytest.raises(MissingDataError) as caught:
        find_task(name).load(kind, LoadOptions(root))
    first, second = str(caught.value).split("\n")
    assert name in first
    assert str(root) in first
    assert "missing" in first
    assert f"volta data get {name}" in second
    assert "--data DIR" in second
    assert "VOLTA_DATA" in second
    assert (f"volta extract {name}" in second) == (kind == "features")


def test_features_are_asked_of_the_extractor_when_the_images_are_there(served: FileServer, root: Path) -> None:
    get_data("tinyimagenet", root)
    with pytest.raises(
        MissingDataError, match=r"get them with: volta data get resnet18 .* && volta extract tinyimagenet"
    ):
        find_task("tinyimagenet").load("features", LoadOptions(root))


def test_official_shifts_must_be_there(served: FileServer, root: Path) -> None:
    get_data("cifar10", root)
    with pytest.raises(MissingDataError, match=r"missing CIFAR-10-C[^\n]*\n.*volta data get cifar-10-c"):
        find_task("cifar10").load("pixels", LoadOptions(root, shifts="official"))


def test_extracted_features_are_split_like_the_pixels(served: FileServer, root: Path) -> None:
    get_data("cifar10", root)
    options = LoadOptions(root, shifts="none")
    sets = pixel_sets("cifar10", options).inputs()
    assert list(sets) == ["train", "test", "ood:cifar100", "ood:svhn", "ood:noise"]
    assert list(pixel_sets("cifar10", LoadOptions(root)).inputs())[:5] == list(sets)
    features = {name: rows.reshape(len(rows), -1)[:, :7].astype(np.float16) for name, rows in sets.items()}
    store_features("cifar10", features, options)
    pixels = find_task("cifar10").load("pixels", options)
    task = find_task("cifar10").load("features", options)
    for one, other in ((pixels.fit.train, task.fit.train), (pixels.fit.cal, task.fit.cal), (pixels.test, task.test)):
        assert np.array_equal(one.labels, other.labels)
        assert np.array_equal(one.inputs.reshape(len(one), -1)[:, :7], other.inputs)
    assert task.fit.train.inputs.dtype == np.float32
    assert (task.fit.normalise, task.fit.augment) == (None, False)
    assert [part.near for part in task.ood.values()] == [True, False, False]
    with pytest.raises(InputError, match="features of test have 3 rows for 100 images"):
        store_features("cifar10", features | {"test": features["test"][:3]}, options)
    with pytest.raises(InputError, match="which cifar10 does not have"):
        store_features("cifar10", features | {"more": features["test"]}, options)
    with pytest.raises(InputError, match="lacks the set 'train'"):
        store_features("cifar10", {"test": features["test"]}, options)


def test_tasks_travel_between_processes(served: FileServer, root: Path) -> None:
    get_data("cifar10", root)
    get_data("cifar-10-c", root)
    task = find_task("cifar10").load("pixels", LoadOptions(root))
    copy = pickle.loads(pickle.dumps(task))
    assert copy.fingerprint == task.fingerprint
    assert np.array_equal(copy.shifts["snow-1"].inputs, task.shifts["snow-1"].inputs)


def test_noise_is_uniform_over_the_levels_and_always_the_same() -> None:
    noise = uniform_noise_images("cifar10", n_images=500)
    assert noise.shape == (500, 3, 32, 32)
    counts = np.bincount(noise.reshape(-1), minlength=256)
    expected = noise.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 350
    assert np.array_equal(noise[:3], uniform_noise_images("cifar10", n_images=500)[:3])
    assert not np.array_equal(noise[:3], uniform_noise_images("cifar100", n_images=3))


def test_the_root_is_the_argument_then_the_variable_then_the_cache(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volta.data import cache_folder, data_root

    assert data_root().name == "volta"
    monkeypatch.setenv("VOLTA_DATA", str(root))
    assert data_root() == root
    assert data_root(tmp_path) == tmp_path
    assert cache_folder() == tmp_path / "cache"
    with pytest.raises(InputError, match=r"severities is \(0,\)"):
        LoadOptions(severities=(0,))
    with pytest.raises(InputError, match="shifts is 'some'"):
        LoadOptions(shifts="some")


def test_the_documentation_names_every_archive() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, archive in ARCHIVES.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert archive.file in row
        assert f"{archive.size:,}" in row
        assert f"{archive.checksum.algorithm} {archive.checksum.digest}" in row
