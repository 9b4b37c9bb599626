"""A process ends with the one that started it, though it waits for nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

CHILD = "import os, time; from volta.core.parent_death import end_with_parent; end_with_parent({parent}); print(os.getpid(), flush=True); time.sleep(60)"
PARENT = (
    "import os, subprocess, sys, time; "
    f"subprocess.Popen([sys.executable, '-c', {CHILD!r}.format(parent=os.getpid())]); time.sleep(60)"
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's signal is Linux's")
def test_the_kernel_ends_it() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())  # type: ignore[union-attr]
        os.kill(parent.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while _runs(child):
        assert time.monotonic() < until, "it is still there after 5 s"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
