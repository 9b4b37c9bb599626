"""Parsers in a process of their own, with limits on time and memory: a file that kills one kills nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from volta.core.errors import InputError, VoltaError
from volta.core.foreign import reason
from volta.core.limits import Limits
from volta.core.parent_death import end_with_parent

_START = (
    "import json, sys; job = json.loads(sys.stdin.buffer.readline()); sys.path[:] = job['path']; "
    "from volta.core.contained import serve; serve(job)"
)
_ANSWER_BYTES = 1 << 28


def contained(function: str, path: Path, arguments: Mapping[str, Any], limits: Limits, n_seconds: float = 0.0) -> Any:
    """Return what ``function``, given as ``module:name``, makes of ``arguments`` in a process of its own.

    Arguments and result are JSON; larger results go through files that the arguments name. The process has
    ``limits.parser_seconds`` plus ``n_seconds`` of wall-clock time and ``limits.parser_bytes`` of memory (where the
    platform has ``setrlimit``). Whatever happens to it, a crash included, is an ``InputError`` about ``path``.
    """
    seconds = limits.parser_seconds + n_seconds
    job = {
        "path": [str(place) for place in sys.path],
        "parent": os.getpid(),
        "function": function,
        "arguments": dict(arguments),
        "seconds": seconds,
        "bytes": limits.parser_bytes,
    }
    text, code, late = run_job(job)
    return _judge(path, text, code, late, limits, seconds)


def _in_a_new_process(job: Mapping[str, Any]) -> tuple[bytes, int, bool]:
    """Return the answer to a job, how its process ended, and whether it was ended for taking too long."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(job["seconds"], stop)
    timer.start()
    try:
        text = _exchange(process, job)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            # A process that is gone cannot take what was not yet flushed.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
    return text, process.returncode, late.is_set()


run_job: Callable[[Mapping[str, Any]], tuple[bytes, int, bool]] = _in_a_new_process
"""How a job gets its process; the fuzz suite, with its thousands, forks them from one that has imported the parsers."""


def serve(job: Mapping[str, Any]) -> None:
    """Run one job in this process, which then ends; the answer is one JSON text on standard output."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        # Libraries that print must not disturb the answer.
        os.dup2(2, 1)
        end_with_parent(int(job["parent"]))
        _restrict(float(job["seconds"]), int(job["bytes"]))
        threading.Thread(target=_leave_with_parent, daemon=True).start()
        module, _, name = job["function"].partition(":")
        try:
            result = {"result": getattr(import_module(module), name)(**job["arguments"])}
        except VoltaError as error:
            result = {"refused": str(error)}
        except BaseException as error:
            result = {"failed": reason(error)}
        json.dump(result, answer)
        answer.flush()
        # Destructors of a library whose parser met a bad file may hang or crash.
        os._exit(0)


def _exchange(process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> bytes:
    entry, answer = process.stdin, process.stdout
    if entry is None or answer is None:
        return b""
    try:
        entry.write(json.dumps(job).encode() + b"\n")
        entry.flush()
    except OSError:
        return b""
    return answer.read(_ANSWER_BYTES)


def _judge(path: Path, text: bytes, code: int, late: bool, limits: Limits, seconds: float) -> Any:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    if "result" in answer:
        return answer["result"]
    if "refused" in answer:
        raise InputError(answer["refused"])
    if late or code == -getattr(signal, "SIGXCPU", 0):
        raise InputError(
            f"{path} is refused: reading it took more than {seconds:.0f} s; "
            f"if it is sound, raise the limit: --limit parser_seconds={10 * seconds:.0f}"
        )
    if "failed" in answer and "MemoryError" not in answer["failed"]:
        raise InputError(f"{path} cannot be read ({answer['failed']}); it is damaged or of another kind, get it again")
    ended = f"ended with code {code}" if code >= 0 else f"was killed by signal {-code}"
    cause = answer.get("failed", f"its parser {ended}")
    raise InputError(
        f"{path} cannot be read ({cause}, with {limits.parser_bytes:,} bytes of memory at most); "
        "it is damaged, get it again"
    )


def _restrict(seconds: float, n_bytes: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_AS, n_bytes),
    ):
        _, hard = resource.getrlimit(kind)
        # A system that refuses one limit still has the others and the parent's clock.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))


def _leave_with_parent() -> None:
    """End this process when the parent is gone: only then does its end of standard input close."""
    sys.stdin.buffer.read()
    os._exit(1)
