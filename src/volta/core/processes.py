"""Processes and threads: workers that end with their parent, and parsers that run sandboxed.

``multiprocessing`` would run the caller's script again in it, which a script without a guard does not survive.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from volta.core.errors import InputError, VoltaError, reason
from volta.core.files import Limits


def n_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch compute on ``threads`` threads (None: as many as it has), and on as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


N_NEW_OBJECTS = 10_000
"""So many new objects make Python look through them for garbage; by itself it does at 700."""

KEPT_BLOCK_BYTES = 128 << 20
KEPT_BYTES = 512 << 20
GROWTH_BYTES = 64 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def settle() -> None:
    """Set up a process that is ours from its start."""
    collect_rarely()
    keep_freed_memory()


def collect_rarely() -> None:
    """Have Python look for garbage less often.

    Nearly all that a process makes while it starts lives to its end, and to look through it again and again takes a
    good part of the time of the imports.
    """
    gc.set_threshold(N_NEW_OBJECTS)


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 128 MiB for the next ones, 512 MiB of them at the heap's end at most.

    By itself it gives blocks beyond 32 MiB back to the system, which hands out the next one page by page, cleared:
    a quarter of the time of a training step on pixels, whose maps take 67 MB each. Other C libraries are left as they
    are.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_M_TOP_PAD, GROWTH_BYTES)


def leave_the_rest() -> None:
    """Have nothing looked through at the end, when all memory goes back anyhow."""
    gc.freeze()


_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends, where the system can (Linux); elsewhere do nothing.

    A thread that waits for the parent is not enough: a library that never gives the interpreter's lock back keeps it
    from running. ``parent`` is the parent's number as known before; if it is gone already, this process ends at once.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if parent is not None and os.getppid() != parent:
        os._exit(1)


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
def killed_with_this_process() -> Iterator[None]:
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


_START = (
    "import json, sys; job = json.loads(sys.stdin.buffer.readline()); sys.path[:] = job['path']; "
    "from volta.core.processes import serve; serve(job['parent'])"
)


class SecondProcessError(VoltaError):
    """A helper could not be started, ended, or failed in a call."""


class SecondProcess:
    """A process that calls functions of this package, given as ``module:name``.

    Arguments and results travel between the two processes as pickles, which come from nowhere else. It ends with
    ``close``, with the block it is used in, or with its parent.
    """

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise SecondProcessError(f"a second process cannot be started: {error}") from error
        try:
            self._send(json.dumps({"path": [str(place) for place in sys.path], "parent": os.getpid()}).encode() + b"\n")
        except OSError as error:
            self.close()
            raise SecondProcessError(f"a second process cannot be started: {error}") from error

    def call(self, function: str, *arguments: object) -> Any:
        """Return what the function makes of the arguments, there."""
        answer = self._process.stdout
        try:
            job = pickle.dumps((function, arguments))
        except Exception as error:
            # Whatever an object raises when it is pickled.
            raise SecondProcessError(f"what {function} is called with cannot be sent: {error}") from error
        try:
            self._send(job)
            # Of one's own making, by the process that this one has started.
            failed, result = pickle.load(answer)  # type: ignore[arg-type]
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise SecondProcessError(f"the second process has ended ({error})") from error
        if failed:
            raise SecondProcessError(f"{function} failed in a second process: {result}")
        return result

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # A process that is gone cannot take what was not yet flushed.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, content: bytes) -> None:
        entry = self._process.stdin
        if entry is not None:
            entry.write(content)
            entry.flush()


def serve(parent: int) -> None:
    """Answer the calls that come on standard input until it closes."""
    settle()
    # Ctrl-C is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    with os.fdopen(os.dup(1), "wb") as answer:
        # Libraries that print must not disturb the answers.
        os.dup2(2, 1)
        while True:
            try:
                function, arguments = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            module, _, name = function.partition(":")
            try:
                found = False, getattr(import_module(module), name)(*arguments)
            except Exception as error:
                found = True, f"{type(error).__name__}: {error}"
            answer.write(pickle.dumps(found))
            answer.flush()


_START_SANDBOX = (
    "import json, sys; job = json.loads(sys.stdin.buffer.readline()); sys.path[:] = job['path']; "
    "from volta.core.processes import serve_sandboxed; serve_sandboxed(job)"
)
_ANSWER_BYTES = 1 << 28


def run_sandboxed(
    function: str, path: Path, arguments: Mapping[str, Any], limits: Limits, n_seconds: float = 0.0
) -> Any:
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
        [sys.executable, "-I", "-c", _START_SANDBOX],
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


def serve_sandboxed(job: Mapping[str, Any]) -> None:
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
