"""Ctrl-C in a long command: one line that says what is kept, exit code 130."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

EXIT_INTERRUPTED = 130


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C into a sentence; whatever is finished is on disk already."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; what is finished is kept, run the same command again to go on", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
