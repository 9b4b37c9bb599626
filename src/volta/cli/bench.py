"""``volta bench``: compare methods on tasks."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.cli.completion import complete_methods, complete_tasks
from volta.cli.ending import conclude, print_plan
from volta.cli.own_modules import import_from_here
from volta.cli.references import check_reference
from volta.cli.shifts import shift_origin
from volta.cli.stopping import stoppable
from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.bench.config import RunConfig
    from volta.bench.progress import Listener
    from volta.bench.runner import RunSummary
    from volta.core.scaling import ScaleName

WHAT = "What is compared"
DATA = "Data"
LIMITS = "A smaller run"
WHERE = "Where it runs"
RESULT = "What comes out"


def bench(
    task: Annotated[
        str,
        typer.Argument(
            help="Task to run on, or several with commas between them; see: volta tasks.", autocompletion=complete_tasks
        ),
    ],
    methods: Annotated[
        str,
        typer.Option(
            help="paper (VOLTA and its ten baselines), standard, all, or names with commas between them, see: volta "
            "methods. Parameters as in knn(k=10); a class of your own as package.module:Class.",
            autocompletion=complete_methods,
            rich_help_panel=WHAT,
        ),
    ] = "standard",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many seeds, or the seeds with commas between them (a single one: 42,); "
            "10 in fair and the paper's 3 in paper unless given.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="fair (same features and encoder for all) or paper.", rich_help_panel=WHAT)
    ] = "fair",
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Run full VOLTA and every ablation row too.", rich_help_panel=WHAT)
    ] = False,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="Add seeds in looks (5, 10, 20, 40) until every claim or comparison is decided.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    cap: Annotated[
        int, typer.Option(help="With --decide: the most seeds a method may have.", rich_help_panel=WHAT)
    ] = 40,
    resplit: Annotated[
        bool | None,
        typer.Option(
            "--resplit/--no-resplit",
            help="Draw train, val and cal anew for every seed; digits does so unless told otherwise, and rotates "
            "its test rows too.",
            rich_help_panel=DATA,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="How columns are scaled, alike for every method: auto (own data, on its training rows), standard or "
            "none.",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.", rich_help_panel=DATA),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Makes features of images: resnet18, efficientnet-lite0, FILE.onnx, timm:NAME, hf:MODEL, a plug-in's.",
            rich_help_panel=DATA,
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights file for a named backbone.", rich_help_panel=DATA)
    ] = None,
    severities: Annotated[
        str, typer.Option(help="Corruption severities with commas between them, from 1-5.", rich_help_panel=DATA)
    ] = "1",
    shifts: Annotated[
        str, typer.Option(help="Corrupted sets: auto, official, generated or none.", rich_help_panel=DATA)
    ] = "auto",
    corruptions: Annotated[
        bool,
        typer.Option(
            "--corruptions",
            help="Test own images under CIFAR-10-C's 19 corruptions: --shifts generated.",
            rich_help_panel=DATA,
        ),
    ] = False,
    max_epochs: Annotated[
        int | None, typer.Option(help="Train at most this many epochs.", rich_help_panel=LIMITS)
    ] = None,
    limit_train: Annotated[int | None, typer.Option(help="Train on this many rows.", rich_help_panel=LIMITS)] = None,
    limit_test: Annotated[
        int | None, typer.Option(help="Evaluate on at most this many rows of each set.", rich_help_panel=LIMITS)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Batch size in place of the recipes' own.", rich_help_panel=LIMITS)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=WHERE)] = "auto",
    executor: Annotated[str, typer.Option(help="auto, local, processes or ray.", rich_help_panel=WHERE)] = "auto",
    workers: Annotated[
        int | None, typer.Option(help="Processes to use; as many as cores unless given.", rich_help_panel=WHERE)
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads per cell, part of what decides the result; 1 unless given.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    networks_of: Annotated[
        Path | None,
        typer.Option(help="Run folder whose trained networks are taken where they fit.", rich_help_panel=WHERE),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to join; a local one is started if absent.", rich_help_panel=WHERE)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/TASK unless given.", rich_help_panel=RESULT)
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="What the report's tests compare with: a method, best, or all pairs (all).", rich_help_panel=RESULT
        ),
    ] = None,
    no_report: Annotated[
        bool,
        typer.Option(
            "--no-report", help="Leave tables and figures for later: volta report RUN.", rich_help_panel=RESULT
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and leave.", rich_help_panel=RESULT)
    ] = False,
    json_log: Annotated[
        Path | None, typer.Option(help="Append one JSON line per event to this file.", rich_help_panel=RESULT)
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Say nothing but failures and the report's path.", rich_help_panel=RESULT),
    ] = False,
) -> None:
    """Compare methods on tasks over seeds; run again to go on or to extend; ends with the result and a report."""
    from volta.benchmarking.execution import Execution

    execution = Execution(executor, workers, address, networks_of)
    if decide and seeds is not None:
        raise InputError("--seeds and --decide exclude each other: --decide adds seeds itself, up to --cap")
    import_from_here()
    execution.start_early()
    from volta.bench.config import parse_methods, parse_numbers, parse_seeds
    from volta.bench.store import RunStore
    from volta.benchmarking.request import default_folder, make_config
    from volta.data import LoadOptions, find_task
    from volta.features.tasks import Extraction
    from volta.methods import ABLATION
    from volta.networks.recipe import Budget

    options = LoadOptions(
        data,
        parse_numbers(severities, "--severities"),
        shift_origin(shifts, corruptions),
        scale=cast("ScaleName", scale),
    )
    tasks = [name.strip() for name in task.split(",") if name.strip()]
    for name in tasks:
        find_task(name, data)
    names = (*parse_methods(methods, protocol), *(ABLATION if ablation else ()))
    store = RunStore(out or default_folder(tasks))
    settled = store.settled()
    _check_reference(reference, (*names, *(settled.methods if settled else ())), decide=decide)
    config = make_config(
        store,
        tasks=tasks,
        methods=names,
        protocol=protocol,
        seeds=parse_seeds(seeds, protocol),
        budget=Budget(max_epochs, limit_train, batch_size, limit_test),
        device=device,
        threads=threads,
        options=options,
        extraction=Extraction(backbone, weights),
        resplit=resplit,
    )
    if dry_run:
        print_plan(config, store, execution.n_workers)
        return
    with stoppable() as should_stop, ExitStack() as stack:
        listener = _listener(quiet, json_log, stack)
        stack.callback(listener.finish)

        def run_cells(asked: RunConfig) -> RunSummary:
            return execution.run(asked, store, listener, shlex.join(["volta", *sys.argv[1:]]), should_stop)

        if decide:
            from volta.cli.looks import looks_up_to, run_until_decided
            from volta.report.questions import judge_questions

            judge = partial(judge_questions, store, reference=reference)
            summary = run_until_decided(config, store, looks_up_to(cap), run_cells, judge, listener.message)
        else:
            summary = run_cells(config)
        conclude(
            summary,
            store,
            listener,
            budget=config.budget,
            no_report=no_report,
            reference=reference,
            quiet=quiet,
        )


def _check_reference(reference: str | None, methods: Sequence[str], *, decide: bool) -> None:
    """Refuse before anything runs what the report would refuse after hours."""
    if decide and reference is None and "volta" not in methods:
        raise InputError("--decide compares with volta, which is not among the methods; name one with --reference")
    check_reference(reference, methods)


def _listener(quiet: bool, json_log: Path | None, stack: ExitStack) -> Listener:
    from rich.console import Console

    from volta.bench.logs import Both, JsonLog
    from volta.bench.progress import Bar, Failures, Lines

    console = Console()
    shown: Listener = Failures(console) if quiet else Bar(console) if console.is_terminal else Lines(console)
    if json_log is None:
        return shown
    try:
        file = stack.enter_context(json_log.open("a", encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--json-log {json_log} cannot be written: {error.strerror}; name another file") from error
    return Both(shown, JsonLog(file))
