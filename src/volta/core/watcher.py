"""Processes that others start for this one, and that must not outlive it however it ends: a watcher kills them then."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_MARK = "VOLTA_ENDS_WITH"
_KEEP_VARIABLES = "SPT_NOENV"
"""Asks setproctitle, by which Ray's agents rename themselves, not to write over the variables that /proc shows."""
_WATCH = """
import os, signal, sys, time
sys.stdin.buffer.read()
mark = sys.argv[1].encode()
for _ in range(100):
    marked, children = [], {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state in b"ZX":
                continue
            children.setdefault(int(parent), []).append(int(name))
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\\0"):
                    marked.append(int(name))
        except OSError:
            pass
    found = set()
    while marked:
        process = marked.pop()
        if process not in found:
            found.add(process)
            marked += children.get(process, ())
    for process in found:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.05)
"""


@contextmanager
def ending_with_this_process() -> Iterator[None]:
    """Have whatever is started in this block, and whatever that starts, killed when this process is gone (Linux).

    They are known by a variable that they inherit, so that what is started after the block lives on, or by a parent
    that has it. Libraries that start servers of their own have them look for their parent now and then; a busy machine
    makes that many seconds.
    """
    if not sys.platform.startswith("linux") or _MARK in os.environ:
        yield
        return
    value = uuid.uuid4().hex
    # Only this process has the other end of the pipe, which is never closed but by its end.
    entry, _ = os.pipe()
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCH, f"{_MARK}={value}"],
        stdin=entry,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(entry)
    # It outlives this process on purpose, and nobody waits for it.
    watcher.returncode = 0
    wanted = {_MARK: value, _KEEP_VARIABLES: "1"}
    added = {name: text for name, text in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
