"""A process of this package beside the caller's, which answers one call after another.

``multiprocessing`` would run the caller's script again in it, which a script without a guard does not survive.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any

from volta.core.errors import VoltaError
from volta.core.own_process import settle
from volta.core.parent_death import end_with_parent

_START = (
    "import json, sys; job = json.loads(sys.stdin.buffer.readline()); sys.path[:] = job['path']; "
    "from volta.core.second_process import serve; serve(job['parent'])"
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
