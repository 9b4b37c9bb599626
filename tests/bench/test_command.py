"""The command as a user runs it: results, repetition, extension, refusals."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.bench.running import ENVIRONMENT, QUICK, edit_manifest, results, volta, volta_process
from tests.conftest import figures_laid_out
from volta.bench.cell_metrics import TEST
from volta.bench.store import RunStore

METHODS = "volta,softmax,temperature,conformal"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "run"
    with figures_laid_out():
        done = volta("bench", "digits", "--methods", METHODS, *QUICK, "--executor", "local", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_run_leaves_what_it_promises(finished):
    folder, done = finished
    assert done.stdout.strip().splitlines()[-1].startswith("report: ")
    for name in ("manifest.json", "results.csv", "summary.csv", "tests.csv", "corruptions.csv", "report.html"):
        assert (folder / name).stat().st_size > 0, name
    assert list((folder / "figures").glob("*.png"))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["config"]["budget"]["max_epochs"] == 3
    assert manifest["config"]["seeds"] == [1, 2]
    assert len(manifest["cells"]) == 8
    assert {"volta", "python", "packages", "cpu", "cores"} <= set(manifest["environment"])


def test_results_are_tidy(finished):
    with (finished[0] / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    made = ["split", "epochs", "best_epoch", "instruction_set"]
    assert list(rows[0]) == ["task", "protocol", "method", "seed", "set", "metric", "value", *made]
    assert {row["split"] for row in rows} == {"seed 1, fold 2 of 5", "seed 2, fold 3 of 5"}
    assert {row["epochs"] for row in rows} == {row["best_epoch"] for row in rows} == {"3"}
    assert all(row["instruction_set"] for row in rows)
    assert {row["method"] for row in rows} == set(METHODS.split(","))
    assert {row["set"] for row in rows} >= {"test", "ood:digits_8_9", "shift:noise-5"}
    assert all(np.isfinite(float(row["value"])) for row in rows)
    keys = [tuple(row.values())[:6] for row in rows]
    assert len(set(keys)) == len(keys)
    sets = {row["metric"] for row in rows if row["method"] == "conformal"}
    assert {"coverage", "set_size", "empty_sets", "latency_ms", "size_mb", "train_s"} <= sets


def test_summary_holds_n_mean_and_sample_deviation(finished):
    with (finished[0] / "results.csv").open() as file:
        values = [
            float(row["value"])
            for row in csv.DictReader(file)
            if (row["method"], row["set"], row["metric"]) == ("volta", "test", "nll")
        ]
    with (finished[0] / "summary.csv").open() as file:
        row = next(
            row
            for row in csv.DictReader(file)
            if (row["method"], row["set"], row["metric"]) == ("volta", "test", "nll")
        )
    assert int(row["n"]) == 2
    assert float(row["mean"]) == pytest.approx(np.mean(values))
    assert float(row["std"]) == pytest.approx(np.std(values, ddof=1))


def test_running_again_does_nothing_and_says_so(finished):
    folder, _ = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("cells/*/*")}
    again = volta("bench", "digits", "--methods", METHODS, *QUICK, "--no-report", "--out", folder)
    assert again.returncode == 0
    assert "all 8 cells are done already: nothing to run" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("cells/*/*")} == before


@pytest.fixture
def any_threads(monkeypatch):
    """Let libraries of a process that is started take as many threads as there are cores, as in a user's shell."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name)
        monkeypatch.delitem(ENVIRONMENT, name)


PROBE = "tests.bench.faulty:Probe"
"""Its cells fail where a library may use more than one thread."""


# Over two seconds: it is two worker processes, each with its imports; libraries take their threads when one starts.
@pytest.mark.usefixtures("any_threads")
def test_another_run_and_more_processes_give_the_same_bytes_on_one_thread(finished, tmp_path):
    options = ("--threads", 1, "--executor", "processes", "--workers", 2, "--no-report", "--out", tmp_path)
    other = volta("bench", "digits", "--methods", f"{METHODS},{PROBE}", *QUICK, *options)
    assert other.returncode == 0, other.stdout + other.stderr
    assert {cell.method for cell in RunStore(tmp_path).cells()} == {*METHODS.split(","), PROBE}
    rows = [row for row in results(tmp_path) if row[2] != PROBE]
    assert rows == results(finished[0])
    assert len(rows) > 500


# slow: two threads wait for each other with the processor busy
@pytest.mark.slow
def test_other_thread_counts_agree_closely(finished, tmp_path):
    options = ("--max-epochs", 3, "--threads", 2, "--executor", "local", "--no-report", "--out", tmp_path)
    other = volta("bench", "digits", "--methods", "volta,conformal", "--seeds", "1,", *options)
    assert other.returncode == 0, other.stderr
    one, two = RunStore(finished[0]), RunStore(tmp_path)
    by_name = {(cell.method, cell.seed): cell for cell in one.cells()}
    assert len(list(two.cells())) == 2
    for theirs in two.cells():
        mine = by_name[theirs.method, theirs.seed]
        expected, found = one.read_arrays(mine), two.read_arrays(theirs)
        # Sums in another order differ in the last bit, and float32 training carries that on: to a few in 1e6 after
        # three epochs. Metrics that count rows may then jump by a row; probabilities may not.
        for name in (name for name in expected if name.endswith("/probs")):
            assert np.abs(expected[name] - found[name]).max() < 1e-3, (mine.label, name)


def test_extending_runs_only_what_is_missing(finished, tmp_path):
    first = volta(
        "bench", "digits", "--no-report", "--methods", "softmax", "--seeds", "1,", "--max-epochs", 3, "--out", tmp_path
    )
    assert first.returncode == 0
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*/*")}
    log = tmp_path / "log.jsonl"
    more = volta("bench", "digits", "--no-report", "--methods", METHODS, *QUICK, "--out", tmp_path, "--json-log", log)
    assert more.returncode == 0, more.stderr
    assert "8 cells: 1 done already, 7 to run" in more.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(event["event"] == "cell_done" for event in events) == 7
    assert events[0]["event"] == "start"
    assert events[-1]["event"] == "finish"
    assert results(tmp_path) == results(finished[0])


def test_networks_of_another_run_are_taken_where_they_fit(finished, tmp_path):
    """Fewer test rows make other cells, and the networks that they rest on are the same."""
    folder, _ = finished
    before = {path.name: path.read_bytes() for path in (folder / "networks").glob("*.safetensors")}
    arguments = ("bench", "digits", "--methods", "softmax", *QUICK, "--limit-test", 50, "--no-report")
    done = volta(*arguments, "--out", tmp_path / "run", "--networks-of", folder, "--executor", "local")
    assert done.returncode == 0, done.stderr
    assert f"took {len(before)} trained networks" in done.stdout
    after = {path.name: path.read_bytes() for path in (tmp_path / "run" / "networks").glob("*.safetensors")}
    assert after == before
    refused = volta(*arguments, "--out", tmp_path / "other", "--networks-of", tmp_path)
    assert refused.returncode == 2
    assert "manifest.json" in refused.stderr


def test_a_dry_run_tells_and_touches_nothing(finished, tmp_path):
    folder = tmp_path / "none"
    dry = volta("bench", "digits", "--methods", METHODS, *QUICK, "--out", folder, "--dry-run")
    assert dry.returncode == 0
    assert "0 done, 8 missing; cost on one worker: unknown until one has run" in dry.stdout
    assert not folder.exists()
    dry = volta(
        "bench",
        "digits",
        "--methods",
        METHODS,
        "--max-epochs",
        3,
        "--seeds",
        "1,2,3",
        "--out",
        finished[0],
        "--dry-run",
    )
    assert "8 done, 4 missing; cost on one worker: about" in dry.stdout


def test_status_reads_the_folder(finished):
    told = volta("status", finished[0])
    assert told.returncode == 0
    assert told.stdout.splitlines()[0] == "8 done, 0 running, 0 failed, 0 waiting"


def test_metrics_of_other_code_are_computed_again_and_nothing_is_trained(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "run")
    store = RunStore(folder)
    for record in store.records():
        other = {**record.metrics, TEST: {**record.test, "accuracy": 0.0}}
        store.replace_record(
            replace(record, metrics=other, fingerprints=replace(record.fingerprints, scoring="other code"))
        )
    shutil.rmtree(folder / "networks")
    sentence = "the code of metrics has changed: computing those of 8 cells again from their stored predictions"
    again = volta("bench", "digits", "--methods", METHODS, *QUICK, "--no-report", "--out", folder)
    assert again.returncode == 0, again.stderr
    assert sentence in again.stdout
    assert "all 8 cells are done already: nothing to run" in again.stdout
    assert not (folder / "networks").exists()
    assert store.records() == RunStore(finished[0]).records()
    told = volta("report", folder, "--format", "md")
    assert told.returncode == 0, told.stderr
    assert sentence not in told.stderr


# Over two seconds: it lays out every figure, in a process that cannot import torch.
def test_metrics_are_recomputed_and_reported_without_the_training_packages(finished, tmp_path):
    copy = shutil.copytree(finished[0], tmp_path / "copy")
    (copy / "report.html").unlink()
    store = RunStore(copy)
    cell = next(iter(store.cells()))
    record = store.read_record(cell)
    store.replace_record(replace(record, metrics={**record.metrics, TEST: {**record.test, "accuracy": 0.0}}))
    script = tmp_path / "report_only.py"
    script.write_text(
        "import os, sys\n"
        "for name in ('torch', 'sklearn', 'safetensors', 'ray', 'onnxruntime', 'pyarrow'):\n"
        "    sys.modules[name] = None  # importing it now raises ImportError, as where it is not installed\n"
        "from volta.cli import main\n"
        "from volta.figures import charts\n"
        "os.sched_getaffinity = lambda process: {0}  # with one core to see, this very process draws\n"
        "def save(figure, folder, name):\n"
        "    figure.draw_without_rendering()\n"
        "    folder.mkdir(exist_ok=True)\n"
        "    for kind in ('png', 'pdf'):\n"
        "        (folder / f'{name}.{kind}').write_bytes(b'drawn')\n"
        "charts.save_figure = save\n"
        "main()\n"
    )
    done = volta_process("report", copy, "--recompute", script=script)
    assert done.returncode == 0, done.stderr
    assert "recomputed the metrics of 8 cells, 1 changed" in done.stdout
    assert store.read_record(cell).metrics == record.metrics
    assert results(copy) == results(finished[0])
    assert (copy / "report.html").stat().st_size > 0
    told = volta_process("status", copy, script=script)
    assert told.returncode == 0, told.stderr


def test_a_manifest_that_knows_fewer_limits_is_the_same_budget(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished[0], folder)
    edit_manifest(folder, lambda manifest: manifest["config"]["budget"].pop("limit_test"))
    again = volta("bench", "digits", "--methods", METHODS, *QUICK, "--no-report", "--out", folder)
    assert again.returncode == 0, again.stderr
    assert "all 8 cells are done already: nothing to run" in again.stdout


def test_another_budget_does_not_mix_in(finished):
    before = (finished[0] / "results.csv").read_bytes()
    refused = volta("bench", "digits", "--methods", METHODS, "--max-epochs", 4, "--out", finished[0])
    assert refused.returncode == 2
    assert "results of both would mix: name another --out" in refused.stderr
    assert (finished[0] / "results.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuchtask"], "there is no task 'nosuchtask'; the tasks are: digits"),
        (["digits", "--seeds", "abc"], "--seeds is 'abc'; pass whole numbers"),
        (["digits", "--seeds", "-1"], "--seeds is -1; pass how many, at least 1, or a list of seeds as in 1,2,3"),
        (["digits", "--seeds", "-1,"], "a seed is -1"),
        (["digits", "--methods", "nope"], "there is no method 'nope'"),
        (["digits", "--methods", ""], "methods is empty"),
        (["digits", "--methods", "volta,volta"], "methods names something twice"),
        (["digits", "--protocol", "unfair"], "there is no protocol 'unfair'"),
        (["digits", "--max-epochs", "0"], "max_epochs is 0"),
        (["digits", "--threads", "0"], "threads is 0"),
        (["digits", "--workers", "0"], "--workers is 0"),
        (["digits", "--executor", "magic"], "--executor is 'magic'"),
        (["digits", "--device", "tpu"], "device is 'tpu'"),
        (["digits", "--severities", "9"], "severities is (9,)"),
    ],
)
def test_bad_arguments_get_one_line_and_exit_code_2(tmp_path, arguments, message):
    out = tmp_path / "run"
    refused = volta("bench", *arguments, "--out", out)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: {message}")
    assert "Traceback" not in refused.stderr
    assert not out.exists()


def test_unusable_folders_are_refused_untouched(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refused = volta("bench", "digits", "--out", tmp_path)
    assert refused.returncode == 2
    assert "is not empty and has no manifest.json" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    for path in (tmp_path / "notes.txt" / "run", "/proc/nowhere"):
        refused = volta("bench", "digits", "--methods", "softmax", "--max-epochs", 1, "--out", path)
        assert refused.returncode == 2
        assert "cannot be written" in refused.stderr
        assert "Traceback" not in refused.stderr
    for command in ("report", "status"):
        refused = volta(command, tmp_path)
        assert refused.returncode == 2
        assert "is not a run folder" in refused.stderr


def test_output_that_nobody_takes_is_no_failure(tmp_path):
    command = [sys.executable, "-m", "volta", "metrics"]
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")
    full = subprocess.run(["sh", "-c", '"$@" | head -n 1', "sh", *command], capture_output=True, text=True, check=False)
    assert "Traceback" not in full.stderr


def test_another_budget_is_refused_by_what_differs(finished):
    refused = volta(
        "bench", "digits", "--max-epochs", "4", "--seeds", "1,", "--methods", "softmax", "--out", finished[0]
    )
    assert refused.returncode == 2
    assert "--out holds a run with max_epochs 3, now asked with max_epochs 4; results of both" in refused.stderr


def test_a_folder_of_other_shifts_is_refused_in_one_line(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "other")
    edit_manifest(folder, lambda manifest: manifest["config"].update(shifts="none"))
    refused = volta("bench", "digits", *QUICK, "--methods", "softmax", "--out", folder)
    assert refused.returncode == 2
    assert "holds a run with shifts none, now asked with shifts auto" in refused.stderr


# slow: a process of its own; the one that users start most often has workers
@pytest.mark.slow
@pytest.mark.usefixtures("any_threads")
def test_cells_of_one_process_keep_to_their_threads_in_every_library(tmp_path):
    options = ("--threads", 1, "--executor", "local", "--no-report", "--out", tmp_path)
    done = volta_process("bench", "digits", "--methods", PROBE, *QUICK, *options)
    assert done.returncode == 0, done.stdout


def test_the_end_is_the_result_then_the_path(finished):
    lines = [line.strip() for line in finished[1].stdout.strip().splitlines()]
    assert lines[-1] == f"report: {finished[0] / 'report.html'}"
    head = next(line for line in lines if line.startswith("rank"))
    for column in (
        "method",
        "accuracy ↑",
        "NLL+T ↓",
        "ECE+T ↓",
        "AURC × 1000 ↓",
        "AUROC near ↑",
        "AUROC far ↑",
        "best on",
    ):
        assert column in head
    rows = lines[lines.index(head) + 2 :][:4]
    assert sorted(row.split()[1] for row in rows) == ["Softmax", "Split", "Temperature", "VOLTA"]
    assert [float(row.split()[0]) for row in rows] == sorted(float(row.split()[0]) for row in rows)


def test_a_dry_run_takes_a_few_lines_and_rates_of_runs_beside(finished):
    dry = volta("bench", "digits", "--methods", METHODS, *QUICK, "--out", finished[0].parent / "new", "--dry-run")
    lines = dry.stdout.strip().splitlines()
    assert lines[:2] == [
        "digits · fair: 4 methods × 2 seeds",
        "to run: volta (2), softmax (2), temperature (2), conformal (2)",
    ]
    assert lines[2].startswith("0 done, 8 missing; cost on one worker: about")
    assert lines[2].endswith("(from 8 cells measured)")
    assert len(lines) == 3


def test_near_misses_are_suggested(tmp_path):
    said = volta("bench", "digist", "--out", tmp_path / "x").stderr
    assert said == "error: there is no task 'digist'; did you mean digits? (see: volta tasks)\n"
    said = volta("bench", "digits", "--methods", "temprature", "--out", tmp_path / "x").stderr
    assert "did you mean temperature or ensemble_temperature? (see: volta methods)" in said
    assert "softmax" not in said
