"""Own predictions in run folders: folds by seed, names that stay inside, and nothing written before all is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import volta
from tests.predictions.made import cells, labels_of, probs_of, write_csv
from volta.bench.records import Cell
from volta.bench.store import RunStore
from volta.cli.main import app
from volta.core.errors import InputError
from volta.predictions import matching
from volta.predictions.calibrate import calibrate_file
from volta.predictions.external_model import ExternalModel, RowSet
from volta.predictions.matching import Destination, Reference, add_predictions, find_destination, match_rows
from volta.predictions.prediction_files import read_models

LABELS = labels_of()
PROBS = probs_of(LABELS, 2.0)


def test_seeds_that_are_folds_come_one_after_the_other(tmp_path: Path) -> None:
    other = labels_of(40)[::-1]
    volta.evaluate(PROBS, LABELS).save(tmp_path / "run", "a", seed=0)
    volta.evaluate(probs_of(other, 2.0), other).save(tmp_path / "run", "a", seed=1)
    volta.evaluate(probs_of(other, 1.0), other).save(tmp_path / "run", "b", seed=1)
    with pytest.raises(InputError, match=r"has 40 rows but a in .* has 60"):
        volta.evaluate(probs_of(other, 1.0), other).save(tmp_path / "run", "b", seed=0)


def test_rows_of_another_seed_with_the_same_ids_come_in_the_same_order(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(60)
    for seed, rows in enumerate((np.arange(60), order)):
        found = volta.evaluate(PROBS[rows], LABELS[rows])
        model = replace(found.model, sets={"test": replace(found.model.sets["test"], ids=rows)})
        replace(found, model=model).save(tmp_path / "run", "a", seed=seed)
    first, second = (RunStore(tmp_path / "run").read_arrays(cell) for cell in RunStore(tmp_path / "run").cells())
    assert np.array_equal(first["test/labels"], second["test/labels"])


def test_ood_rows_may_be_others_for_every_seed() -> None:
    test = RowSet("here", probs=PROBS, labels=LABELS)
    sets = {seed: {"test": test, "ood:x": RowSet("here", ood_score=np.zeros(n))} for seed, n in ((1, 10), (2, 20))}
    known = {(seed, "ood:x"): Reference("run", n, numbered=True) for seed, n in ((1, 10), (2, 20))}
    models = [ExternalModel("a", seed, "here", rows) for seed, rows in sets.items()]
    assert [len(model.sets["ood:x"]) for model in match_rows(models, known)] == [10, 20]
    with pytest.raises(InputError, match="has 10 rows but run has 20"):
        match_rows([ExternalModel("a", 2, "here", sets[1])], known)


@pytest.mark.parametrize(
    ("method", "seed", "said"),
    [
        ("../x", 0, "cannot be a folder's name"),
        ("a", "x", "seed is 'x'"),
        ("a", -1, "seed is -1"),
        (3, 0, "method is 3"),
    ],
)
def test_names_are_checked_before_anything_is_stored(tmp_path: Path, method: str, seed: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        volta.evaluate(PROBS, LABELS).save(tmp_path / "run", method, seed=seed)
    assert not (tmp_path / "run").exists()


def test_a_task_is_a_plain_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--task is '\.\./x'"):
        find_destination(RunStore(tmp_path / "run"), "../x", None)
    for names in (
        ("../x", "own", "0"),
        ("x", "../own", "0"),
        ("x", "own", "../0"),
        ("..", "own", "0"),
        ("", "own", "0"),
    ):
        with pytest.raises(InputError, match=r"use up to 200 letters, digits and - _ \."):
            Cell(names[0], names[1], "a", 0, names[2])
    assert Cell("x", "own", "../a b", 0, "0" * 20).folder == "x--own--..-a-b--0--000000000000"


def test_a_reference_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine-1.npz", probs=PROBS, labels=LABELS)
    arguments = ["evaluate", str(tmp_path / "mine-1.npz"), "--out", str(tmp_path / "run"), "--reference", "yours"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert "--reference is 'yours'; pass best, all, or a method of this run: mine" in str(result.exception)
    assert not (tmp_path / "run").exists()
    assert CliRunner().invoke(app, [*arguments[:-2], "--no-report"]).exit_code == 0
    result = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--reference", "yours"])
    assert "--reference is 'yours'; pass best, all, or a method of this run: mine" in str(result.exception)


def calibrated(tmp_path: Path, **arrays: np.ndarray) -> tuple[str, dict[str, np.ndarray]]:
    np.savez(tmp_path / "fit.npz", probs=PROBS, labels=LABELS)
    np.savez(tmp_path / "new.npz", **arrays)
    words = calibrate_file(tmp_path / "new.npz", tmp_path / "fit.npz", tmp_path / "out.npz", "temperature")
    with np.load(tmp_path / "out.npz") as found:
        return words, dict(found)


def test_rows_to_calibrate_need_no_labels_and_keep_no_scores_of_the_model_before(tmp_path: Path) -> None:
    words, found = calibrated(tmp_path, probs=PROBS, uncertainty=1 - PROBS.max(axis=1))
    assert set(found) == {"test/probs"}
    assert "uncertainty left out: of the model before" in words


def test_scores_stay_where_a_set_has_them_alone(tmp_path: Path) -> None:
    words, found = calibrated(tmp_path, probs=PROBS, ood_score=np.zeros(60), **{"ood:x": np.ones(5)})
    assert set(found) == {"test/probs", "test/ood_score", "ood:x/ood_score"}
    assert "ood_score kept as given" in words


def test_a_calibrator_that_is_not_there_is_nearly_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean temperature"):
        calibrate_file(tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "c.npz", "temprature")


def test_a_table_to_calibrate_needs_no_label_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "fit.npz", probs=PROBS, labels=LABELS)
    new = write_csv(tmp_path / "new.csv", "p_0,p_1,p_2", [cells(row) for row in PROBS])
    calibrate_file(new, tmp_path / "fit.npz", tmp_path / "out.csv", "temperature")
    (model,) = read_models([tmp_path / "out.csv"], labelled=False)
    assert model.sets["test"].labels is None


def test_names_of_classes_stay_and_other_columns_are_named(tmp_path: Path) -> None:
    names = np.array(["ash", "elm", "oak"])
    np.savez(tmp_path / "fit.npz", probs=PROBS, labels=LABELS)
    rows = [f"good,{cells(row)},{name}" for row, name in zip(PROBS, names[LABELS], strict=True)]
    path = write_csv(tmp_path / "net.csv", "remark,p_ash,p_elm,p_oak,label", rows)
    words = calibrate_file(path, tmp_path / "fit.npz", tmp_path / "out.csv", "temperature")
    assert "not used: remark (left out)" in words
    header, first = (tmp_path / "out.csv").read_text().splitlines()[:2]
    assert header.replace('"', "") == "method,seed,set,label,p_ash,p_elm,p_oak"
    assert first.replace('"', "").startswith(f"net,0,test,{names[LABELS[0]]},")
    (model,) = read_models([tmp_path / "out.csv"])
    assert (model.sets["test"].labels == LABELS).all()
    words, found = calibrated(tmp_path, probs=PROBS, labels=names[LABELS], classes=names)
    assert found["classes"].tolist() == names.tolist()
    assert (found["test/labels"] == names[LABELS]).all()
    (model,) = read_models([tmp_path / "out.npz"])
    assert (model.sets["test"].labels == LABELS).all()
    (tmp_path / "out.npz").unlink()
    with pytest.raises(InputError, match="has 3 classes but classes names 2; name each"):
        calibrated(tmp_path, probs=PROBS, classes=names[:2])


def test_two_evaluations_at_once_are_both_in_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(tmp_path / "run")
    store_model = matching._store_model

    def add(name: str) -> None:
        model = ExternalModel(name, 0, "here", {"test": RowSet("here", probs=PROBS, labels=LABELS)})
        add_predictions(store, [model], Destination("mine", "external"))

    def slow(store: RunStore, model: ExternalModel, *rest: object) -> object:
        if model.method == "slow":
            add("quick")
        return store_model(store, model, *rest)

    add("first")
    monkeypatch.setattr(matching, "_store_model", slow)
    add("slow")
    assert [cell.method for cell in store.read_manifest().cells] == ["first", "quick", "slow"]
    assert store.read_manifest().methods == ("first", "quick", "slow")
    assert store.read_manifest().config is None


def store(folder: Path, method: str, *, near: tuple[str, ...] = (), **sets: np.ndarray) -> None:
    """Evaluate a model with test rows and the named OOD scores."""
    rows = {"test": RowSet("here", probs=PROBS, labels=LABELS, ood_score=1 - PROBS.max(axis=1))}
    rows |= {f"ood:{name}": RowSet("here", ood_score=scores) for name, scores in sets.items()}
    add_predictions(
        RunStore(folder), [ExternalModel(method, 0, "here", rows)], Destination("mine", "external"), near=near
    )


def test_sets_that_the_first_method_lacks_are_checked_too(tmp_path: Path) -> None:
    store(tmp_path / "run", "first")
    store(tmp_path / "run", "second", x=np.arange(100.0))
    store(tmp_path / "run", "third", x=np.arange(100.0))
    with pytest.raises(InputError, match=r"has 37 rows but second in .* has 100"):
        store(tmp_path / "run", "fourth", x=np.arange(37.0))


def near_of(folder: Path) -> dict[str, tuple[list[str], float | None]]:
    """Return each method's near sets and its mean AUROC over them."""
    found = RunStore(folder).records()
    return {
        one.cell.method: (
            sorted(each.name for each in one.near_ood),
            next((values["auroc"] for key, values in one.metrics.items() if str(key) == "near:"), None),
        )
        for one in found
    }


def test_what_is_near_is_near_for_every_method_of_a_table(tmp_path: Path) -> None:
    scores = {"x": np.full(50, 0.9), "y": np.full(50, 0.1)}
    for method in ("a", "b"):
        store(tmp_path / "run", method, **scores)
    assert near_of(tmp_path / "run") == {"a": ([], None), "b": ([], None)}
    store(tmp_path / "run", "b", near=("x",), **scores)
    once = near_of(tmp_path / "run")
    assert once["a"] == once["b"]
    assert once["a"][0] == ["x"]
    store(tmp_path / "run", "c", near=("y",), **scores)
    twice = near_of(tmp_path / "run")
    assert twice["a"] == twice["b"] == twice["c"]
    assert twice["a"][0] == ["x", "y"]
    assert twice["a"][1] != once["a"][1]


def test_what_a_benchmark_counts_as_far_stays_far(tmp_path: Path) -> None:
    volta.benchmark(
        "digits", ["softmax"], seeds=(1,), max_epochs=1, out=tmp_path / "run", executor="local", progress=False
    )
    (record,) = RunStore(tmp_path / "run").records()
    arrays = RunStore(tmp_path / "run").read_arrays(record.cell)
    far = next(name for name in record.rows if name.startswith("ood:") and name not in map(str, record.near_ood))
    rows = {
        "test": RowSet("here", probs=arrays["test/probs"], labels=arrays["test/labels"].astype(np.int64)),
        far: RowSet("here", ood_score=arrays[f"{far}/ood_score"]),
    }
    model = ExternalModel("mine", 1, "here", rows)
    with pytest.raises(InputError, match=r"--near is .*, which .* counts as far; leave it out"):
        add_predictions(
            RunStore(tmp_path / "run"), [model], Destination("digits", "fair"), near=(far.removeprefix("ood:"),)
        )
