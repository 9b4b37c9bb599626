"""``volta bench``: compare methods on tasks."""

from __future__ import annotations

import os
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.bench.config import RunConfig
from volta.bench.progress import format_seconds
from volta.bench.runner import RunSummary
from volta.bench.store import RunStore
from volta.cli.terminal import echo, printable, stoppable, table_console
from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.report.statistics import read_analyses, write_analyses
from volta.stats import LOOKS, InterimAnalysis, Question, alpha_at, decide

if TYPE_CHECKING:
    from volta.bench.progress import Listener
    from volta.core.scaling import ScaleName
    from volta.data.task import ShiftOrigin
    from volta.features.extract import NotExtractedError
    from volta.networks.recipe import Budget
    from volta.stats import LeaderboardRow, Results


def complete_tasks(incomplete: str) -> list[str]:
    """Return tasks that go on from what was typed."""
    from volta.data import all_tasks

    return continued(incomplete, all_tasks())


def complete_methods(incomplete: str) -> list[str]:
    """Return methods that go on from what was typed."""
    from volta.methods import method_names

    return continued(incomplete, ["standard", "all", *method_names()])


def complete_metrics(incomplete: str) -> list[str]:
    """Return metrics that go on from what was typed."""
    from volta.metrics import METRICS

    return continued(incomplete, METRICS)


def continued(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the list typed so far with its last name completed in every way there is.

    >>> continued("digits,ci", ["digits", "cifar10", "cifar100"])
    ['digits,cifar10', 'digits,cifar100']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def import_from_here() -> None:
    """Let ``module:Class`` name a module of the folder that the command is run in."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


def check_reference(reference: str | None, methods: Iterable[str]) -> None:
    """Refuse what is neither best, nor all, nor one of the methods."""
    if reference is None:
        return
    known = dict.fromkeys(methods)
    if reference not in ("best", "all", *known):
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {', '.join(known)}")


def shift_origin(shifts: str, corruptions: bool) -> ShiftOrigin:
    """Return ``--shifts``, or ``generated`` where ``--corruptions`` asks for it."""
    if corruptions and shifts not in ("auto", "generated"):
        raise InputError(f"--corruptions generates shifts but --shifts is {shifts!r}; pass one of the two")
    return "generated" if corruptions else cast("ShiftOrigin", shifts)


EXIT_FAILED_CELLS = 1


def conclude(
    summary: RunSummary,
    store: RunStore,
    listener: Listener,
    *,
    budget: Budget,
    no_report: bool,
    reference: str | None,
    quiet: bool,
) -> None:
    """Say how the run ended: its result, and where it is; build its report unless told otherwise."""
    if no_report:
        from volta.stats import load_tables, make_leaderboard, without_rows

        tables = load_tables(store)
        rows = [] if quiet else make_leaderboard(tables, without_rows(tables))
        found, place = (tables, rows), f"run: {store.root}"
    else:
        from volta.report import make_report

        listener.phase("statistics, figures and report")
        built = make_report(store, reference=reference)
        found, place = (built.run.tables, built.statistics.leaderboard), f"report: {built.path}"
    listener.finish()
    if not quiet:
        _print_standings(*found, budget)
    if summary.n_failed:
        failed = f"{summary.n_failed} of {summary.n_cells} cells failed; run the same command again to retry them"
        echo(failed, err=True)
    echo(place)
    if summary.n_failed:
        raise typer.Exit(EXIT_FAILED_CELLS)


def _print_standings(tables: list[Results], rows: list[LeaderboardRow], budget: Budget) -> None:
    from rich import box
    from rich.table import Table

    from volta.report.page import standings

    console = table_console()
    for table in tables:
        found = standings(table, rows, budget)
        shown = Table(title=found.title, title_justify="left", caption=found.legend, caption_justify="left")
        shown.box = box.SIMPLE_HEAD
        for place, column in enumerate(found.columns):
            shown.add_column(column, justify="left" if place == 1 else "right")
        for row in found.rows:
            shown.add_row(*map(printable, row))
        console.print(shown, markup=False, highlight=False)


def print_plan(config: RunConfig, store: RunStore, n_workers: int) -> None:
    """Say in a few lines what would run and how long that may take."""
    from volta.bench.progress import format_seconds
    from volta.bench.runner import make_plan
    from volta.features.extract import NotExtractedError

    try:
        plan = make_plan(config, store)
    except NotExtractedError as error:
        echo(_before_features(config, error))
        return
    echo(
        f"{', '.join(config.tasks)} · {', '.join(config.protocols)}: {len(config.methods)} methods × "
        f"{len(config.seeds)} seeds" + (f" × {len(config.tasks)} tasks" if len(config.tasks) > 1 else "")
    )
    waiting = Counter(cell.method for cell in plan.missing)
    if plan.missing:
        echo(f"to run: {', '.join(f'{method} ({count})' for method, count in waiting.items())}")
    if n_failed := sum(store.failure(cell) is not None for cell in plan.missing):
        echo(f"{n_failed} of them failed before and are tried again; see: volta status {store.root}")
    cost = "unknown until one has run"
    if plan.estimate is not None:
        seconds, n_used = plan.estimate.seconds, max(1, min(n_workers, len(plan.missing)))
        spread = f", {format_seconds(seconds / n_used)} on {n_used}" if n_used > 1 else ""
        cost = f"about {format_seconds(seconds)}{spread} (from {plan.estimate.n_measured} cells measured)"
    n_missing = len(plan.missing)
    echo(f"{len(plan.cells) - n_missing} done, {n_missing} missing; cost on one worker: {cost}")


def _before_features(config: RunConfig, error: NotExtractedError) -> str:
    """Return what a plan can say while it waits for features, or for whether stored ones are the backbone's."""
    from volta.features.tasks import NotCheckedError

    n_cells = len(config.tasks) * len(config.protocols) * len(config.methods) * len(config.seeds)
    extraction, options, task = config.extraction, config.options, config.tasks[0]
    words: dict[str, object] = {"--backbone": extraction.backbone, "--weights": extraction.weights}
    shifts = options.shifts == "generated" and config.source(task).features.is_there(options.folder)
    if shifts:
        severities = ",".join(map(str, options.severities))
        words |= {"--only": "shifts", "--shifts": "generated", "--severities": severities}
    words |= {"--limit-test": options.limit_test, "--data": options.root}
    asked = "".join(f" {option} {value}" for option, value in words.items() if value is not None)
    command = f"volta extract {task}{asked}"
    if isinstance(error, NotCheckedError):
        checks = f"the run does that first, or: {command}" if shifts else "the run does that first"
        return f"{n_cells} cells; {error}, so which cells are done cannot be told yet: {checks}"
    return (
        f"{n_cells} cells; images of {task} lack features, so which cells are done cannot be told yet: the run "
        f"extracts them first, or: {command}"
    )


Judge = Callable[[Sequence[int], float], list[Question]]
"""(seeds, level) → every question, judged on those seeds at that level."""


def analyses_up_to(cap: int, looks: Sequence[int] = LOOKS) -> tuple[int, ...]:
    """Return the looks below ``cap``, and one at it.

    >>> looks_up_to(40), looks_up_to(12)
    ((5, 10, 20, 40), (5, 10, 12))
    """
    if cap < 2:
        raise InputError(f"--cap is {cap}; pass how many seeds a method may have at most, at least 2")
    return (*(look for look in looks if look < cap), cap)


def run_until_decided(
    config: RunConfig,
    store: RunStore,
    looks: Sequence[int],
    run_cells: Callable[[RunConfig], RunSummary],
    judge: Judge,
    say: Callable[[str], object],
) -> RunSummary:
    """Run ``config``'s methods at each look until ``judge`` leaves nothing open; return how all of it ended.

    Each look goes on with the methods that open questions need, the cheapest first. Verdicts rest on the seeds of their
    look alone, whatever more the folder holds, so that a run that was interrupted goes on to the same ones. Looks are
    declared once for a folder: with others the error would be spent again on seeds that were looked at before.
    """
    stored = read_analyses(store)
    if stored is not None and stored.looks != tuple(looks):
        raise InputError(
            f"--cap asks for looks at {_listed(looks)} seeds, but those declared for {store.root} are "
            f"{_listed(stored.looks)}, and the errors they allow are spent; go on with --cap {stored.looks[-1]}, or "
            "decide anew, on other seeds or rows, in another --out"
        )
    given = {question.key: question for question in stored.decided} if stored is not None else {}
    earlier: InterimAnalysis | None = None
    names = config.methods
    total = RunSummary(0, 0, 0)
    for n_seeds in looks:
        seeds = first_seeds(n_seeds)
        done = run_cells(replace(config, methods=names, seeds=seeds))
        total = RunSummary(
            max(total.n_cells, done.n_cells), total.n_run + done.n_run, max(total.n_failed, done.n_failed)
        )
        questions = judge(seeds, alpha_at(n_seeds, looks))
        if not questions:
            raise InputError(
                "there is nothing to decide: run volta or another --reference together with methods to compare it with"
            )
        questions = [_as_given(question, given, n_seeds) for question in questions]
        earlier = decide(questions, earlier, n_seeds, looks, seconds=seconds_of(store))
        write_analyses(store, looks, earlier)
        for line in analysis_lines(earlier):
            say(line)
        if earlier.finished:
            break
        names = tuple(name for name in earlier.methods if name in config.methods) or names
    return total


def _as_given(question: Question, given: Mapping[str, Question], n_seeds: int) -> Question:
    """Return a question as an earlier call left it: with its verdict from the look that gave it, and open before."""
    stored = given.get(question.key)
    if stored is None:
        return question
    return stored if stored.n_seeds <= n_seeds else replace(question, verdict="")


def _listed(looks: Sequence[int]) -> str:
    return ", ".join(map(str, looks))


def seconds_of(store: RunStore) -> dict[str, float]:
    """Return method → the median seconds of its finished cells."""
    found: dict[str, list[float]] = {}
    for record in store.records():
        found.setdefault(record.cell.method, []).append(record.wall_s)
    return {method: statistics.median(values) for method, values in found.items()}


def analysis_lines(look: InterimAnalysis) -> list[str]:
    """Return what a look says: what is decided, what is not, and what that would cost."""
    n_all = len(look.decided) + len(look.open)
    lines = [f"look at {look.n_seeds} seeds, tests at level {look.alpha:.4f}: {len(look.decided)} of {n_all} decided"]
    lines += [f"  decided  {one.key}: {one.verdict} (at {one.n_seeds} seeds)" for one in look.decided]
    for one in look.open:
        cost = look.cost_s.get(one.key)
        words = "" if cost is None else f"; the next look costs about {format_seconds(cost)} on one worker"
        needed = "" if one.seeds_needed is None else f"; about {one.seeds_needed} seeds should decide it"
        lines.append(f"  open     {one.key}{needed}{words}")
    if look.open and look.next_analysis is None:
        lines.append(f"the cap of {look.n_seeds} seeds is reached; what is open stays open")
    elif look.open:
        lines.append(
            f"going on to {look.next_analysis} seeds with {len(look.methods)} methods: {', '.join(look.methods)}"
        )
    return lines


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
    from volta.api import Execution

    execution = Execution(executor, workers, address, networks_of)
    if decide and seeds is not None:
        raise InputError("--seeds and --decide exclude each other: --decide adds seeds itself, up to --cap")
    import_from_here()
    execution.start_early()
    from volta.api import default_folder, make_config
    from volta.bench.config import parse_methods, parse_numbers, parse_seeds
    from volta.bench.store import RunStore
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
            from volta.report.statistics import answer_questions

            judge = partial(answer_questions, store, reference=reference)
            summary = run_until_decided(config, store, analyses_up_to(cap), run_cells, judge, listener.message)
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

    from volta.bench.progress import Bar, Both, Failures, JsonLog, Lines

    console = Console()
    shown: Listener = Failures(console) if quiet else Bar(console) if console.is_terminal else Lines(console)
    if json_log is None:
        return shown
    try:
        file = stack.enter_context(json_log.open("a", encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--json-log {json_log} cannot be written: {error.strerror}; name another file") from error
    return Both(shown, JsonLog(file))
