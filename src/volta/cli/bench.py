"""``volta bench``: compare methods on tasks."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.cli.terminal import echo, printable, stoppable, table_console
from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.api import Run
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


# An option under each heading of the command's help.
_comparison = partial(typer.Option, rich_help_panel="Comparison")
_data = partial(typer.Option, rich_help_panel="Data")
_reduced = partial(typer.Option, rich_help_panel="Reduced run")
_execution = partial(typer.Option, rich_help_panel="Execution")
_output = partial(typer.Option, rich_help_panel="Output")


def bench(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="Task, or several separated by commas; see: volta tasks.",
            autocompletion=complete_tasks,
        ),
    ],
    methods: Annotated[
        str,
        _comparison(
            help="paper (VOLTA and its ten baselines), standard, all, or names separated by commas; see: volta "
            "methods. Parameters: knn(k=10). Custom class: package.module:Class.",
            autocompletion=complete_methods,
        ),
    ] = "standard",
    seeds: Annotated[
        str | None,
        _comparison(
            help="Number of seeds, or seeds separated by commas (a single one: 42,). Default: 10 under fair, 3 under "
            "paper."
        ),
    ] = None,
    protocol: Annotated[str, _comparison(help="fair (same features and encoder for all methods) or paper.")] = "fair",
    ablation: Annotated[bool, _comparison("--ablation", help="Also run full VOLTA and every ablation row.")] = False,
    decide: Annotated[
        bool,
        _comparison(
            "--decide",
            help="Sequential testing: add seeds at interim analyses (5, 10, 20, 40) until every question is decided.",
        ),
    ] = False,
    cap: Annotated[int, _comparison(help="With --decide: maximum number of seeds.")] = 40,
    resplit: Annotated[
        bool | None,
        _data(
            "--resplit/--no-resplit",
            help="Draw new train, val and cal splits for every seed. Default for digits, which also rotates its test "
            "set.",
        ),
    ] = None,
    scale: Annotated[
        str,
        _data(
            help="Feature scaling, the same for every method: auto (imported data, fitted on the training set), "
            "standard or none."
        ),
    ] = "auto",
    data: Annotated[Path | None, _data(help="Data folder. Default: VOLTA_DATA, else the cache folder.")] = None,
    backbone: Annotated[
        str | None,
        _data(
            help="Feature extractor for images: resnet18, efficientnet-lite0, FILE.onnx, timm:NAME, hf:MODEL, plug-in."
        ),
    ] = None,
    weights: Annotated[Path | None, _data(help="Weights file for a named backbone.")] = None,
    severities: Annotated[str, _data(help="Corruption severities from 1 to 5, separated by commas.")] = "1",
    shifts: Annotated[str, _data(help="Corrupted test sets: auto, official, generated or none.")] = "auto",
    corruptions: Annotated[
        bool,
        _data(
            "--corruptions", help="Corrupt imported test images with CIFAR-10-C's 19 corruptions (--shifts generated)."
        ),
    ] = False,
    max_epochs: Annotated[int | None, _reduced(help="Maximum number of epochs.")] = None,
    limit_train: Annotated[int | None, _reduced(help="Number of training samples.")] = None,
    limit_test: Annotated[int | None, _reduced(help="Maximum number of samples of each evaluation set.")] = None,
    batch_size: Annotated[int | None, _reduced(help="Batch size, instead of the recipe's.")] = None,
    device: Annotated[str, _execution(help="auto, cpu, cuda or mps.")] = "auto",
    executor: Annotated[str, _execution(help="auto, local, processes or ray.")] = "auto",
    workers: Annotated[int | None, _execution(help="Number of processes. Default: number of cores.")] = None,
    threads: Annotated[int | None, _execution(help="Threads per cell; the result depends on it. Default: 1.")] = None,
    amp: Annotated[
        bool | None, _execution("--amp/--no-amp", help="Automatic mixed precision (GPU). Default: no.")
    ] = None,
    deterministic: Annotated[
        bool | None,
        _execution("--deterministic/--no-deterministic", help="Deterministic algorithms only (GPU). Default: no."),
    ] = None,
    networks_of: Annotated[
        Path | None, _execution(help="Run folder whose trained networks are reused where they match.")
    ] = None,
    address: Annotated[str | None, _execution(help="Ray cluster to join. Default: start a local one.")] = None,
    out: Annotated[Path | None, _output(help="Run folder. Default: runs/TASK.")] = None,
    reference: Annotated[
        str | None, _output(help="Reference of the report's tests: a method, best, or all (all pairs).")
    ] = None,
    no_report: Annotated[
        bool, _output("--no-report", help="Write no report; make it later with volta report RUN.")
    ] = False,
    dry_run: Annotated[bool, _output("--dry-run", help="Print what would run, then exit.")] = False,
    json_log: Annotated[Path | None, _output(help="Append one JSON line per event to this file.")] = None,
    quiet: Annotated[bool, _output("--quiet", help="Print failures and the report's path only.")] = False,
) -> None:
    """Compare methods on tasks over seeds and write a report. Runs are resumable and can be extended."""
    import_from_here()
    from rich.console import Console

    from volta.api import benchmark
    from volta.bench.config import parse_numbers, parse_seeds
    from volta.bench.progress import Failures
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
                progress=Failures(Console(markup=False, emoji=False)) if quiet else True,
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
