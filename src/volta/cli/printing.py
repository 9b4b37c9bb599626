"""What the command prints: texts as they are, but for characters that would command the terminal."""

from __future__ import annotations

import re

import typer

# Control characters but for tab and line feed, ends of lines, changes of direction, halves of characters.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, as ``typer.echo`` does; see :func:`printable`."""
    typer.echo(printable(str(text)), err=err, nl=nl)


def printable(text: str) -> str:
    r"""Return ``text`` with the characters that command a terminal written as escapes.

    Names and messages come out of files that others made; an escape sequence in one would move the cursor, rename the
    window or hide what was printed before it.

    >>> printable("cat\x1b[2J, naïve\tdog")
    'cat\\x1b[2J, naïve\tdog'
    """
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)
