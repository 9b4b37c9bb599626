"""``volta bench``: compare methods on tasks."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.cli.terminal import echo, printable, stoppable, table_console
from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.api import Run
    from volta.bench.progress import Listener
    from volta.bench.runner import Plan
    from volta.data.task import ShiftOrigin


def complete_tasks(incomplete: str) -> list[str]:
    """Return the completions of a task list."""
    from volta.data import all_tasks

    return continued(incomplete, all_tasks())


def complete_methods(incomplete: str) -> list[str]:
    """Return the completions of a method list."""
    from volta.methods import method_names

    return continued(incomplete, ["standard", "all", *method_names()])


def complete_metrics(incomplete: str) -> list[str]:
    """Return the completions of a metric list."""
    from volta.metrics import METRICS

    return continued(incomplete, METRICS)


def continued(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the typed list with every completion of its last name.

    >>> continued("digits,ci", ["digits", "cifar10", "cifar100"])
    ['digits,cifar10', 'digits,cifar100']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def import_from_here() -> None:
    """Add the working folder to the import path, so that ``module:Class`` can name a module there."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


def shift_origin(shifts: str, corruptions: bool) -> ShiftOrigin:
    """Return ``--shifts``, or ``generated`` where ``--corruptions`` asks for it."""
    if corruptions and shifts not in ("auto", "generated"):
        raise InputError(f"--corruptions generates corrupted test sets but --shifts is {shifts!r}; pass one of the two")
    return "generated" if corruptions else cast("ShiftOrigin", shifts)


EXIT_FAILED_CELLS = 1


def print_standings(run: Run) -> None:
    """Print the summary of each task and protocol."""
    from rich import box
    from rich.table import Table

    console = table_console()
    for found in run.standings():
        shown = Table(title=found.title, title_justify="left", caption=found.legend, caption_justify="left")
        shown.box = box.SIMPLE_HEAD
        for place, column in enumerate(found.columns):
            shown.add_column(column, justify="left" if place == 1 else "right")
        for row in found.rows:
            shown.add_row(*map(printable, row))
        console.print(shown, markup=False, highlight=False)


def print_plan(run: Run, plan: Plan, n_workers: int) -> None:
    """Say in a few lines what would run and how long that may take."""
    from volta.bench.progress import format_seconds

    tasks, protocols, methods, seeds = (
        list(dict.fromkeys(getattr(cell, name) for cell in plan.cells))
        for name in ("task", "protocol", "method", "seed")
    )
    echo(
        f"{', '.join(tasks)} · {', '.join(protocols)}: {len(methods)} methods × {len(seeds)} seeds"
        + (f" × {len(tasks)} tasks" if len(tasks) > 1 else "")
    )
    n_missing = len(plan.missing)
    if plan.missing:
        waiting = Counter(cell.method for cell in plan.missing)
        echo(f"to run: {', '.join(f'{method} ({count})' for method, count in waiting.items())}")
    if n_failed := len(run.failures.keys() & {cell.label for cell in plan.missing}):
        echo(f"{n_failed} of them failed before and will be retried; see: volta status {run.path}")
    cost = "unknown until one has run"
    if plan.estimate is not None:
        seconds, n_used = plan.estimate.seconds, max(1, min(n_workers, n_missing))
        spread = f", {format_seconds(seconds / n_used)} on {n_used}" if n_used > 1 else ""
        cost = f"about {format_seconds(seconds)}{spread} (from {plan.estimate.n_measured} cells measured)"
    echo(f"{len(plan.cells) - n_missing} done, {n_missing} missing; cost on one worker: {cost}")


WHAT = "Comparison"
DATA = "Data"
LIMITS = "Reduced run"
WHERE = "Execution"
RESULT = "Output"


def bench(
    task: Annotated[
        str,
        typer.Argument(help="Task, or several separated by commas; see: volta tasks.", autocompletion=complete_tasks),
    ],
    methods: Annotated[
        str,
        typer.Option(
            help="paper (VOLTA and its ten baselines), standard, all, or names separated by commas; see: volta "
            "methods. Parameters: knn(k=10). Custom class: package.module:Class.",
            autocompletion=complete_methods,
            rich_help_panel=WHAT,
        ),
    ] = "standard",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Number of seeds, or seeds separated by commas (a single one: 42,). Default: 10 under fair, 3 under "
            "paper.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="fair (same features and encoder for all methods) or paper.", rich_help_panel=WHAT)
    ] = "fair",
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Also run full VOLTA and every ablation row.", rich_help_panel=WHAT)
    ] = False,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="Sequential testing: add seeds at interim analyses (5, 10, 20, 40) until every question is decided.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    cap: Annotated[int, typer.Option(help="With --decide: maximum number of seeds.", rich_help_panel=WHAT)] = 40,
    resplit: Annotated[
        bool | None,
        typer.Option(
            "--resplit/--no-resplit",
            help="Draw new train, val and cal splits for every seed. Default for digits, which also rotates its test "
            "set.",
            rich_help_panel=DATA,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="Feature scaling, the same for every method: auto (imported data, fitted on the training set), "
            "standard or none.",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder. Default: VOLTA_DATA, else the cache folder.", rich_help_panel=DATA),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Feature extractor for images: resnet18, efficientnet-lite0, FILE.onnx, timm:NAME, hf:MODEL, plug-in.",
            rich_help_panel=DATA,
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights file for a named backbone.", rich_help_panel=DATA)
    ] = None,
    severities: Annotated[
        str, typer.Option(help="Corruption severities from 1 to 5, separated by commas.", rich_help_panel=DATA)
    ] = "1",
    shifts: Annotated[
        str, typer.Option(help="Corrupted test sets: auto, official, generated or none.", rich_help_panel=DATA)
    ] = "auto",
    corruptions: Annotated[
        bool,
        typer.Option(
            "--corruptions",
            help="Corrupt imported test images with CIFAR-10-C's 19 corruptions (--shifts generated).",
            rich_help_panel=DATA,
        ),
    ] = False,
    max_epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.", rich_help_panel=LIMITS)] = None,
    limit_train: Annotated[int | None, typer.Option(help="Number of training samples.", rich_help_panel=LIMITS)] = None,
    limit_test: Annotated[
        int | None, typer.Option(help="Maximum number of samples of each evaluation set.", rich_help_panel=LIMITS)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Batch size, instead of the recipe's.", rich_help_panel=LIMITS)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=WHERE)] = "auto",
    executor: Annotated[str, typer.Option(help="auto, local, processes or ray.", rich_help_panel=WHERE)] = "auto",
    workers: Annotated[
        int | None, typer.Option(help="Number of processes. Default: number of cores.", rich_help_panel=WHERE)
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads per cell; the result depends on it. Default: 1.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    amp: Annotated[
        bool, typer.Option("--amp", help="Train in automatic mixed precision (GPU).", rich_help_panel=WHERE)
    ] = False,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Deterministic algorithms only; slower on a GPU.", rich_help_panel=WHERE),
    ] = False,
    networks_of: Annotated[
        Path | None,
        typer.Option(help="Run folder whose trained networks are reused where they match.", rich_help_panel=WHERE),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to join. Default: start a local one.", rich_help_panel=WHERE)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/TASK.", rich_help_panel=RESULT)] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Reference of the report's tests: a method, best, or all (all pairs).", rich_help_panel=RESULT
        ),
    ] = None,
    no_report: Annotated[
        bool,
        typer.Option(
            "--no-report", help="Write no report; make it later with volta report RUN.", rich_help_panel=RESULT
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, then exit.", rich_help_panel=RESULT)
    ] = False,
    json_log: Annotated[
        Path | None, typer.Option(help="Append one JSON line per event to this file.", rich_help_panel=RESULT)
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print failures and the report's path only.", rich_help_panel=RESULT),
    ] = False,
) -> None:
    """Compare methods on tasks over seeds and write a report. Runs are resumable and can be extended."""
    import_from_here()
    from volta.api import benchmark
    from volta.bench.config import parse_numbers, parse_seeds
    from volta.core.processes import n_cores
    from volta.features.extract import NotExtractedError

    with stoppable() as should_stop:
        try:
            run = benchmark(
                task,
                methods,
                None if seeds is None else parse_seeds(seeds, protocol),
                protocol=protocol,
                ablation=ablation,
                decide=decide,
                cap=cap,
                reference=reference,
                out=out,
                max_epochs=max_epochs,
                limit_train=limit_train,
                limit_test=limit_test,
                batch_size=batch_size,
                device=device,
                executor=executor,
                workers=workers,
                threads=threads,
                amp=amp,
                deterministic=deterministic,
                address=address,
                networks_of=networks_of,
                resplit=resplit,
                scale=scale,
                data=data,
                backbone=backbone,
                weights=weights,
                shifts=shift_origin(shifts, corruptions),
                severities=parse_numbers(severities, "--severities"),
                report=not no_report,
                dry_run=dry_run,
                progress=_failures() if quiet else True,
                json_log=json_log,
                command=shlex.join(["volta", *sys.argv[1:]]),
                should_stop=should_stop,
            )
        except NotExtractedError as error:
            echo(error)
            return
    plan = run.plan
    if plan is None:
        return
    if dry_run:
        print_plan(run, plan, n_cores() if workers is None else workers)
        return
    if not quiet:
        print_standings(run)
    if plan.missing:
        failed = f"{len(plan.missing)} of {len(plan.cells)} cells failed; run the same command again to retry them"
        echo(failed, err=True)
    echo(f"run: {run.path}" if no_report else f"report: {run.path / 'report.html'}")
    if plan.missing:
        raise typer.Exit(EXIT_FAILED_CELLS)


def _failures() -> Listener:
    from rich.console import Console

    from volta.bench.progress import Failures

    return Failures(Console())
