"""``volta evaluate`` and ``volta calibrate``: run folders of external predictions, alone and beside benchmarked methods."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.bench.running import volta
from tests.predictions.made import cells, labels_of, probs_of, write_csv
from tests.report.synthetic import Plan, write_run
from volta.bench.store import RunStore
from volta.cli.main import app
from volta.core.errors import InputError, VoltaError
from volta.methods.calibrators import CALIBRATORS

LABELS = labels_of(200)


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save(path: Path, skill: float, seed: int = 0, **more: np.ndarray) -> Path:
    np.savez(path, probs=probs_of(LABELS, skill, seed), labels=LABELS, **more)
    return path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Two methods with three seeds in a long CSV, rows in another order for each, with an OOD set."""
    folder = tmp_path_factory.mktemp("evaluated")
    lines = []
    for method, skill in (("sharp", 3.0), ("blunt", 0.8)):
        for seed in (1, 2, 3):
            probs = probs_of(LABELS, skill, seed)
            order = np.random.default_rng([seed, len(lines)]).permutation(len(LABELS))
            lines += [f"{method},{seed},test,r{row},{LABELS[row]},{cells(probs[row])}" for row in order]
            outside = probs_of(LABELS[:50], 0.0, seed + 9)
            lines += [f"{method},{seed},ood:noise,o{row},,{cells(values)}" for row, values in enumerate(outside)]
    path = write_csv(folder / "mine.csv", "method,seed,set,id,label,p_0,p_1,p_2", lines)
    said = invoke("evaluate", path, "--out", folder / "run", "--resamples", 100)
    return folder / "run", said


def test_the_result_is_an_ordinary_run_folder(evaluated):
    run, said = evaluated
    assert said.rstrip().endswith(f"report: {run / 'report.html'}")
    assert said.index("sharp") < said.index("blunt")
    assert said.count("(expected 0.0") == 2
    files = {path.name for path in run.iterdir()}
    assert {
        "manifest.json",
        "cells",
        "results.csv",
        "summary.csv",
        "tests.csv",
        "pairs.csv",
        "leaderboard.csv",
    } <= files
    assert not {"claims.csv", "paper.csv"} & files
    assert (run / "figures" / "reliability.png").is_file()
    assert "6 done" in invoke("status", run)
    assert "sharp" in invoke("report", run, "--format", "md")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "external predictions" in page
    assert "VOLTA itself is not in this run" not in page


def test_rows_are_matched_by_id_and_metrics_are_those_of_the_arrays(evaluated):
    run, _ = evaluated
    store = RunStore(run)
    orders = set()
    for record in store.records():
        arrays = store.read_arrays(record.cell)
        orders.add(arrays["test/id"].tobytes())
        rows = np.array([int(name[1:]) for name in arrays["test/id"]])
        skill = 3.0 if record.cell.method == "sharp" else 0.8
        assert np.allclose(arrays["test/probs"], probs_of(LABELS, skill, record.cell.seed)[rows])
        assert np.array_equal(arrays["test/labels"], LABELS[rows])
        assert record.origin == "external"
    assert len(orders) == 1


def test_methods_are_tested_and_grouped(evaluated):
    run, _ = evaluated
    tests = {(row["reference"], row["metric"], row["set"]): row for row in rows_of(run / "tests.csv")}
    row = tests["sharp", "accuracy", "test"]
    assert (row["method"], row["paired"], row["verdict"], row["n"]) == ("blunt", "true", "better", "3")
    best = {(row["method"], row["metric"]): row["in_confidence_set"] for row in rows_of(run / "leaderboard.csv")}
    assert (best["sharp", "nll"], best["blunt", "nll"]) == ("true", "false")


def test_a_run_is_compared_with_another(evaluated, tmp_path):
    run, _ = evaluated
    for seed in (1, 2, 3):
        save(tmp_path / f"sharp-{seed}.npz", 1.5, seed, id=np.array([f"r{row}" for row in range(200)]))
    files = [tmp_path / f"sharp-{seed}.npz" for seed in (1, 2, 3)]
    invoke("evaluate", *files, "--out", tmp_path / "run", "--no-report")
    # Same task name, as both folders are called run.
    said = invoke("compare", run, tmp_path / "run", "--metric", "accuracy")
    assert "worse" in said


@pytest.mark.usefixtures("quick_figures")
def test_one_seed_is_tested_over_the_rows(tmp_path):
    files = save(tmp_path / "sharp.npz", 3.0), save(tmp_path / "blunt.npz", 0.8, 1), save(tmp_path / "twin.npz", 3.0)
    invoke("evaluate", *files, "--out", tmp_path / "run", "--resamples", 200)
    best = {(row["method"], row["metric"]): row for row in rows_of(tmp_path / "run/leaderboard.csv")}
    assert best["blunt", "accuracy"]["in_confidence_set"] == "false"
    assert best["sharp", "accuracy"]["in_confidence_set"] == best["twin", "accuracy"]["in_confidence_set"] == "true"
    pairs = {
        (row["reference"], row["method"]): row for row in rows_of(tmp_path / "run/pairs.csv") if row["metric"] == "nll"
    }
    row = pairs["sharp", "blunt"]
    assert float(row["p"]) < 1e-6
    assert float(row["boot_low"]) < float(row["difference"]) < float(row["boot_high"]) < 0
    assert row["note"] == "one seed: about new test rows, for these models as they are"
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "tests are about new test samples, for the models as they are" in page


@pytest.fixture(scope="module")
def benchmarked(tmp_path_factory):
    root = tmp_path_factory.mktemp("benchmarked") / "digits"
    store = write_run(root, Plan(n_rows=90, seeds=(42, 123)))
    arrays = store.read_arrays(store.records()[0].cell)
    return root, arrays["test/labels"].astype(np.int64), len(arrays["ood:near_set/ood_score"])


def own_files(folder: Path, labels: np.ndarray, n_ood: int, **more: np.ndarray) -> list[Path]:
    paths = []
    for seed in (42, 123):
        probs = probs_of(labels, 4.0, seed, 5)
        scores = {"ood_score": 1 - probs.max(axis=1), "ood:near_set": np.linspace(0, 1, n_ood)}
        paths.append(folder / f"mine-{seed}.npz")
        np.savez(paths[-1], probs=probs, labels=labels, **scores, **more)
    return paths


@pytest.mark.usefixtures("quick_figures")
def test_external_predictions_join_benchmarked_methods(benchmarked, tmp_path):
    root, labels, n_ood = benchmarked
    paths = own_files(tmp_path, labels, n_ood)
    invoke("evaluate", *paths, "--out", root, "--resamples", 50)
    store = RunStore(root)
    (mine, _) = [record for record in store.records() if record.cell.method == "mine"]
    assert (mine.cell.task, mine.cell.protocol, mine.origin) == ("digits", "fair", "external")
    assert mine.near_ood == store.records()[0].near_ood
    methods = {row["method"] for row in rows_of(root / "tests.csv")}
    assert "mine" in methods
    families = {row["family"].rpartition(" · ")[2] for row in rows_of(root / "tests.csv") if row["method"] == "mine"}
    assert families == {"external"}
    claims = (root / "claims.csv").read_text(encoding="utf-8")
    assert "mine" not in claims
    # Again: nothing is new, and the method is not taken for a benchmarked one.
    before = sorted(path.name for path in store.folder("cells").iterdir())
    invoke("evaluate", *paths, "--out", root, "--no-report")
    assert sorted(path.name for path in store.folder("cells").iterdir()) == before
    # Ids count as row numbers.
    order = np.random.default_rng(0).permutation(len(labels))
    np.savez(tmp_path / "turned-42.npz", probs=probs_of(labels, 4.0, 1, 5)[order], labels=labels[order], id=order)
    invoke("evaluate", tmp_path / "turned-42.npz", "--out", root, "--no-report")
    (turned,) = [record for record in store.records() if record.cell.method == "turned"]
    assert np.allclose(store.read_arrays(turned.cell)["test/probs"], probs_of(labels, 4.0, 1, 5))


def refuse(words: str, *arguments: object) -> None:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(done.exception, VoltaError)
    with pytest.raises(VoltaError, match=words):
        raise done.exception


def test_other_rows_than_the_runs_are_refused(benchmarked, tmp_path):
    root, labels, n_ood = benchmarked
    manifest = (root / "manifest.json").read_bytes()
    probs = probs_of(labels, 2.0, 0, 5)
    wrong = labels.copy()
    wrong[3] = (wrong[3] + 1) % 5
    cases = {
        "short-42.npz": (
            {"probs": probs[:-1], "labels": labels[:-1]},
            r"short-42\.npz has 89 rows but volta in .* has 90",
        ),
        "wrong-42.npz": ({"probs": probs, "labels": wrong}, r"wrong-42\.npz, row 3: label . where volta in .* has"),
        "ids-42.npz": (
            {"probs": probs, "labels": labels, "id": np.arange(1, 91)},
            "id 90 is not among those of .*numbered from 0",
        ),
        "ood-42.npz": (
            {"probs": probs, "labels": labels, "ood_score": probs[:, 0], "ood:near_set": np.ones(n_ood - 1)},
            "ood:near_set has .* rows but volta in",
        ),
        "volta-42.npz": (
            {"probs": probs, "labels": labels},
            "has a benchmarked method called 'volta'; name yours otherwise",
        ),
    }
    for name, (arrays, words) in cases.items():
        np.savez(tmp_path / name, **arrays)
        refuse(words, "evaluate", tmp_path / name, "--out", root)
    assert (root / "manifest.json").read_bytes() == manifest


def test_rows_of_a_task_are_checked_by_its_seed(tmp_path):
    from volta.data import LoadOptions, find_task

    labels = find_task("digits").load(options=LoadOptions(seed=42)).test.labels
    np.savez(tmp_path / "mine-42.npz", probs=probs_of(labels, 3.0, 0, 8), labels=labels)
    invoke("evaluate", tmp_path / "mine-42.npz", "--out", tmp_path / "run", "--task", "digits", "--no-report")
    (cell,) = RunStore(tmp_path / "run").cells()
    assert (cell.task, cell.protocol) == ("digits", "external")
    np.savez(tmp_path / "mine-123.npz", probs=probs_of(labels, 3.0, 0, 8), labels=labels)
    out = tmp_path / "other"
    refuse(
        "where task digits has|rows but task digits has",
        "evaluate",
        tmp_path / "mine-123.npz",
        "--out",
        out,
        "--task",
        "digits",
    )
    assert not out.exists()


def test_methods_that_disagree_are_refused_and_nothing_is_written(tmp_path):
    save(tmp_path / "a.npz", 2.0)
    other = {
        "labels": ({"probs": probs_of(LABELS, 1.0), "labels": np.roll(LABELS, 1)}, "label . where a, seed 0 in .* has"),
        "length": ({"probs": probs_of(LABELS, 1.0)[1:], "labels": LABELS[1:]}, "has 199 rows but a, seed 0 in"),
        "classes": ({"probs": probs_of(LABELS, 1.0, 0, 4), "labels": LABELS}, "has 4 classes but a, seed 0 has 3"),
        "ids": (
            {"probs": probs_of(LABELS, 1.0), "labels": LABELS, "id": np.arange(200)},
            "has ids but a, seed 0 in .* has none",
        ),
    }
    for name, (arrays, words) in other.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        refuse(words, "evaluate", tmp_path / "a.npz", tmp_path / f"{name}.npz", "--out", tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_bad_file_is_one_line_and_exit_code_2(tmp_path):
    path = write_csv(tmp_path / "bad.csv", "label,p_0,p_1", ["0,0.9,0.1", "1,0.9,0.9"])
    done = volta("evaluate", path, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {path}, bad, seed 0, row 1: probabilities sum to 1.8, not to 1; if these are logits"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_calibrating_lowers_the_loss_and_keeps_the_order(tmp_path):
    logits = 5 * np.log(probs_of(LABELS, 2.0))
    held_out = 5 * np.log(probs_of(LABELS, 2.0, 1))
    path = tmp_path / "net.npz"
    np.savez(path, test_logits=logits, test_labels=LABELS, val_logits=held_out, val_labels=LABELS)
    said = invoke("calibrate", path, "--fit", path, "--out", tmp_path / "cooled.npz")
    temperature = float(said.partition("temperature ")[2].split()[0])
    assert temperature > 1.5
    with np.load(tmp_path / "cooled.npz") as file:
        assert np.allclose(file["test/logits"], logits / temperature, rtol=1e-5)
    invoke("evaluate", path, tmp_path / "cooled.npz", "--out", tmp_path / "run", "--no-report")
    by_method = {record.cell.method: record.test for record in RunStore(tmp_path / "run").records()}
    assert by_method["cooled"]["nll"] < by_method["net"]["nll"]
    assert by_method["cooled"]["accuracy"] == by_method["net"]["accuracy"]


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_calibrates_a_file_that_can_be_evaluated(tmp_path, name):
    path = tmp_path / "net.npz"
    logits = [np.log(probs_of(LABELS, 2.0, seed)) for seed in (0, 1)]
    np.savez(path, test_logits=logits[0], test_labels=LABELS, val_logits=logits[1], val_labels=LABELS)
    assert "on 200 rows" in invoke("calibrate", path, "--fit", path, "--method", name, "--out", tmp_path / "out.npz")
    invoke("evaluate", tmp_path / "out.npz", "--out", tmp_path / "run", "--no-report")


def test_calibrated_tables_keep_ids_and_every_model(tmp_path):
    def rows(method: str, seed: int, skill: float, names: str) -> list[str]:
        probs = probs_of(LABELS, skill, seed) ** 3
        probs /= probs.sum(axis=1, keepdims=True)
        return [f"{method},{names}{i},{LABELS[i]},{cells(probs[i])}" for i in range(200)]

    header = "method,id,label,p_0,p_1,p_2"
    test = write_csv(tmp_path / "test.csv", header, rows("a", 1, 2.0, "t") + rows("b", 2, 1.0, "t"))
    val = write_csv(tmp_path / "val.csv", header, rows("a", 3, 2.0, "v") + rows("b", 4, 1.0, "v"))
    invoke("calibrate", test, "--fit", val, "--method", "vector_scaling", "--out", tmp_path / "out.csv")
    found = rows_of(tmp_path / "out.csv")
    assert [(row["method"], row["id"]) for row in found] == [(m, f"t{i}") for m in "ab" for i in range(200)]
    assert np.allclose([sum(float(row[f"p_{k}"]) for k in range(3)) for row in found], 1)
    refuse(
        "there is no calibrator 'magic'; the calibrators are: temperature",
        "calibrate",
        test,
        "--fit",
        val,
        "--method",
        "magic",
        "--out",
        tmp_path / "x.csv",
    )
    refuse("has no val rows of a, seed 0", "calibrate", test, "--fit", test, "--out", tmp_path / "x.csv")
    refuse(
        "which exists; name another file, or pass --force",
        "calibrate",
        test,
        "--fit",
        val,
        "--out",
        tmp_path / "out.csv",
    )


def test_options_are_checked(tmp_path):
    path = save(tmp_path / "a.npz", 2.0)
    refuse("--resamples is -1", "evaluate", path, "--out", tmp_path / "run", "--resamples", -1)
    refuse("--near is 'svhn'; the OOD sets are: none", "evaluate", path, "--out", tmp_path / "run", "--near", "svhn")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    refuse("is not a run folder", "evaluate", path, "--out", tmp_path / "other")
    with pytest.raises(InputError, match="is no kind of table"):
        CliRunner().invoke(
            app, ["evaluate", str(tmp_path / "a.txt"), "--out", str(tmp_path / "run")], catch_exceptions=False
        )
    assert not (tmp_path / "run").exists()
