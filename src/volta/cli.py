"""The shell's door: ``volta bench``, ``volta report``, and lists of what there is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from volta._version import __version__
from volta.core.errors import VoltaError

EXIT_FAILED_CELLS = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="volta",
    help="Uncertainty-aware classification: know when not to trust a classifier, and compare methods that tell.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 2."""
    try:
        app()
    except VoltaError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        typer.echo("stopped; finished cells are kept, run the same command again to go on", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"volta {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """Take options that stand before any command."""


@app.command()
def bench(
    task: Annotated[str, typer.Argument(help="Task to run on; see: volta tasks.")],
    methods: Annotated[str, typer.Option(help="all, or names with commas between them; see: volta methods.")] = "all",
    seeds: Annotated[str, typer.Option(help="Whole numbers with commas between them.")] = "42,123,456",
    protocol: Annotated[str, typer.Option(help="fair (same features and encoder for all) or paper.")] = "fair",
    ablation: Annotated[bool, typer.Option("--ablation", help="Run full VOLTA and every ablation row too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/TASK unless given.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Train at most this many epochs (a reduced run).")] = None,
    limit_train: Annotated[
        int | None, typer.Option(help="Train on this many rows, stratified (a reduced run).")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Batch size in place of the recipes' own.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads per cell; part of what decides the result.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but failures and the report's path.")] = False,
) -> None:
    """Compare methods on a task over seeds; run again to go on or to extend; ends with a report."""
    from rich.console import Console

    from volta.bench.config import RunConfig, parse_names, parse_seeds
    from volta.bench.progress import Bar, Lines, Listener, Quiet
    from volta.bench.runner import run
    from volta.bench.store import RunStore
    from volta.methods import ABLATION, METHODS
    from volta.networks.recipe import Budget
    from volta.networks.trainer import pick_device
    from volta.report import build_report

    config = RunConfig(
        tasks=(task,),
        methods=(*parse_names(methods, list(METHODS)), *(ABLATION if ablation else ())),
        protocols=(protocol,),
        seeds=parse_seeds(seeds),
        budget=Budget(max_epochs, limit_train, batch_size),
        device=pick_device(device).type,
        threads=threads,
    )
    store = RunStore(out or Path("runs") / task)
    console = Console()
    listener: Listener = Quiet(console) if quiet else Bar(console) if console.is_terminal else Lines(console)
    try:
        summary = run(config, store, listener, shlex.join(["volta", *sys.argv[1:]]))
    finally:
        listener.finish()
    path = build_report(store)
    if summary.n_failed:
        typer.echo(
            f"{summary.n_failed} of {summary.n_cells} cells failed; run the same command again to retry them",
            err=True,
        )
    typer.echo(f"report: {path}")
    if summary.n_failed:
        raise typer.Exit(EXIT_FAILED_CELLS)


@app.command()
def report(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Rebuild tables, figures and report.html from a run folder alone."""
    from volta.bench.store import RunStore
    from volta.report import build_report

    typer.echo(f"report: {build_report(RunStore(run_folder))}")


@app.command()
def tasks() -> None:
    """List the tasks."""
    from volta.data import TASKS

    _print_table(
        ("task", "what it is", "inputs", "download"),
        [(name, task.title, ", ".join(task.kinds), task.download) for name, task in TASKS.items()],
    )


@app.command()
def methods() -> None:
    """List the methods."""
    from volta.methods import METHODS

    origins = {"volta": "this paper", "paper": "one of the paper's ten baselines", "extra": "extra"}
    _print_table(
        ("method", "name", "where it comes from"),
        [(name, method.title, origins[method.origin]) for name, method in METHODS.items()],
    )


@app.command()
def metrics() -> None:
    """List the metrics: direction, formula, convention, and which libraries differ."""
    from volta.metrics import METRICS

    for name, metric in METRICS.items():
        typer.echo(f"{name} {metric.direction}")
        typer.echo(f"    {metric.formula}")
        typer.echo(f"    convention: {metric.convention}")
        typer.echo(f"    others: {metric.others}")


def _print_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
