"""The ``volta`` command: its subcommands, its help, and errors as one line with exit code 2."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from volta._version import __version__
from volta.cli import bench, data, info, model, runs, serve
from volta.cli.terminal import PlainCommand, PlainGroup, echo, user_warnings_as_lines
from volta.core.errors import NO_ROOM, VoltaError

EXIT_BAD_INPUT = 2

app = typer.Typer(
    cls=PlainGroup,
    rich_markup_mode=None,
    name="volta",
    help="Uncertainty-aware classification: fit classifiers that know when to abstain, and compare methods.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Model": (
        model.fit,
        model.predict,
        model.decide,
        model.explain,
        model.export,
        model.card,
        serve.serve,
    ),
    "Benchmark": (bench.bench, runs.report, runs.status, runs.compare, runs.leaderboard),
    "External predictions and features": (runs.evaluate, runs.calibrate, data.extract),
    "Information": (info.tasks, info.methods, info.metrics, info.doctor),
}
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        app.command(cls=PlainCommand, rich_help_panel=_panel)(_function)
app.add_typer(data.app, name="data", rich_help_panel="Information")


def main() -> None:
    """Run the command line; a ``VoltaError`` becomes one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without ↑ or × shows ? instead.
            stream.reconfigure(errors="replace")
    try:
        with user_warnings_as_lines():
            app()
    except VoltaError as error:
        echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "make room or name another folder" if error.errno in NO_ROOM else "check that place"
        echo(f"error: {where}{error.strerror or error}; {remedy}, then try again", err=True)
        sys.exit(EXIT_BAD_INPUT)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"volta {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, then exit.")
    ] = False,
) -> None:
    """Take options that stand before any command."""
