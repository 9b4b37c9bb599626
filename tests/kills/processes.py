"""Volta commands as processes that can be killed, and the processes that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "VOLTA_KILLS_MARK"
MODULES = ".modules"
"""Beside the log of a command that ended well: what it had imported."""


@dataclass(frozen=True)
class Command:
    """A command under way: its process, its session and the mark in the environment of all that it starts."""

    pid: int
    mark: str

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, or None if the command still runs after ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.002)

    def kill(self) -> None:
        """Kill the command alone, as the system does when memory runs out: its children must notice by themselves."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def descendants(self) -> list[int]:
        """Return the living processes that the command started, directly or not."""
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_mine(entry)]

    def wait_for_descendants(self, seconds: float) -> list[int]:
        """Return the processes that are still there ``seconds`` after now."""
        deadline = time.monotonic() + seconds
        while (left := self.descendants()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _is_mine(self, entry: Path) -> bool:
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            state, session = fields[0], int(fields[3])
            if state in "ZX" or int(entry.name) == self.pid:
                return False
            return session == self.pid or f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
        except (OSError, ValueError):
            return False


def command_line(pid: int) -> str:
    """Return what a process is, in words; empty if it is gone."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def start(arguments: Sequence[str], log: Path, *, fresh: bool) -> Command:
    """Start a command in a session of its own; ``log`` takes what it says.

    Importing the package takes most of a short command's time. A ``fresh`` one does that, so that kills hit it there
    too; the others are forked from this process, which has imported it already.
    """
    mark = uuid.uuid4().hex
    if fresh:
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "volta", *arguments],
                stdout=out,
                stderr=out,
                env=os.environ | {MARK: mark},
                start_new_session=True,
            )
        # This module waits by number; without its code a Popen would wait once more and warn.
        process.returncode = 0
        return Command(process.pid, mark)
    pid = os.fork()
    if pid == 0:
        _run(arguments, log, mark)
    return Command(pid, mark)


def _run(arguments: Sequence[str], log: Path, mark: str) -> None:
    """Run the command in this forked process, which ends with it."""
    code = 1
    try:
        os.setsid()
        os.environ[MARK] = mark
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.argv = ["volta", *arguments]
        from volta.cli.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        if code == 0:
            log.with_suffix(MODULES).write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
