"""One leaderboard over runs: values follow from predictions, and those that do not are named."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import volta
from volta.bench.cell_metrics import TEST
from volta.bench.store import PREDICTIONS, RunStore
from volta.cli.main import app
from volta.cli.runs import leaderboard
from volta.core.errors import InputError, StoreError
from volta.report.leaderboard import joint_leaderboard, write_joint_leaderboard
from volta.report.run import Group

RANDOM = np.random.default_rng(0)
LABELS = np.arange(240) % 3
ROWS = RANDOM.normal(size=(240, 4)) + 2.0 * LABELS[:, None]
QUICK = {"seeds": (1, 2), "max_epochs": 3, "executor": "local", "progress": False}


def bench(folder, methods, shift=0.0, name="mine", **options):
    rows = ROWS + shift * RANDOM.normal(size=ROWS.shape)
    task = volta.Task.from_arrays(train=(rows, LABELS), ood={"away": ROWS + 50.0}, name=name)
    return volta.benchmark(task, methods, out=folder, **QUICK | options).path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [
        bench(root / "first", "softmax,energy"),
        bench(root / "second", "energy,knn(k=10)"),
        bench(root / "other", "softmax", shift=1.0),
    ]


def test_runs_on_the_same_rows_stand_in_one_table(runs):
    found = joint_leaderboard(runs, n_resamples=100)
    assert (found.n_checked, found.problems) == (10, [])
    first, second = (set(group.methods) for group, _ in found.groups)
    assert first == {"softmax", "energy [first]", "energy [second]", "knn(k=10)"}
    assert second == {"softmax"}
    equal = {(row.metric, row.set): row.mean for row in found.groups[0][1] if row.method == "energy [first]"}
    for row in found.groups[0][1]:
        if row.method == "energy [second]" and row.metric != "(overall)":
            assert row.mean == equal[row.metric, row.set]
            assert "energy [first]" in row.same_as


def test_values_are_those_of_the_predictions_and_the_runs_stay_as_they_are(runs, tmp_path):
    run = shutil.copytree(runs[0], tmp_path / "claimed")
    store = RunStore(run)
    cell = next(store.cells())
    record = store.read_record(cell)
    store.replace_record(replace(record, metrics={**record.metrics, TEST: {**record.test, "accuracy": 1.0}}))
    before = (run / "cells" / cell.folder / "record.json").read_bytes()
    found = joint_leaderboard([run], n_resamples=0)
    (problem,) = found.problems
    assert problem.startswith(f"claimed: {cell.label}: accuracy on test is stored as 1, its predictions give 0.")
    (row,) = [row for row in found.groups[0][1] if (row.method, row.metric) == (cell.method, "accuracy")]
    assert row.mean < 1.0
    assert (run / "cells" / cell.folder / "record.json").read_bytes() == before
    damaged = run / "cells" / cell.folder / PREDICTIONS
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    (problem,) = joint_leaderboard([run], n_resamples=0).problems
    assert problem == f"claimed: {cell.label} does not match its checksum and is left out"


def test_page_and_csv(runs, tmp_path):
    page, table = write_joint_leaderboard(joint_leaderboard(runs, n_resamples=0), tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "kNN (k = 10)" in text
    assert "All agree with what is stored." in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert text.count("<table") == 2
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows if row["metric"] == "accuracy"} >= {"softmax", "knn(k=10)"}


def test_every_run_of_our_method_has_a_place_and_budgets_are_named(tmp_path):
    short, long = bench(tmp_path / "short", "volta,softmax"), bench(tmp_path / "long", "volta,softmax", max_epochs=4)
    found = joint_leaderboard([short, long], n_resamples=0)
    placed = {row.method for row in found.groups[0][1] if row.metric == "(overall)" and row.rank is not None}
    assert placed == {"volta [short]", "volta [long]", "softmax [short]", "softmax [long]"}
    page = write_joint_leaderboard(found, tmp_path)[0].read_text(encoding="utf-8")
    assert "2 seeds · budgets differ (reduced: at most 3 epochs; reduced: at most 4 epochs)" in page


def test_the_command(runs, tmp_path):
    done = CliRunner().invoke(app, ["leaderboard", *map(str, runs[:2]), "--out", str(tmp_path / "board")])
    assert done.exit_code == 0, done.output
    assert "first: metrics of 4 cells computed again from their predictions, 0 do not agree" in done.output
    assert done.output.strip().endswith("leaderboard.csv")
    assert (tmp_path / "board" / "leaderboard.html").is_file()
    with pytest.raises(InputError, match=r"board\.html, a file; name the folder that leaderboard\.html"):
        leaderboard(runs[:1], tmp_path / "board.html")
    assert not (tmp_path / "board.html").exists()
    with pytest.raises(StoreError, match="is named twice"):
        joint_leaderboard([runs[0], runs[0]])


def test_own_predictions_in_a_run_do_not_part_it_from_others(tmp_path):
    first, second = bench(tmp_path / "first", "softmax"), bench(tmp_path / "second", "knn(k=10)")
    arrays = volta.open_run(first).predictions("softmax", 1)["test"]
    volta.evaluate(arrays["probs"], arrays["labels"]).save(first, "brought", seed=1)
    ((group, _),) = joint_leaderboard([first, second], n_resamples=0).groups
    assert set(group.methods) == {"softmax", "brought", "knn(k=10)"}


def test_groups_whose_names_run_together_have_keys_of_their_own():
    one, other = (Group(task, protocol, None, {}, (), (), {}) for task, protocol in (("wood", "a-b"), ("wood-a", "b")))
    assert one.key != other.key
