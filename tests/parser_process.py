"""Parsers that run in a process of their own, forked from one that has imported them.

``run_sandboxed`` starts an interpreter a file, which costs a second. Here each file has a process of its own all the
same, with the same limits and the same code in it; only the imports are shared. ``tests/core/test_sandbox.py`` tests
the usual way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from unittest import mock

from volta.core import processes

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tests.parser_process import serve_many; serve_many()"
)
_PARSERS = ("scipy.io", "onnxruntime")
"""What the modules of parsers import where they use it."""
_LOCK = threading.Lock()


@contextmanager
def forked_parsers() -> Iterator[None]:
    """Have every parser's process forked from one that has imported the parsers, and end that one afterwards."""
    with mock.patch.object(processes, "run_job", _run):
        yield
    if _server.cache_info().currsize:
        with _server():
            _server().stdin.close()  # type: ignore[union-attr]
        _server.cache_clear()


def _run(job: Mapping[str, Any]) -> tuple[bytes, int, bool]:
    with _LOCK:
        server = _server()
        server.stdin.write(json.dumps({**job, "cwd": os.getcwd()}).encode() + b"\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]
        ended = json.loads(server.stdout.readline())  # type: ignore[union-attr]
    return ended["text"].encode(), ended["code"], ended["late"]


def serve_many() -> None:
    """Answer jobs until standard input ends: one forked process each."""
    import select
    import signal
    from importlib import import_module

    from volta.core.processes import end_with_parent, serve_sandboxed

    end_with_parent(os.getppid())
    for name in _PARSERS:
        with suppress(ModuleNotFoundError):
            import_module(name)
    held, _ = os.pipe()
    jobs = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(held, 0)
    while line := _line(jobs):
        job = json.loads(line) | {"parent": os.getpid()}
        with suppress(Exception):  # the forked process meets it again, and answers with it
            import_module(job["function"].partition(":")[0])
        entry, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(out, 1)
            os.close(out)
            os.chdir(job["cwd"])
            serve_sandboxed(job)
        os.close(out)
        text, late = b"", False
        while True:
            ready, _, _ = select.select([entry], [], [], job["seconds"])
            if not ready:
                late = True
                os.kill(pid, signal.SIGKILL)
                break
            piece = os.read(entry, 1 << 16)
            if not piece:
                break
            text += piece
        os.close(entry)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"text": text.decode(errors="replace"), "code": code, "late": late}), flush=True)


def _line(jobs: Any) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := jobs.read(1)):
        line += byte
    return line


@cache
def _server() -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
