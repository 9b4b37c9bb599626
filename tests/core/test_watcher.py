"""What a block started ends with the process, however that ends, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import subprocess, sys, time
from volta.core.processes import killed_with_this_process
def detached(code):
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdin=subprocess.DEVNULL).pid
with killed_with_this_process():
    inside = detached('''
import subprocess, sys, time
wait = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(wait)
subprocess.Popen(wait, env={})  # as one that writes over its variables
time.sleep(600)
''')
outside = detached("import time; time.sleep(600)")
print(inside, outside, flush=True)
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found through /proc")


def test_a_killed_process_takes_what_it_had_started_with_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) as parent:
        inside, outside = map(int, parent.stdout.readline().split())  # type: ignore[union-attr]
        while len(children := _children(inside)) < 2 or all(map(_variables, children)):
            time.sleep(0.02)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    try:
        until = time.monotonic() + 60
        while any(map(_runs, (inside, *children))):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert _runs(outside)
    finally:
        os.kill(outside, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _variables(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
