"""The benchmark from Python: arrays, names and method values go through the same runner, store and keys as the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch

import volta
from tests.bench.running import ENVIRONMENT, results
from volta.api import _method_names, _seeds
from volta.bench.store import RunStore
from volta.methods import ABLATION
from volta.methods.knn import Knn
from volta.methods.softmax import Softmax
from volta.stats.comparisons import compare_pair

RANDOM = np.random.default_rng(0)
LABELS = np.arange(240) % 3
ROWS = (RANDOM.normal(size=(240, 4)) + 2.0 * LABELS[:, None]) * [1.0, 1.0, 1000.0, 1.0]
QUICK = {"seeds": (1, 2), "max_epochs": 3, "executor": "local", "progress": False}


def own_task(shift=0.0, name="mine"):
    return volta.Task.from_arrays(
        train=(ROWS + shift, LABELS), ood={"away": ROWS + 50.0, "close": ROWS + 1.0}, near=("close",), name=name
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python") / "run"
    return volta.benchmark(own_task(), ["volta", Knn(k=10), "knn(k=5)", Softmax()], out=folder, **QUICK)


def stamps(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("cells/*/*")}


def test_a_run_has_what_was_asked(run):
    assert run.tasks == ("mine",)
    assert run.methods == ("volta", "knn(k=10)", "knn(k=5)", "softmax")
    assert run.seeds == (1, 2)
    assert run.failures == {}
    assert len(stamps(run.path)) == 16
    records = RunStore(run.path).records()
    assert {record.title for record in records} >= {"kNN (k = 10)", "kNN (k = 5)", "VOLTA"}
    assert all("columns are scaled" in record.source for record in records)
    assert {tuple(eval_set.name for eval_set in record.near_ood) for record in records} == {("close",)}


def test_a_run_leaves_torch_at_as_many_threads_as_before(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        volta.benchmark(own_task(), ["softmax"], out=tmp_path / "run", **{**QUICK, "seeds": (1,)})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def run_script(tmp_path, text):
    """Run Python in a process of its own, which processes and signals do not reach beyond."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, str(script)], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )


# slow: a process with two workers, as in the test of a plain script, which is run every time
@pytest.mark.slow
def test_a_run_may_be_started_in_any_thread(tmp_path):
    done = run_script(
        tmp_path,
        f"""
        from concurrent.futures import ThreadPoolExecutor
        import volta

        if __name__ == "__main__":
            settings = dict(seeds=(1, 2), max_epochs=1, executor="processes", workers=2, progress=False)
            with ThreadPoolExecutor(1) as pool:
                run = pool.submit(volta.benchmark, "digits", ["softmax"], out={str(tmp_path / "run")!r}, **settings)
            print(len(run.result().results()) > 0, run.result().failures)
        """,
    )
    assert done.stdout.splitlines()[-1:] == ["True {}"], done.stdout + done.stderr


# slow: four processes; tests/bench/test_faults.py interrupts a run every time
@pytest.mark.slow
def test_an_interrupt_ends_the_runs_processes_and_no_others(tmp_path):
    done = run_script(
        tmp_path,
        f"""
        import _thread, multiprocessing, signal, threading, time
        from pathlib import Path
        import volta

        ended = threading.Event()

        def interrupt(folder):
            while not any(folder.glob("cells/digits*")):
                time.sleep(0.05)
            _thread.interrupt_main()
            # Python loses an interrupt that arrives within a destructor.
            while not ended.wait(15.0):
                _thread.interrupt_main()

        if __name__ == "__main__":
            # A shell has its background jobs ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,))
            own.start()
            folder = Path({str(tmp_path / "run")!r})
            threading.Thread(target=interrupt, args=(folder,), daemon=True).start()
            try:
                volta.benchmark(
                    "digits", ["ensemble"], seeds=range(60), out=folder, executor="processes", workers=2, progress=False
                )
            except KeyboardInterrupt:
                ended.set()
                print("interrupted")
            print(own.is_alive(), len(multiprocessing.active_children()))
            own.kill()
        """,
    )
    assert done.stdout.splitlines()[-2:] == ["interrupted", "True 1"], done.stdout + done.stderr


def test_ablation_rows_and_networks_of_another_run_are_asked_for_as_on_the_command_line(run, tmp_path, capsys):
    asked = {**QUICK, "seeds": (1,), "ablation": True, "progress": True}
    told = volta.benchmark(own_task(), "softmax", out=tmp_path / "told", networks_of=run.path, **asked)
    assert told.failures == {}
    assert set(told.methods) == {"softmax", *ABLATION}
    assert "took 4 trained networks from" in capsys.readouterr().out
    ours, theirs = (one.predictions("softmax", 1)["test"]["probs"] for one in (told, run))
    assert np.array_equal(ours, theirs)


def test_tables(run):
    assert set(run.results().column("method")) == set(run.methods)
    accuracy = run.results().where(method="volta", set="test", metric="accuracy")
    (mean,) = run.summary().where(method="volta", set="test", metric="accuracy").column("mean")
    assert mean == pytest.approx(np.mean(accuracy.column("value")))
    assert sorted(run.leaderboard().where(metric="(overall)").column("method")) == sorted(run.methods)
    assert set(run.tests().column("reference")) == {"volta"}
    assert set(run.tests("softmax").column("reference")) == {"softmax"}
    assert len(run.tests("all")) > len(run.tests())


def test_predictions_are_those_of_the_cell(run):
    task = own_task()
    found = run.predictions(Knn(k=10), 1)
    assert np.array_equal(found["test"]["labels"], task.test.labels)
    assert found["test"]["probs"].shape == (48, 3)
    assert len(found["ood:away"]["ood_score"]) == 240
    accuracy = volta.metrics.accuracy(found["test"]["probs"], found["test"]["labels"])
    stored = run.results().where(method="knn(k=10)", seed=1, set="test", metric="accuracy").column("value")
    assert (accuracy,) == stored
    assert np.array_equal(run.predictions("knn( k=10 )", 1)["test"]["probs"], found["test"]["probs"])
    with pytest.raises(volta.InputError, match="there is no method 'kmm'"):
        run.predictions("kmm", 1)
    with pytest.raises(volta.InputError, match=r"no volta with seed 9; its seeds are: 1, 2"):
        run.predictions("volta", 9)


def test_a_run_shows_itself_and_opens_again(run):
    again = volta.open_run(str(run.path))
    assert repr(again) == f"Run({str(run.path)!r}): 8 of 8 cells on mine"
    page = again._repr_html_()
    assert "kNN (k = 10)" in page
    assert "AUROC near" in page
    assert again.results() == run.results()
    with pytest.raises(volta.StoreError, match="is not a run folder"):
        volta.open_run(run.path / "cells")


def test_the_same_arrays_run_nothing_and_others_run_anew(run, tmp_path):
    folder = shutil.copytree(run.path, tmp_path / "run")
    before = stamps(folder)
    again = volta.benchmark(own_task(), list(run.methods), out=folder, **QUICK)
    assert stamps(again.path) == before
    more = volta.benchmark(own_task(), ["energy"], out=folder, **QUICK)
    assert more.methods == (*run.methods, "energy")
    assert len(stamps(folder)) == 20
    with pytest.raises(volta.InputError, match="of other data than the task 'mine' now has"):
        volta.benchmark(own_task(shift=0.5), ["energy"], out=folder, **QUICK)
    assert len(stamps(folder)) == 20


def test_methods_on_other_rows_are_never_paired(run):
    (table,) = run._tables
    assert compare_pair(table, "volta", "softmax", "nll", "test").paired
    n_rows = {key: count - (key[0] == "softmax") for key, count in table.n_rows.items()}
    test = compare_pair(replace(table, n_rows=n_rows), "volta", "softmax", "nll", "test")
    assert not test.paired
    assert "scored on other test rows: not paired" in test.note


def test_a_name_that_own_predictions_have_is_not_benchmarked(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    rows = run.predictions("softmax", 1)["test"]
    volta.evaluate(rows["probs"], rows["labels"]).save(folder, "linear", seed=1)
    with pytest.raises(volta.InputError, match="has external predictions called 'linear' on mine"):
        volta.benchmark(own_task(), ["linear"], out=folder, **QUICK)


def test_several_tasks_and_names_from_python(tmp_path):
    run = volta.benchmark(["digits", own_task()], "softmax,energy", out=tmp_path / "two", limit_test=60, **QUICK)
    assert run.tasks == ("digits", "mine")
    assert len(stamps(run.path)) == 16
    with pytest.raises(volta.InputError, match="name task and protocol: digits · fair, mine · fair"):
        run.predictions("softmax", 1)
    assert len(run.predictions("softmax", 1, task="mine")["test"]["probs"]) == 48


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tasks": "digitz"}, r"there is no task 'digitz'; did you mean digits\?"),
        ({"tasks": [3]}, "tasks holds a int"),
        ({"tasks": own_task(name="digits")}, "a task is called 'digits' as one of the package's own"),
        ({"methods": [3]}, "methods holds 3; pass names, such as"),
        ({"methods": ["knn", Knn()]}, "methods names something twice"),
        ({"seeds": []}, "seeds is empty"),
        ({"scale": "log"}, "scale is 'log'"),
        ({"executor": "magic"}, "--executor is 'magic'"),
        ({"shifts": "some"}, "shifts is 'some'"),
        ({"severities": 6}, r"severities is \(6,\)"),
        ({"severities": "1,2"}, "severities is '1,2'; pass a number from 1 to 5"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(tmp_path, arguments, said):
    with pytest.raises(volta.InputError, match=said):
        volta.benchmark(
            **{"tasks": "digits", "methods": "softmax", "out": tmp_path / "x", "progress": False} | arguments
        )
    assert not (tmp_path / "x").exists()


# Over two seconds: only a script shows that workers do not run it again.
def test_a_plain_script_runs_in_processes_and_gives_the_same(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            print("the script ran")
            import volta
            from tests.api.test_benchmark import own_task
            run = volta.benchmark(own_task(), ["volta", "knn(k=10)", "knn(k=5)", "softmax"], seeds=[1, 2], max_epochs=3,
                                  executor="processes", workers=1, out=sys.argv[1])
            print(run)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, script, tmp_path / "run"],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT.get('PYTHONPATH', '')}:."},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the script ran") == 1
    assert "8 cells: 0 done already, 8 to run" in done.stdout
    ours = [row for row in results(run.path) if row[2] != "energy"]
    assert results(tmp_path / "run") == ours


@pytest.mark.parametrize(("seeds", "expected"), [(np.arange(2), (0, 1)), (np.int64(1), (42,)), ([np.int32(3)], (3,))])
def test_whole_numbers_of_any_kind_are_seeds(seeds, expected):
    assert _seeds(seeds, "fair") == expected


@pytest.mark.parametrize("seeds", ["3", ["a"], 1.5, [1.5]])
def test_what_is_no_seed_is_named(seeds):
    with pytest.raises(volta.InputError, match="pass how many, as in 3, or a list"):
        _seeds(seeds, "fair")


def test_a_list_of_methods_may_hold_groups():
    assert _method_names(["standard", Knn(k=10)], "fair") == (*_method_names("standard", "fair"), "knn(k=10)")


def test_a_method_has_one_list_of_parameters():
    with pytest.raises(volta.InputError, match="has parameters that cannot be read"):
        _method_names(["knn(k=10)(k=20)"], "fair")


def test_a_missing_label_is_no_class():
    labels = np.array(["a", None] * 120, dtype=object)
    with pytest.raises(volta.InputError, match="train has no label in row 1"):
        volta.Task.from_arrays(train=(ROWS, labels), name="mine")
