"""Parsers that run in a process of their own, forked from one that has imported them: thousands of files in minutes.

``contained`` starts an interpreter a file, which costs a second. Here each file has a process of its own all the same,
with the same limits and the same code in it; only the imports are shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from volta.core.contained import judge_answer
from volta.core.limits import Limits

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tests.fuzz.parser_process import serve_many; serve_many(sys.argv[2])"


def parse(function: str, path: Path, arguments: Mapping[str, Any], limits: Limits) -> Any:
    """Return what ``function``, given as ``module:name``, makes of ``arguments``; as ``contained`` does."""
    server = _server(function.partition(":")[0])
    job = {
        "function": function,
        "arguments": dict(arguments),
        "seconds": limits.parser_seconds,
        "bytes": limits.parser_bytes,
    }
    server.stdin.write(json.dumps(job).encode() + b"\n")  # type: ignore[union-attr]
    server.stdin.flush()  # type: ignore[union-attr]
    ended = json.loads(server.stdout.readline())  # type: ignore[union-attr]
    return judge_answer(path, ended["text"].encode(), ended["code"], ended["late"], limits, limits.parser_seconds)


def serve_many(module: str) -> None:
    """Answer jobs until standard input ends: one forked process each."""
    import select
    import signal
    from importlib import import_module

    from volta.core.contained import serve
    from volta.core.parent_death import end_with_parent

    end_with_parent()
    import_module(module)
    for name in ("scipy.io", "onnxruntime"):
        import_module(name)
    held, _ = os.pipe()
    jobs = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(held, 0)
    while line := _line(jobs):
        job = json.loads(line) | {"parent": os.getpid()}
        entry, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(out, 1)
            os.close(out)
            serve(job)
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
def _server(module: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path), module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
