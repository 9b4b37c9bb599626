"""Worker processes: they need no guard in the caller's script, end with their parent, and leave Ctrl-C to it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from volta.core.processes import KEPT_BLOCK_BYTES, process_pool

# A script without a guard, fed to the interpreter in three ways; it never ends by itself.
SCRIPT = """
print("begun", flush=True)
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
from volta.core.processes import process_pool
with process_pool(2, time.sleep, 0) as pool:
    others = os.getpid() not in {pool.submit(os.getpid).result() for _ in range(4)}
    waiting = [pool.submit(time.sleep, 600) for _ in range(2)]
    try:
        print(others, flush=True)
        waiting[0].result()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found through /proc")


@pytest.mark.parametrize(("given", "sent"), [("file", signal.SIGKILL), ("stdin", signal.SIGINT)])
def test_workers_of_a_plain_script_end_with_it(tmp_path: Path, given: str, sent: signal.Signals) -> None:
    script = tmp_path / "plain.py"
    script.write_text(SCRIPT)
    with (
        script.open() as text,
        subprocess.Popen(
            [sys.executable, str(script)] if given == "file" else [sys.executable, "-"],
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as parent,
    ):
        assert [parent.stdout.readline() for _ in range(2)] == ["begun\n", "True\n"]  # type: ignore[union-attr]
        assert len(_session(parent.pid)) >= 3
        if sent == signal.SIGINT:
            # As a terminal does it: to the workers too.
            os.killpg(parent.pid, sent)
            said, errors = parent.communicate(timeout=60)
            assert (said, errors, parent.returncode) == ("interrupted\n", "", 0)
        else:
            parent.kill()
            parent.wait()
        until = time.monotonic() + 5
        while left := _session(parent.pid):
            assert time.monotonic() < until, f"still there after 5 s: {left}"
            time.sleep(0.02)


def _session(number: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if state not in "ZX" and int(session) == number:
            found.append(int(entry.name))
    return found


COUNT = """
import resource
import numpy as np
from volta.core.processes import keep_freed_memory
keep_freed_memory()
def faults(n_bytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(n_bytes // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
small = 64 << 20
first, again = faults(small), faults(small)
before = held()
faults(2 * SIZE)
print(first, again, before, held())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_blocks_serve_again_and_the_largest_go_back() -> None:
    code = COUNT.replace("SIZE", str(KEPT_BLOCK_BYTES))
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    first, again, before, after = map(int, printed.split())
    assert again < 0.1 * first
    assert after - before < 0.1 * KEPT_BLOCK_BYTES


def _hold(n_bytes: int) -> int:
    """Keep so much memory in the process, as a worker keeps its task, and return its number."""
    time.sleep(1.05)  # loky looks at a worker's memory once a second
    _HELD.append(b"\1" * n_bytes)
    return os.getpid()


_HELD: list[bytes] = []


@pytest.mark.timeout(60)
def test_a_worker_that_loky_replaces_for_what_it_keeps_is_not_warned_of() -> None:
    pytest.importorskip("psutil", reason="loky looks at memory through psutil")
    with process_pool(1) as pool:
        held = [pool.submit(_hold, 310_000_000) for _ in range(2)]
        assert len({one.result() for one in held}) == 2
