"""Things that go wrong while a run is under way: each ends in a clear message and a run that can go on."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.bench.running import ENVIRONMENT, QUICK, results, volta, volta_process
from volta.bench.store import PREDICTIONS, RunStore

N_KILLS = int(os.environ.get("VOLTA_KILLS", "2"))
METHODS = "volta,softmax,temperature,energy,knn"
ARGUMENTS = ("bench", "digits", "--no-report", "--methods", METHODS, *QUICK)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "run"
    done = volta(*ARGUMENTS, "--executor", "local", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def events(log):
    """Return the events a run logged; a kill may have cut the last line short."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def under_way(log):
    """Whether a cell is finished and, as far as the log tells, another one is being run."""
    kinds = [event["event"] for event in events(log)]
    return 0 < kinds.count("cell_done") < kinds.count("cell_started")


def wait_for(process, log, condition):
    """Wait until the run's log fulfils ``condition``; a run that ends before that is a failure, told with its output."""
    while not condition(log):
        if process.poll() is not None:
            pytest.fail(
                f"the run ended with {process.returncode} before it could be disturbed: {process.stderr.read()}"
            )
        time.sleep(0.05)


# VOLTA_KILLS=20 kills more often. Over two seconds: every kill takes a process of its own.
@pytest.mark.parametrize(
    ("executor", "n_kills"),
    [
        ("local", 1),
        # slow: more kills, and workers that start anew after every one; tests/kills kills whole commands too
        pytest.param("local", N_KILLS, marks=pytest.mark.slow),
        pytest.param("processes", N_KILLS, marks=pytest.mark.slow),
    ],
)
def test_kills_lose_nothing(undisturbed, tmp_path, executor, n_kills):
    log, folder = tmp_path / "log.jsonl", tmp_path / "run"
    random = np.random.default_rng(7)
    arguments = (*ARGUMENTS, "--executor", executor, "--workers", "2", "--out", str(folder), "--json-log", str(log))
    command = [sys.executable, "-m", "volta", *arguments]
    n_interrupted = 0
    for _ in range(n_kills):
        n_before = len(events(log))
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(events(log)) == n_before:
            time.sleep(0.02)
        time.sleep(random.uniform(0.0, 0.8))
        n_interrupted += process.poll() is None
        process.kill()
        process.wait()
        if all(map(RunStore(folder).is_done, RunStore(folder).cells())):
            # all done before the last kill: take cells away so that there is work to interrupt again
            for cell in sorted((folder / "cells").glob("digits*"))[:6]:
                shutil.rmtree(cell)
            log.unlink()
    assert n_interrupted > n_kills // 2
    last = volta(*arguments)
    assert last.returncode == 0, last.stderr
    assert results(folder) == results(undisturbed)
    finished = [event["cell"]["key"] for event in events(log) if event["event"] == "cell_done"]
    assert len(set(finished)) == len(finished)
    assert list((folder / "damaged").glob("*")) == []


# Over two seconds: a signal to a process group takes real processes.
def test_ctrl_c_stops_workers_and_keeps_what_is_finished(undisturbed, tmp_path):
    log = tmp_path / "log.jsonl"
    # Many seeds: hundreds of cells are still to come when the signal is sent.
    seeds = ",".join(str(seed) for seed in range(1, 60))
    command = [sys.executable, "-m", "volta", *ARGUMENTS, "--seeds", seeds, "--workers", "2", "--executor", "processes"]
    command += ["--out", str(tmp_path / "run"), "--json-log", str(log)]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(process, log, under_way)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; finished work is kept" in errors
    assert "Traceback" not in errors
    finished = results(tmp_path / "run")
    assert finished
    again = volta(*ARGUMENTS, "--out", tmp_path / "run")
    assert again.returncode == 0, again.stderr
    rows = set(results(tmp_path / "run"))
    assert set(results(undisturbed)) <= rows
    assert set(finished) <= rows


BOTH = [
    "local",
    # slow: worker processes import everything again, and give back the same error
    pytest.param("processes", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("executor", BOTH)
def test_a_method_that_raises_fails_alone_and_is_retried(tmp_path, monkeypatch, executor):
    run = volta if executor == "local" else volta_process
    folder = tmp_path / "run"
    arguments = ("bench", "digits", "--no-report", "--methods", "softmax,tests.bench.faulty:Boom", *QUICK)
    broken = run(*arguments, "--executor", executor, "--out", folder)
    assert broken.returncode == 1
    failed = "FAILED digits · fair · tests.bench.faulty:Boom · seed 1: RuntimeError: the method is broken"
    assert failed in broken.stdout
    assert "2 of 4 cells failed; run the same command again to retry them" in broken.stderr
    failures = list((folder / "failures").iterdir())
    assert len(failures) == 2
    assert "RuntimeError: the method is broken" in failures[0].read_text()
    assert "2 done, 0 running, 2 failed, 0 waiting" in volta("status", folder).stdout
    monkeypatch.setenv("MENDED", "1")
    again = volta(*arguments, "--out", folder)
    assert again.returncode == 0, again.stderr
    assert "4 cells: 2 done already, 2 to run" in again.stdout
    assert list((folder / "failures").iterdir()) == []


def test_what_no_file_can_hold_fails_alone(tmp_path):
    arguments = ("bench", "digits", "--no-report", "--methods", "tests.bench.faulty:Odd,softmax", *QUICK)
    done = volta(*arguments, "--executor", "local", "--out", tmp_path / "run")
    assert done.returncode == 1
    failed = "FAILED digits · fair · tests.bench.faulty:Odd · seed 1: ValueError: Out of range float values"
    assert failed in done.stdout
    store = RunStore(tmp_path / "run")
    assert {cell.method for cell in store.cells() if store.is_done(cell)} == {"softmax"}


@pytest.mark.parametrize("executor", BOTH)
def test_a_disk_that_fills_up_within_a_cell_ends_the_run(tmp_path, executor):
    run = volta if executor == "local" else volta_process
    arguments = ("bench", "digits", "--no-report", "--methods", "softmax,tests.bench.faulty:Writes", *QUICK)
    folder = tmp_path / "run"
    full = run(*arguments, "--executor", executor, "--workers", 1, "--out", folder)
    assert full.returncode == 2
    assert "takes no more data (No space left on device); finished cells are kept: make room and run" in full.stderr
    assert "Traceback" not in full.stderr
    assert list((folder / "failures").glob("*")) == []


# Over two seconds: what is killed is a worker process, and others go on.
# slow: with two workers the cells that were beside it run again, each in a process of its own
@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_method_killed_by_the_system_fails_alone(tmp_path, n_workers):
    folder = tmp_path / "run"
    methods = "tests.bench.faulty:Hog,softmax,energy"
    arguments = ("bench", "digits", "--no-report", "--methods", methods, "--max-epochs", "3", "--seeds", "1,")
    done = volta(*arguments, "--executor", "processes", "--workers", n_workers, "--out", folder)
    assert done.returncode == 1
    assert done.stdout.count("was killed by the operating system") == 1
    assert "1 of 3 cells failed" in done.stderr
    store = RunStore(folder)
    assert {cell.method for cell in store.cells() if store.is_done(cell)} == {"softmax", "energy"}


def test_damaged_files_are_reported_set_aside_and_recomputed(undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    store = RunStore(folder)
    truncated, garbled, *_ = store.cells()
    npz = store.folder("cells") / truncated.folder / PREDICTIONS
    npz.write_bytes(npz.read_bytes()[:100])
    (store.folder("cells") / garbled.folder / "record.json").write_text("garbage")
    for network in store.folder("networks").glob("*.safetensors"):
        network.write_bytes(network.read_bytes()[:-7])
    again = volta(*ARGUMENTS, "--out", folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("set aside") == 2
    assert "10 cells: 8 done already, 2 to run" in again.stdout
    assert results(folder) == results(undisturbed)


@contextmanager
def files_limited(n_bytes):
    """Let this process, and those that it starts, write no file of more than some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("executor", BOTH)
def test_a_disk_that_takes_no_more_ends_in_a_sentence_and_can_go_on(undisturbed, tmp_path, executor):
    folder = tmp_path / "run"
    with files_limited(100_000):
        full = volta(*ARGUMENTS, "--out", folder, "--executor", executor)
    assert full.returncode in {1, 2}
    assert "Traceback" not in full.stderr
    assert "File too large" in full.stderr + full.stdout
    again = volta(*ARGUMENTS, "--out", folder)
    assert again.returncode == 0, again.stderr
    assert results(folder) == results(undisturbed)


def test_a_full_file_system(undisturbed, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        full = volta(*ARGUMENTS, "--out", place / "run", "--executor", "local")
        assert full.returncode == 2
        assert "takes no more data (No space left on device)" in full.stderr
        assert "make room and run the same command again" in full.stderr
        assert "Traceback" not in full.stderr
        subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)
        again = volta(*ARGUMENTS, "--out", place / "run")
        assert again.returncode == 0, again.stderr
        assert results(place / "run") == results(undisturbed)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        refused = volta(*ARGUMENTS, "--out", place / "run")
        assert refused.returncode == 2
        assert "cannot be written: Read-only file system" in refused.stderr
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


# Over two seconds: it takes another process to share the work with.
def test_two_processes_on_one_folder_share_the_work(undisturbed, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "other.jsonl"
    arguments = (*ARGUMENTS, "--executor", "local", "--out", str(folder))
    other = subprocess.Popen(
        [sys.executable, "-m", "volta", *arguments, "--json-log", str(log)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(other, log, events)
    done = volta(*arguments)
    _, errors = other.communicate(timeout=300)
    assert (done.returncode, other.returncode) == (0, 0), done.stderr + errors
    assert results(folder) == results(undisturbed)
    assert list((folder / "cells").glob(".part-*")) == []


def test_a_run_whose_manifest_was_deleted_goes_on_with_its_cells(tmp_path):
    """What the error about a damaged manifest says to do."""
    folder = tmp_path / "run"
    arguments = ("bench", "digits", "--methods", "softmax", "--seeds", "1", "--max-epochs", "1", "--no-report")
    done = volta(*arguments, "--out", folder)
    assert done.returncode == 0, done.stderr
    before = {path: path.read_bytes() for path in folder.glob("cells/*/*")}
    (folder / "manifest.json").write_text("damaged")
    refused = volta(*arguments, "--out", folder)
    assert refused.returncode == 2
    assert "finished cells are safe: delete that file and run volta bench again" in refused.stderr
    (folder / "manifest.json").unlink()
    again = volta(*arguments, "--out", folder)
    assert again.returncode == 0, again.stderr
    assert "all 1 cells are done already" in again.stdout
    assert {path: path.read_bytes() for path in folder.glob("cells/*/*")} == before
