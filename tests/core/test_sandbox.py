from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from volta.core import processes
from volta.core.errors import InputError
from volta.core.files import Limits
from volta.core.processes import run_sandboxed

HERE = __name__


@pytest.fixture(autouse=True, scope="module")
def _started_parsers():
    """Start a process for each parser, as users' are started."""
    with mock.patch.object(processes, "run_job", processes._run_in_new_process):
        yield


FILE = Path("some.file")


def add(first: int, second: int) -> int:
    print("a library prints")
    return first + second


def loop() -> None:
    while True:
        time.sleep(0.01)


def refuse() -> None:
    raise InputError("this is refused; pass another")


def fail() -> None:
    raise KeyError("X")


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def take(n_bytes: int) -> int:
    return len(bytearray(n_bytes))


def test_a_result_comes_back() -> None:
    assert run_sandboxed(f"{HERE}:add", FILE, {"first": 2, "second": 3}, Limits()) == 5


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("refuse", {}, "^this is refused; pass another$"),
        ("fail", {}, "some.file cannot be read .KeyError"),
        ("crash", {}, "some.file cannot be read .its parser was killed by signal 11"),
        ("take", {"n_bytes": 8 << 30}, "some.file cannot be read .MemoryError.*4,294,967,296 bytes"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit and signals")
def test_whatever_happens_is_an_input_error(function: str, arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_sandboxed(f"{HERE}:{function}", FILE, arguments, Limits())


def test_an_endless_loop_is_stopped() -> None:
    with pytest.raises(InputError, match=r"some\.file is refused: reading it took more than 2 s"):
        run_sandboxed(f"{HERE}:loop", FILE, {}, Limits(parser_seconds=2.0))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the process in /proc")
def test_the_process_ends_with_its_parent() -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path; from volta.core.processes import run_sandboxed; from volta.core.files import Limits\n"
        f"run_sandboxed('{HERE}:loop', Path('x'), {{}}, Limits())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while (
        Path(f"/proc/{found[0]}").exists() and "Z" not in Path(f"/proc/{found[0]}/stat").read_text().split(")")[1][:3]
    ):
        time.sleep(0.05)
