"""What commands print: text, tables, warnings, progress, and an interrupted end."""

from __future__ import annotations

import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.console import Console


_Rows = dict[str, list[tuple[str, str]]]


class PlainCommand(TyperCommand):
    """A command whose options stand under the headings of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, those without a panel first."""
        _write(_parameters(self, ctx), formatter)


class PlainGroup(TyperGroup):
    """A group whose commands stand under the headings of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the group's own options, then its commands."""
        _write(_parameters(self, ctx) | _commands(self, ctx), formatter)


def _parameters(command: TyperCommand | TyperGroup, ctx: Any) -> _Rows:
    found: _Rows = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or usual
            # Repeated values and ranges of numbers, which Typer names as Python does, are strings, paths and numbers.
            name = record[0].replace("list[Path]", "path").replace("list[str]", "str").replace(" range", "")
            found.setdefault(panel, []).append((name, record[1]))
    return found


def _commands(group: TyperGroup, ctx: Any) -> _Rows:
    found: _Rows = {}
    for name in group.list_commands(ctx):
        command: Any = group.get_command(ctx, name)
        panel = getattr(command, "rich_help_panel", None)
        first = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        found.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, first))
    return found


def _write(rows: _Rows, formatter: Any) -> None:
    for heading, entries in rows.items():
        if entries:
            with formatter.section(heading):
                formatter.write_dl(entries)


# Control characters but for tab and line feed, ends of lines, changes of direction, halves of characters.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, as ``typer.echo`` does; see :func:`printable`."""
    typer.echo(printable(str(text)), err=err, nl=nl)


def printable(text: str) -> str:
    r"""Return ``text`` with control characters escaped, since names and messages may come from untrusted files.

    >>> printable("cat\x1b[2J, naïve\tdog")
    'cat\\x1b[2J, naïve\tdog'
    """
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


PIPE_COLUMNS = 200


def table_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for all columns in a pipe; text is printed as it is."""
    from rich.console import Console

    console = Console(markup=False, emoji=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, width=PIPE_COLUMNS)


def print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table whose first column, the name of each row, is never cut."""
    from rich import box
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD)
    table.columns[0].min_width = max((len(row[0]) for row in rows), default=None)
    for row in rows:
        table.add_row(*row)
    table_console().print(table)


def warn_line(text: object) -> None:
    """Print a warning on standard error."""
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
    """Print warnings for users as lines; leave those for developers to Python."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, UserWarning):
                warn_line(message)
            else:
                plain(message, category, *rest, **named)

        warnings.showwarning = show
        yield


EXIT_INTERRUPTED = 130


RESUMABLE = "finished work is kept; run the same command again to resume"
ALL_OR_NOTHING = "nothing was written"


@contextmanager
def stoppable(outcome: str = RESUMABLE) -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a message with the ``outcome`` and an exit code.

    Yields a function that returns whether Ctrl-C was pressed: Python swallows an interrupt that arrives inside a
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
        echo(f"stopped; {outcome}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, previous)


LINE_SECONDS = 10.0


class RowProgress(Protocol):
    """Called with the number of new rows done and the share of the file done."""

    def __call__(self, n_rows: int, done: float) -> None:
        """Advance."""


@contextmanager
def row_progress(doing: str, *, quiet: bool = False) -> Iterator[RowProgress]:
    """Yield a function to call after each chunk; progress goes to standard error: a bar, or a line now and then."""
    from rich import progress
    from rich.console import Console

    from volta.bench.progress import format_seconds

    console = Console(stderr=True, markup=False, emoji=False)
    text, rows = (
        progress.TextColumn("{task.description}", markup=False),
        progress.TextColumn("{task.fields[rows]:,} rows"),
    )
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    columns = (text, progress.BarColumn(), progress.TaskProgressColumn(), rows, *times)
    shows_bar = console.is_terminal and not quiet
    bars = progress.Progress(*columns, console=console, transient=True)
    bar = bars.add_task(doing, total=1.0, rows=0)
    with bars if shows_bar else nullcontext():
        n_done = 0
        started = said = time.monotonic()

        def advance(n_rows: int, done: float) -> None:
            nonlocal n_done, said
            n_done += n_rows
            bars.update(bar, completed=done, rows=n_done)
            now = time.monotonic()
            if quiet or shows_bar or now - said < LINE_SECONDS:
                return
            said = now
            left = (now - started) * (1.0 - done) / max(done, 1e-9)
            line = f"{doing}: {n_done:,} rows, {done:.0%}, about {format_seconds(left)} left"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield advance
