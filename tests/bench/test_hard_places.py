"""Runs where the system is short of something, its clock jumps, its disk is slow, or it is stopped and goes on."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.running import ENVIRONMENT, results
from volta.bench.store import RunStore

pytestmark = pytest.mark.slow

_SHIMS = Path(__file__).with_name("shims.c")
_ARGUMENTS = ["bench", "digits", "--no-report", "--methods", "softmax,energy", "--max-epochs", "3", "--seeds", "1,2"]


def bench(folder, *options, limit=None, **variables):
    """Run the command into ``folder``; ``limit`` is (kind, value) of setrlimit."""
    command = [sys.executable, "-m", "volta", *_ARGUMENTS, "--out", str(folder), *options]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=ENVIRONMENT | variables,
        timeout=600,
        check=False,
        preexec_fn=limit and (lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))),
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hard") / "run"
    done = bench(folder, "--executor", "local")
    assert done.returncode == 0, done.stderr
    return results(folder)


@pytest.fixture(scope="module")
def shims(tmp_path_factory):
    """Return the library that makes clocks jump and disks slow."""
    if not (compiler := shutil.which("gcc")) or not sys.platform.startswith("linux"):
        pytest.skip("there is no gcc to make the library with")
    library = tmp_path_factory.mktemp("shims") / "shims.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, _SHIMS, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (("--executor", "local"), (resource.RLIMIT_NOFILE, 64)),
        (("--executor", "processes", "--workers", "2"), (resource.RLIMIT_NOFILE, 64)),
        (("--executor", "local"), (resource.RLIMIT_AS, 6 << 30)),
    ],
    ids=["64 files", "64 files, workers", "6 GiB of addresses"],
)
def test_little_is_enough(undisturbed, tmp_path, options, limit):
    done = bench(tmp_path / "run", *options, limit=limit)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "run") == undisturbed


def test_too_few_files_end_in_a_sentence_and_the_run_can_go_on(undisturbed, tmp_path):
    done = bench(tmp_path / "run", "--executor", "local", limit=(resource.RLIMIT_NOFILE, 12))
    if done.returncode != 0:
        assert "Traceback" not in done.stderr
    again = bench(tmp_path / "run", "--executor", "local")
    assert again.returncode == 0, again.stderr
    assert results(tmp_path / "run") == undisturbed


@pytest.mark.parametrize("executor", ["local", "processes"])
def test_a_clock_that_jumps_by_hours_changes_no_result(undisturbed, tmp_path, shims, executor):
    done = bench(tmp_path / "run", "--executor", executor, "--workers", "2", LD_PRELOAD=shims, SHIM_JUMPS="1")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "run") == undisturbed


def test_a_slow_disk_loses_nothing(undisturbed, tmp_path, shims):
    folder = tmp_path / "run"
    done = bench(folder, "--executor", "processes", "--workers", "2", LD_PRELOAD=shims, SHIM_DISK_MS="20")
    assert done.returncode == 0, done.stderr
    assert results(folder) == undisturbed
    assert not [path for path in folder.rglob("*") if path.name.startswith(".part-") or path.name.endswith(".part")]


def test_a_run_that_is_stopped_and_goes_on_changes_no_result(undisturbed, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "volta", *_ARGUMENTS, "--out", str(folder), "--executor", "processes"]
    n_stops = 0
    with subprocess.Popen(
        [*command, "--workers", "2"],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while process.poll() is None:
            os.killpg(process.pid, signal.SIGSTOP)
            n_stops += 1
            time.sleep(0.5)
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(1.0)
    assert process.returncode == 0
    assert n_stops > 1
    assert results(folder) == undisturbed
    assert all(map(RunStore(folder).is_done, RunStore(folder).cells()))
