"""Processes and threads: cores and threads to use, workers that end with their parent, sandboxed parsers."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volta.core.errors import InputError, VoltaError, reason

if TYPE_CHECKING:
    import torch
    from joblib.externals.loky import ProcessPoolExecutor

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


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Let torch take deterministic algorithms alone for as long as this lasts, where that is ``wanted``.

    It decides something on GPUs only. An operation that has no such algorithm raises an error.
    """
    import torch

    if wanted:
        # cuBLAS reads this when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if not wanted or torch.are_deterministic_algorithms_enabled():
        # To set it, even to what it is, imports torch's compiler, which takes a second.
        yield
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def gpu_bytes(device: torch.device) -> int | None:
    """Return the memory of a GPU, used or not, so that batches are cut alike at all times; None where not known."""
    import torch

    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


_UNKNOWN_GPU_BYTES = 4 << 30


def rows_in_memory(row_bytes: int, memory: int | None, most: int) -> int:
    """Return how many rows of ``row_bytes`` take an eighth of a GPU's ``memory``, or of 4 GiB where it is not known."""
    return min(most, max(1, (memory or _UNKNOWN_GPU_BYTES) // 8 // row_bytes))


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
KEPT_BLOCK_BYTES = 128 << 20


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 128 MiB, and at most 512 MiB of them.

    glibc returns blocks over 32 MiB to the system, which hands them out again page by page, cleared.
    ``benchmarks/training.py`` keeps this: with ``--give-back``, a training step on pixels takes 1.45 times as long.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, 512 << 20)
        library.mallopt(_M_TOP_PAD, 64 << 20)


_PARENT_SECONDS = 0.2


def end_with_parent(parent: int) -> None:
    """End this process soon after process number ``parent``, which started it, has ended.

    Neither loky nor ``subprocess`` does that when the parent is killed; ``tests/core/test_processes.py`` and
    ``tests/kills`` check it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def process_pool(
    n_workers: int, initializer: Callable[..., None] | None = None, *arguments: object
) -> Iterator[ProcessPoolExecutor]:
    """Run the block with loky's processes, each of which has called ``initializer``; kill them afterwards.

    They do not run the caller's script, so that it needs no ``if __name__ == "__main__"``. Unlike loky's own, they end
    when this process is killed, and Ctrl-C reaches this process alone.
    """
    from multiprocessing import resource_tracker

    from joblib.externals.loky import ProcessPoolExecutor

    # loky takes what a worker keeps from call to call, such as a task, for a leak where it exceeds 300 MB, and starts a
    # new worker in its place. No call is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
    # It unblocks signals when it starts.
    resource_tracker.ensure_running()
    # This process has warned of plug-ins that cannot be loaded; workers look for them while they unpickle.
    quiet = {"PYTHONWARNINGS": ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:the plug-in"]))}
    start = (os.getpid(), initializer, arguments)
    pool = ProcessPoolExecutor(n_workers, initializer=_start_worker, initargs=start, env=quiet)
    try:
        # Processes and threads inherit which signals are blocked. The first call starts all of them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pool.submit(os.getpid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield pool
    finally:
        with _without_lost_calls():
            pool.shutdown(kill_workers=True)


@contextmanager
def _without_lost_calls() -> Iterator[None]:
    """Keep loky's own thread from printing that a call it was about to hand out is gone: all calls are, on purpose."""
    shown = threading.excepthook

    def show(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not KeyError or args.thread is None or args.thread.name != "ExecutorManagerThread":
            shown(args)

    threading.excepthook = show
    try:
        yield
    finally:
        threading.excepthook = shown


def _start_worker(parent: int, initializer: Callable[..., None] | None, arguments: tuple[object, ...]) -> None:
    end_with_parent(parent)
    if initializer is not None:
        initializer(*arguments)


_START = (
    "import json, sys; job = json.load(sys.stdin); sys.path[:] = job['path']; "
    "from volta.core.processes import serve_sandboxed; serve_sandboxed(job)"
)


def run_sandboxed(function: str, path: Path, arguments: Mapping[str, Any], limits: Limits) -> Any:
    """Return what ``function``, given as ``module:name``, makes of ``arguments`` in a process of its own.

    Arguments and result are JSON; larger results go through files that the arguments name. The process has
    ``limits.parser_seconds`` of wall-clock time and ``limits.parser_bytes`` of memory (where the
    platform has ``setrlimit``). Whatever happens to it, a crash included, is an ``InputError`` about ``path``.
    """
    job = {
        "path": [str(place) for place in sys.path],
        "parent": os.getpid(),
        "function": function,
        "arguments": dict(arguments),
        "seconds": limits.parser_seconds,
        "bytes": limits.parser_bytes,
    }
    return _result_of(path, *run_job(job), limits)


def _run_in_new_process(job: Mapping[str, Any]) -> tuple[bytes, int, bool]:
    """Return the answer to a job, the exit code of its process, and whether it was killed for taking too long."""
    import subprocess

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START],
            input=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            timeout=job["seconds"],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return b"", -signal.SIGKILL, True
    return done.stdout, done.returncode, False


run_job: Callable[[Mapping[str, Any]], tuple[bytes, int, bool]] = _run_in_new_process
"""How a job gets its process. The fuzz suite runs thousands and forks them from one that has imported the parsers."""


def serve_sandboxed(job: Mapping[str, Any]) -> None:
    """Run one job in this process, which then ends; the answer is one JSON text on standard output."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        # Libraries that print must not disturb the answer.
        os.dup2(2, 1)
        end_with_parent(int(job["parent"]))
        _restrict(float(job["seconds"]), int(job["bytes"]))
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


def _result_of(path: Path, text: bytes, code: int, late: bool, limits: Limits) -> Any:
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
            f"{path} is refused: reading it took more than {limits.parser_seconds:.0f} s; "
            f"if it is sound, raise the limit: --limit parser_seconds={10 * limits.parser_seconds:.0f}"
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
