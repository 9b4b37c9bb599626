"""The ``volta`` command: its subcommands, and errors as one line with exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from volta._version import __version__
from volta.cli import (
    bench,
    calibrate,
    card,
    data,
    decide_rows,
    evaluate,
    explain,
    export,
    extract,
    fit,
    lists,
    predict,
    runs,
)
from volta.core.errors import VoltaError

EXIT_BAD_INPUT = 2

app = typer.Typer(
    name="volta",
    help="Uncertainty-aware classification: know when not to trust a classifier, and compare methods that tell.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_OWN_PANEL = "A model of your own"

app.command(rich_help_panel=_OWN_PANEL)(fit.fit)
app.command(rich_help_panel=_OWN_PANEL)(predict.predict)
app.command(rich_help_panel=_OWN_PANEL)(decide_rows.decide)
app.command(rich_help_panel=_OWN_PANEL)(explain.explain)
app.command(rich_help_panel=_OWN_PANEL)(export.export)
app.command(rich_help_panel=_OWN_PANEL)(card.card)
app.command()(bench.bench)
app.command()(evaluate.evaluate)
app.command()(calibrate.calibrate)
app.command()(extract.extract)
app.command()(runs.report)
app.command()(runs.status)
app.command()(runs.compare)
app.command()(runs.leaderboard)
app.command()(lists.tasks)
app.command()(lists.methods)
app.command()(lists.metrics)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 2."""
    try:
        app()
    except VoltaError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(
            f"error: {where}{error.strerror or error}; make room or name another folder, then try again", err=True
        )
        sys.exit(EXIT_BAD_INPUT)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"volta {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Take options that stand before any command."""
