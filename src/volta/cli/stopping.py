"""Ctrl-C in a long command: one line that says what is kept, exit code 130."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from volta.cli.printing import echo

EXIT_INTERRUPTED = 130


GOES_ON = "what is finished is kept, run the same command again to go on"
ALL_OR_NOTHING = "nothing was written"


@contextmanager
def stoppable(kept: str = GOES_ON) -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a sentence that says what is ``kept``; whatever is finished is on disk already.

    Gives a function that tells whether Ctrl-C was pressed: Python swallows an interrupt that arrives inside a
    destructor or a callback, so long loops ask.
    """
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: asked
    except KeyboardInterrupt:
        echo(f"stopped; {kept}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, previous)
