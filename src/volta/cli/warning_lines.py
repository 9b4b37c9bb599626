"""Warnings on the command line: one line each on standard error, without the place in the source that raised it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from volta.cli.printing import echo


def warn_line(text: object) -> None:
    """Say something that is no error."""
    echo(f"warning: {text}", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show every warning once, as a line on standard error."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if (text := str(message)) not in said:
            said.add(text)
            warn_line(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Tables are matched to the model by name before their rows become arrays.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        yield


@contextmanager
def user_warnings_as_lines() -> Iterator[None]:
    """Show what is meant for users as lines, and warnings for developers, where Python shows them, as it does."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, UserWarning):
                warn_line(message)
            else:
                plain(message, category, *rest, **named)

        warnings.showwarning = show
        yield
