"""What a reader does besides reading: the memory it takes, the time, and what it writes and where."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SECONDS = 20
MEMORY_BYTES = 1 << 29
"""More than this on top of what the process had is over every limit that the readers here are given."""
_ADDRESS_BYTES = 8 << 30

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir": 1, "os.rename": 2, "os.symlink": 2, "os.link": 2, "os.remove": 1, "os.rmdir": 1, "os.chmod": 1}
_outside: list[str] = []
_allowed: list[str] = []


@contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """Give a list that then holds, in words, what must not have happened meanwhile.

    Nothing may be written but in ``folder`` and in temporary folders whose names begin with ``volta-``.
    """
    found: list[str] = []
    before = _resident()
    _outside.clear()
    with _address_limit(), _clock(found):
        _watch(folder)
        try:
            yield found
        except BaseException as error:
            if _asked_for_too_much(error):
                found.append("asked for more memory than the limit")
            raise
        finally:
            _watch(None)
            found += ["wrote outside" for _ in _outside[:1]]
            if _peak() - before > MEMORY_BYTES:
                found.append(f"took more than {MEMORY_BYTES:,} bytes")


def _asked_for_too_much(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _address_limit() -> Iterator[None]:
    """Have an absurd allocation fail at once instead of filling the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESS_BYTES if hard < 0 else hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _clock(found: list[str]) -> Iterator[None]:
    """Interrupt what takes too long; the word is kept, as a reader may turn the interruption into an error of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        found.append(f"took more than {SECONDS} s")
        raise TimeoutError("too long")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _resident() -> int:
    """Return the resident bytes and begin to measure the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10


def _watch(folder: Path | None) -> None:
    own = os.path.join(os.path.realpath(tempfile.gettempdir()), "volta-")
    _allowed[:] = [] if folder is None else [os.path.realpath(folder), own]


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if not _allowed:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and isinstance(flags, int) and flags & _WRITING:
            _judge(path)
    elif event in _CHANGES:
        # A name with the descriptor of its folder: that folder was reached, and judged, by its path.
        relative = any(isinstance(argument, int) and argument >= 0 for argument in arguments[-_CHANGES[event] :])
        for path in arguments[: _CHANGES[event]]:
            if isinstance(path, str | bytes) and (os.path.isabs(path) or not relative):
                _judge(path)


def _judge(path: str | bytes) -> None:
    real = os.path.realpath(os.fsdecode(path))
    if real != os.devnull and not real.startswith(tuple(_allowed)):
        _outside.append(real)


sys.addaudithook(_hear)
