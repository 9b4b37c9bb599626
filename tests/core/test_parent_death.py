"""A process ends with the one that started it, though it waits for nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from volta.core.ending_server import STARTED_BY

CHILD = "import os, time; from volta.core.processes import end_with_parent; end_with_parent({parent}); print(os.getpid(), flush=True); time.sleep(60)"
PARENT = (
    "import os, subprocess, sys, time; "
    f"subprocess.Popen([sys.executable, '-c', {CHILD!r}.format(parent=os.getpid())]); time.sleep(60)"
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's signal is Linux's")
def test_the_kernel_ends_it() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())  # type: ignore[union-attr]
        os.kill(parent.pid, signal.SIGKILL)
    _wait_for_the_end(child)


SERVER = (
    "import multiprocessing, sys, time; from multiprocessing import forkserver; "
    "context = multiprocessing.get_context('forkserver'); "
    "context.set_forkserver_preload(['volta.core.ending_server', 'sleeper']); forkserver.ensure_running(); "
    "print(forkserver._forkserver._forkserver_pid, flush=True); time.sleep(60)"
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's signal is Linux's")
def test_the_server_of_workers_ends_in_the_middle_of_its_imports(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "sleeper.py").write_text(f"open({str(begun)!r}, 'w'); import time; time.sleep(60)")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths}
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        server = int(parent.stdout.readline())  # type: ignore[union-attr]
        while not begun.exists():
            time.sleep(0.02)
        os.kill(parent.pid, signal.SIGKILL)
    _wait_for_the_end(server)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's signal is Linux's")
def test_a_server_whose_starter_is_gone_before_it_asks_ends_at_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "sleeper.py").write_text(f"open({str(begun)!r}, 'w'); import time; time.sleep(60)")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # The starter is alive, but it is not the one that the server was told of.
    environment = os.environ | {"PYTHONPATH": paths, STARTED_BY: "1"}
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        server = int(parent.stdout.readline())  # type: ignore[union-attr]
        _wait_for_the_end(server)
        assert not begun.exists()
        parent.kill()


def _wait_for_the_end(pid: int) -> None:
    until = time.monotonic() + 5
    while _runs(pid):
        assert time.monotonic() < until, "it is still there after 5 s"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
