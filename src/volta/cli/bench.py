"""``volta bench``: compare methods on a task."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.shifts import shift_origin
from volta.cli.stopping import stoppable
from volta.cli.text_table import print_table
from volta.core.errors import InputError
from volta.core.machine import n_cores

if TYPE_CHECKING:
    from volta.bench.config import RunConfig, TaskLoader
    from volta.bench.executors import Executor
    from volta.bench.progress import Listener
    from volta.bench.runner import RunSummary
    from volta.bench.store import RunStore
    from volta.features.extract import MapShards

EXIT_FAILED_CELLS = 1
EXECUTORS = ("auto", "local", "processes", "ray")


def bench(
    task: Annotated[str, typer.Argument(help="Task to run on; see: volta tasks.")],
    methods: Annotated[str, typer.Option(help="all, or names with commas between them; see: volta methods.")] = "all",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many seeds, or the seeds with commas between them (a single one: 42,); "
            "10 in fair and the paper's 3 in paper unless given."
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="fair (same features and encoder for all) or paper.")] = "fair",
    ablation: Annotated[bool, typer.Option("--ablation", help="Run full VOLTA and every ablation row too.")] = False,
    resplit: Annotated[
        bool | None,
        typer.Option(
            "--resplit/--no-resplit",
            help="Draw train, val and cal anew for every seed; digits does so unless told otherwise, and rotates "
            "its test rows too.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/TASK unless given.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Train at most this many epochs (a reduced run).")] = None,
    limit_train: Annotated[int | None, typer.Option(help="Train on this many rows (a reduced run).")] = None,
    limit_test: Annotated[
        int | None, typer.Option(help="Evaluate on at most this many rows of each set (a reduced run).")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Batch size in place of the recipes' own.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    executor: Annotated[str, typer.Option(help="auto, local, processes or ray.")] = "auto",
    workers: Annotated[int | None, typer.Option(help="Processes to use; as many as cores unless given.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Threads per cell, part of what decides the result; 1 on features, all cores on pixels."),
    ] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to join; a local one is started if absent.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and leave.")] = False,
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="Makes features of images: resnet18, efficientnet-lite0, FILE.onnx, hf:MODEL."),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for a named backbone.")] = None,
    severities: Annotated[str, typer.Option(help="Corruption severities with commas between them, from 1-5.")] = "1",
    shifts: Annotated[str, typer.Option(help="Corrupted sets: auto, official, generated or none.")] = "auto",
    corruptions: Annotated[
        bool,
        typer.Option("--corruptions", help="Test own images under CIFAR-10-C's 19 corruptions: --shifts generated."),
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Leave tables and figures for later: volta report RUN.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(help="What the report's tests compare with: a method, best, or all pairs (all).")
    ] = None,
    decide: Annotated[
        bool,
        typer.Option("--decide", help="Add seeds in looks (5, 10, 20, 40) until every claim or comparison is decided."),
    ] = False,
    cap: Annotated[int, typer.Option(help="With --decide: the most seeds a method may have.")] = 40,
    json_log: Annotated[Path | None, typer.Option(help="Append one JSON line per event to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but failures and the report's path.")] = False,
) -> None:
    """Compare methods on a task over seeds; run again to go on or to extend; ends with a report."""
    n_workers = workers if workers is not None else n_cores()
    _check_options(executor, n_workers, seeds, decide)
    if executor == "processes" or (executor == "auto" and n_workers > 1):
        from volta.bench.executors.processes import start_early

        start_early()
    from volta.bench.config import RunConfig, default_threads, parse_names, parse_numbers, parse_seeds
    from volta.bench.runner import run
    from volta.bench.store import RunStore
    from volta.data import LoadOptions, find_task
    from volta.features.tasks import Extraction
    from volta.methods import ABLATION, METHODS
    from volta.networks.recipe import Budget
    from volta.networks.trainer import pick_device

    options = LoadOptions(data, parse_numbers(severities, "--severities"), shift_origin(shifts, corruptions))
    source = find_task(task, data)
    names = (*parse_names(methods, list(METHODS)), *(ABLATION if ablation else ()))
    store = RunStore(out or Path("runs") / task)
    settled = store.settled()
    _check_reference(reference, (*names, *(settled.methods if settled else ())))
    if device == "auto" and settled is not None:
        device = settled.device
    if threads is None:
        threads = default_threads(source, protocol, names) if settled is None else settled.threads
    config = RunConfig(
        tasks=(task,),
        methods=names,
        protocols=(protocol,),
        seeds=parse_seeds(seeds, protocol),
        budget=Budget(max_epochs, limit_train, batch_size, limit_test),
        device=pick_device(device).type,
        threads=threads,
        options=options,
        extraction=Extraction(backbone, weights),
        resplit=settled.resplit if resplit is None and settled is not None else resplit,
    )
    if dry_run:
        _print_plan(config, store)
        return
    with stoppable() as should_stop, ExitStack() as stack:
        listener = _listener(quiet, json_log, stack)
        stack.callback(listener.finish)

        def run_cells(asked: RunConfig) -> RunSummary:
            return run(
                asked,
                store,
                listener,
                shlex.join(["volta", *sys.argv[1:]]),
                lambda tasks, n_cells: _executor(executor, asked, store, tasks, min(n_workers, n_cells), address),
                _shard_map(executor, address),
                should_stop,
            )

        if decide:
            from volta.cli.decide import looks_up_to, run_until_decided
            from volta.report.questions import judge_questions

            judge = partial(judge_questions, store, reference=reference)
            summary = run_until_decided(config, store, looks_up_to(cap), run_cells, judge, listener.message)
        else:
            summary = run_cells(config)
    _conclude(summary, store, no_report, reference)


def _conclude(summary: RunSummary, store: RunStore, no_report: bool, reference: str | None) -> None:
    """Say how the run ended and, unless told otherwise, build its report."""
    if summary.n_failed:
        failed = f"{summary.n_failed} of {summary.n_cells} cells failed; run the same command again to retry them"
        typer.echo(failed, err=True)
    if no_report:
        typer.echo(f"run: {store.root}")
    else:
        from volta.report import build_report

        typer.echo(f"report: {build_report(store, reference=reference)}")
    if summary.n_failed:
        raise typer.Exit(EXIT_FAILED_CELLS)


def _check_options(executor: str, n_workers: int, seeds: str | None, decide: bool) -> None:
    if executor not in EXECUTORS:
        raise InputError(f"--executor is {executor!r}; pass one of {', '.join(EXECUTORS)}")
    if n_workers < 1:
        raise InputError(f"--workers is {n_workers}; pass a whole number of at least 1")
    if decide and seeds is not None:
        raise InputError("--seeds and --decide exclude each other: --decide adds seeds itself, up to --cap")


def _check_reference(reference: str | None, methods: Sequence[str]) -> None:
    """Refuse before anything runs what the report would refuse after hours."""
    if reference is not None and reference not in ("best", "all", *methods):
        known = ", ".join(dict.fromkeys(methods))
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {known}")


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


def _executor(
    name: str, config: RunConfig, store: RunStore, tasks: TaskLoader, n_workers: int, address: str | None
) -> Executor:
    if name == "auto":
        n_workers = max(1, min(n_workers, n_cores() // config.threads)) if config.device == "cpu" else 1
    if name == "ray":
        from volta.bench.executors.cluster import RayExecutor

        return RayExecutor(config, store, tasks, address)
    if name == "processes" or (name == "auto" and n_workers > 1):
        from volta.bench.executors.processes import ProcessExecutor

        return ProcessExecutor(config, store, n_workers)
    from volta.bench.executors.local import LocalExecutor
    from volta.bench.job import CellRunner
    from volta.bench.network_store import DiskNetworkStore

    return LocalExecutor(CellRunner(config, DiskNetworkStore(store.networks_folder), tasks), store)


def _shard_map(executor: str, address: str | None) -> MapShards:
    if executor != "ray":
        return map
    from volta.bench.executors.cluster import ray_map

    return ray_map(address)


def _print_plan(config: RunConfig, store: RunStore) -> None:
    from volta.bench.progress import format_seconds
    from volta.bench.runner import make_plan
    from volta.features.extract import NotExtractedError

    try:
        plan = make_plan(config, store)
    except NotExtractedError:
        n_cells = len(config.tasks) * len(config.protocols) * len(config.methods) * len(config.seeds)
        backbone = f" --backbone {config.extraction.backbone}" if config.extraction.backbone else ""
        typer.echo(
            f"{n_cells} cells; images of {config.tasks[0]} lack features, so which cells are done cannot be told yet: "
            f"the run extracts them first, or: volta extract {config.tasks[0]}{backbone}"
        )
        return
    missing = set(plan.missing)
    states = {cell: "failed, to retry" if store.failure(cell) else "missing" for cell in missing}
    print_table(
        ("task", "protocol", "method", "seed", "state"),
        [(c.task, c.protocol, c.method, str(c.seed), states.get(c, "done")) for c in plan.cells],
    )
    cost = "unknown until one has run" if plan.estimated_s is None else f"about {format_seconds(plan.estimated_s)}"
    typer.echo(f"{len(plan.cells) - len(missing)} done, {len(missing)} missing; cost on one worker: {cost}")
