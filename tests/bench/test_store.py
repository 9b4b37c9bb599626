from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from tests.records import FINGERPRINTS, make_manifest, make_record
from volta.bench.records import MANIFEST_FILE, Cell, make_cell
from volta.bench.store import PREDICTIONS, RECORD, RunStore, pack_arrays
from volta.core.checksummed import encode_object
from volta.core.errors import StoreError
from volta.core.files import hash_file
from volta.networks.recipe import Budget

CELL = Cell("digits", "fair", "volta", 1, "k" * 64)
ARRAYS = {
    "test/probs": np.full((2, 2), 0.5),
    "test/labels": np.arange(2, dtype=np.int32),
    "test/uncertainty": np.full(2, 0.5),
    "ood:noise/ood_score": np.arange(3.0),
}


@pytest.fixture
def store(tmp_path):
    store = RunStore(tmp_path / "run")
    store.create()
    return store


def test_a_cell_comes_back_as_it_went_in(store):
    assert not store.is_done(CELL)
    stored = store.write_cell(make_record(CELL), ARRAYS)
    assert store.is_done(CELL)
    assert store.read_record(CELL) == stored == make_record(CELL, predictions=stored.predictions)
    assert stored.predictions == hash_file(store.folder("cells") / CELL.folder / PREDICTIONS)
    arrays = store.read_arrays(CELL)
    assert {name: array.tolist() for name, array in arrays.items()} == {k: v.tolist() for k, v in ARRAYS.items()}
    assert list(store.read_arrays(CELL, names=["test/probs", "absent"])) == ["test/probs"]
    assert store.set_aside_damaged([CELL])[0] == []


def test_equal_arrays_pack_to_equal_bytes():
    assert pack_arrays(ARRAYS) == pack_arrays({name: array.copy() for name, array in ARRAYS.items()})


@pytest.mark.parametrize(
    "damage",
    ["truncated npz", "flipped bit", "garbage json", "other json", "changed number", "lost npz", "lost record"],
)
def test_damage_is_noticed_and_set_aside(store, damage):
    store.write_cell(make_record(CELL), ARRAYS)
    folder = store.folder("cells") / CELL.folder
    npz, record = folder / PREDICTIONS, folder / RECORD
    if damage == "truncated npz":
        npz.write_bytes(npz.read_bytes()[:-20])
    elif damage == "flipped bit":
        data = bytearray(npz.read_bytes())
        data[150] ^= 1
        npz.write_bytes(data)
    elif damage == "garbage json":
        record.write_text("{ not json")
    elif damage == "other json":
        record.write_text("[]")
    elif damage == "lost record":
        record.unlink()
    elif damage == "changed number":
        record.write_text(record.read_text().replace("0.5", "0.9"))
    else:
        npz.unlink()
    assert store.set_aside_damaged([CELL]) == ([CELL], [])
    assert not store.is_done(CELL)
    assert len(list(store.folder("damaged").glob("*/*/*"))) >= 1


def test_a_failed_write_leaves_nothing(store, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("volta.bench.store.write_object", full)
    with pytest.raises(OSError, match="No space left"):
        store.write_cell(make_record(CELL), ARRAYS)
    assert list(store.folder("cells").iterdir()) == []


def test_half_written_cells_of_a_killed_process_are_swept(store):
    leftover = store.folder("cells") / f".part-{CELL.folder}-abc"
    leftover.mkdir()
    (leftover / PREDICTIONS).write_bytes(b"half")
    assert not store.is_done(CELL)
    store.write_cell(make_record(CELL), ARRAYS)
    assert [path.name for path in store.folder("cells").iterdir()] == [CELL.folder]


def test_locks_are_exclusive_and_free_again(store):
    lock = store.try_lock(CELL)
    assert lock is not None
    assert RunStore(store.root).try_lock(CELL) is None
    lock.release()
    again = store.try_lock(CELL)
    assert again is not None
    again.release()


def test_failures_are_kept_apart_and_forgotten_on_success(store):
    path = store.write_failure(CELL, "Traceback ...")
    assert store.failure(CELL) == path
    assert not store.is_done(CELL)
    store.write_cell(make_record(CELL), ARRAYS)
    assert store.failure(CELL) is None
    assert not path.exists()


def test_folders_that_are_no_runs_are_refused_untouched(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"is not empty and has no manifest.json"):
        RunStore(tmp_path).check_usable()
    with pytest.raises(StoreError, match="is a file; name a folder"):
        RunStore(tmp_path / "notes.txt").check_usable()
    with pytest.raises(StoreError, match="is not a run folder"):
        RunStore(tmp_path).read_manifest()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_a_run_that_was_killed_before_its_manifest_is_one(tmp_path):
    store = RunStore(tmp_path / "run")
    for made in ("", "locks", "cells", ".manifest.json.x.part"):
        path = store.root / made
        path.write_text("half") if made.endswith(".part") else path.mkdir()
        store.check_usable()
    (store.root / "notes.txt").write_text("mine")
    store.check_usable()
    (store.root / "locks").rmdir()
    with pytest.raises(StoreError, match=r"is not empty and has no manifest.json"):
        store.check_usable()


def test_a_run_without_its_manifest_is_taken_up_again(store):
    """What a damaged manifest's error says to do."""
    store.write_cell(make_record(CELL), ARRAYS)
    (store.root / "report.html").write_text("made of it")
    (store.root / "manifest.json").unlink(missing_ok=True)
    store.check_usable()


def test_manifests_that_cannot_be_read_say_what_to_do(store):
    path = store.root / "manifest.json"
    path.write_bytes(encode_object(replace(MANIFEST_FILE, version=999), {}))
    with pytest.raises(StoreError, match=r"newer version of volta \(format 999"):
        store.read_manifest()
    path.write_text('{"schema": 1}')
    with pytest.raises(StoreError, match=r"is damaged, or an older version .* finished cells are safe"):
        store.read_manifest()
    store.write_manifest(make_manifest([CELL]))
    assert store.read_manifest() == make_manifest([CELL])


def test_keys_change_with_everything_that_decides_a_result():
    settings = {
        "data_hash": "d",
        "parameters": {"k": 1},
        "fingerprints": FINGERPRINTS,
        "budget": Budget(),
        "threads": 1,
        "device": "cpu",
    }
    base = make_cell("digits", "fair", "knn", 1, **settings)
    assert base == make_cell("digits", "fair", "knn", 1, **settings)
    keys = {base.key}
    for name, value in {
        "data_hash": "e",
        "parameters": {"k": 2},
        "fingerprints": replace(FINGERPRINTS, method="other"),
        "budget": Budget(max_epochs=1),
        "threads": 2,
        "device": "cuda",
    }.items():
        keys.add(make_cell("digits", "fair", "knn", 1, **{**settings, name: value}).key)
    keys.add(
        make_cell(
            "digits", "fair", "knn", 1, **{**settings, "fingerprints": replace(FINGERPRINTS, training="other")}
        ).key
    )
    for changed in (("cifar10", "fair", "knn", 1), ("digits", "paper", "knn", 1), ("digits", "fair", "vim", 1)):
        keys.add(make_cell(*changed, **settings).key)
    keys.add(make_cell("digits", "fair", "knn", 2, **settings).key)
    assert len(keys) == 12
    assert (
        make_cell("digits", "fair", "knn", 1, **{**settings, "fingerprints": replace(FINGERPRINTS, scoring="other")})
        == base
    )
    assert json.dumps(asdict(base))
