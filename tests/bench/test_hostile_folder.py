"""A run folder that somebody else made, or that was altered: nothing outside it is touched, nothing false is believed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.bench.running import edit_manifest
from tests.stats.builders import make_store
from volta.bench.store import PREDICTIONS, RECORD, RunStore, recompute
from volta.cli.main import app
from volta.core.errors import StoreError


@pytest.fixture
def store(tmp_path):
    store = make_store(tmp_path / "run", {"volta": 3.0, "energy": 1.0}, seeds=(1, 2))
    recompute(store)
    return store


def command(*arguments):
    """Run a command in this process; return the error it ends with, which the real one prints in a line."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments]).exception


def everything(folder):
    return {path: (path.lstat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in folder.rglob("*")}


@pytest.mark.parametrize("options", [[], ["--recompute"], ["--format", "csv"]])
def test_predictions_swapped_between_cells_are_noticed_and_never_scored_again(store, options):
    first, second, *_ = (store.cell_file(cell, PREDICTIONS) for cell in store.cells())
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    before = everything(store.folder("cells"))
    error = command("report", store.root, *options)
    assert isinstance(error, StoreError)
    assert "predictions.npz is not what its record was made of" in str(error)
    assert "run volta bench once more" in str(error)
    assert everything(store.folder("cells")) == before
    assert len(store.set_aside_damaged(store.cells())[0]) == 2


def test_a_cell_moved_to_the_place_of_another_is_noticed(store):
    first, second, *_ = store.cells()
    shutil.rmtree(store.folder("cells") / first.folder)
    shutil.copytree(store.folder("cells") / second.folder, store.folder("cells") / first.folder)
    assert "is the record of another cell" in str(command("report", store.root))


@pytest.mark.parametrize("field", ["task", "protocol", "key"])
def test_names_in_a_manifest_do_not_lead_out_of_the_folder(store, tmp_path, field):
    edit_manifest(store.root, lambda manifest: manifest["cells"][0].update({field: "../../x"}))
    before = everything(tmp_path)
    for name in ("status", "report"):
        error = command(name, store.root)
        assert isinstance(error, StoreError)
        assert f"{field} is '../../x'; use up to 200 letters, digits and - _ ." in str(error)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["cells", "locks", "figures", "manifest.json", "cells/*", f"cells/*/{RECORD}"])
@pytest.mark.parametrize("arguments", [["report", "--recompute"], ["status"]])
@pytest.mark.usefixtures("quick_figures")
def test_nothing_is_read_or_written_through_links(store, tmp_path, name, arguments):
    outside = tmp_path / "outside"
    outside.mkdir()
    (store.root / "figures").mkdir()
    for number, path in enumerate(sorted(store.root.glob(name))):
        path.rename(outside / str(number))
        path.symlink_to(outside / str(number))
    before = everything(outside)
    error = command(arguments[0], store.root, *arguments[1:])
    if (name, arguments) == ("figures", ["status"]):
        assert error is None
    elif (name, arguments) == ("locks", ["status"]):
        # Cells that are done need no lock.
        assert error is None
    else:
        assert isinstance(error, StoreError) or name == "locks", error
        assert error is None or "is a symbolic link" in str(error)
    assert everything(outside) == before


def test_a_linked_lock_or_progress_note_does_not_reach_its_target(store, tmp_path):
    target = tmp_path / "precious.txt"
    target.write_text("mine")
    cell = next(store.cells())
    for ending in ("lock", "progress"):
        (store.folder("locks") / f"{cell.folder}.{ending}").unlink(missing_ok=True)
        (store.folder("locks") / f"{cell.folder}.{ending}").symlink_to(target)
    with pytest.raises(StoreError, match="is a symbolic link"):
        store.write_progress(cell, 1, 2)
    with pytest.raises(StoreError, match="is a symbolic link"):
        store.try_lock(cell)
    assert target.read_text() == "mine"


def test_progress_comes_back_and_a_torn_note_is_none(store):
    cell = next(store.cells())
    assert store.read_progress(cell) is None
    store.write_progress(cell, 3, 10)
    assert store.read_progress(cell) == (3, 10)
    path = store.folder("locks") / f"{cell.folder}.progress"
    path.write_bytes(path.read_bytes()[:-5])
    assert store.read_progress(cell) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test/probs": None}, "test has no probs"),
        ({"test/labels": np.zeros(3, np.int32)}, "different numbers of rows"),
        ({"test/probs": np.zeros(200)}, r"test/probs has shape \(200,\)"),
        ({"elsewhere/probs": np.zeros((200, 4))}, "'elsewhere' names no set"),
    ],
)
def test_predictions_that_no_cell_has_are_refused_in_a_sentence(store, change, said):
    from tests.records import store_again

    record = store.records()[0]
    arrays = {name: values for name, values in (store.read_arrays(record.cell) | change).items() if values is not None}
    store_again(store, record, arrays)
    with pytest.raises(StoreError, match=rf"predictions.npz is damaged \(.*{said}"):
        store.read_arrays(record.cell)


def test_a_run_folder_may_be_a_link_that_the_user_names(store, tmp_path):
    (tmp_path / "latest").symlink_to(store.root)
    assert len(RunStore(tmp_path / "latest").records()) == 4
