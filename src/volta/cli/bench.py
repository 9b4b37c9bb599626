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
from volta.stats import SCHEDULE, InterimAnalysis, Question, alpha_at, decide

if TYPE_CHECKING:
    from volta.bench.progress import Listener
    from volta.core.scaling import ScaleName
    from volta.data.task import ShiftOrigin
    from volta.features.extract import NotExtractedError
    from volta.networks.recipe import Budget
    from volta.stats import LeaderboardRow, Results


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


def check_reference(reference: str | None, methods: Iterable[str]) -> None:
    """Raise unless the reference is best, all, or one of the methods."""
    if reference is None:
        return
    known = dict.fromkeys(methods)
    if reference not in ("best", "all", *known):
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {', '.join(known)}")


def shift_origin(shifts: str, corruptions: bool) -> ShiftOrigin:
    """Return ``--shifts``, or ``generated`` where ``--corruptions`` asks for it."""
    if corruptions and shifts not in ("auto", "generated"):
        raise InputError(f"--corruptions generates corrupted test sets but --shifts is {shifts!r}; pass one of the two")
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
    """Print the result of a run and the path of its report, which is built unless ``no_report``."""
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
    """Print which cells would run, and their estimated time."""
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
        echo(f"{n_failed} of them failed before and will be retried; see: volta status {store.root}")
    cost = "unknown until one has run"
    if plan.estimate is not None:
        seconds, n_used = plan.estimate.seconds, max(1, min(n_workers, len(plan.missing)))
        spread = f", {format_seconds(seconds / n_used)} on {n_used}" if n_used > 1 else ""
        cost = f"about {format_seconds(seconds)}{spread} (from {plan.estimate.n_measured} cells measured)"
    n_missing = len(plan.missing)
    echo(f"{len(plan.cells) - n_missing} done, {n_missing} missing; cost on one worker: {cost}")


def _before_features(config: RunConfig, error: NotExtractedError) -> str:
    """Return the plan of a run whose features are missing or not yet checked against the backbone."""
    from volta.features.tasks import NotCheckedError

    n_cells = len(config.tasks) * len(config.protocols) * len(config.methods) * len(config.seeds)
    extraction, options, task = config.extraction, config.options, config.tasks[0]
    words: dict[str, object] = {"--backbone": extraction.backbone, "--weights": extraction.weights}
    shifts = options.shifts == "generated" and config.source(task).has_features(options)
    if shifts:
        severities = ",".join(map(str, options.severities))
        words |= {"--only": "shifts", "--shifts": "generated", "--severities": severities}
    words |= {"--limit-test": options.limit_test, "--data": options.root}
    asked = "".join(f" {option} {value}" for option, value in words.items() if value is not None)
    command = f"volta extract {task}{asked}"
    if isinstance(error, NotCheckedError):
        checks = f"the run does that first, or: {command}" if shifts else "the run does that first"
        return f"{n_cells} cells; {error}, so finished cells are not known yet: {checks}"
    return (
        f"{n_cells} cells; images of {task} lack features, so finished cells are not known yet: the run "
        f"extracts them first, or: {command}"
    )


Judge = Callable[[Sequence[int], float], list[Question]]
"""(seeds, level) → every question, tested on those seeds at that level."""


def analyses_up_to(cap: int, schedule: Sequence[int] = SCHEDULE) -> tuple[int, ...]:
    """Return the analyses below ``cap``, and one at it.

    >>> analyses_up_to(40), analyses_up_to(12)
    ((5, 10, 20, 40), (5, 10, 12))
    """
    if cap < 2:
        raise InputError(f"--cap is {cap}; pass a maximum number of seeds, at least 2")
    return (*(n for n in schedule if n < cap), cap)


def run_until_decided(
    config: RunConfig,
    store: RunStore,
    schedule: Sequence[int],
    run_cells: Callable[[RunConfig], RunSummary],
    judge: Judge,
    say: Callable[[str], object],
) -> RunSummary:
    """Run ``config``'s methods at each interim analysis until no question is open; return how all of it ended.

    After an analysis only the methods of open questions continue, the cheapest first. An analysis uses its own seeds
    alone, whatever else the folder holds, so an interrupted run resumes to the same verdicts. A folder has one
    schedule: another would use the alpha budget twice on the same seeds.
    """
    stored = read_analyses(store)
    if stored is not None and stored.schedule != tuple(schedule):
        raise InputError(
            f"--cap asks for interim analyses at {_listed(schedule)} seeds, but {store.root} has them at "
            f"{_listed(stored.schedule)}, and its alpha budget is used; pass --cap {stored.schedule[-1]}, or another "
            "--out with other seeds or test samples"
        )
    given = {question.key: question for question in stored.decided} if stored is not None else {}
    earlier: InterimAnalysis | None = None
    names = config.methods
    total = RunSummary(0, 0, 0)
    for n_seeds in schedule:
        seeds = first_seeds(n_seeds)
        done = run_cells(replace(config, methods=names, seeds=seeds))
        total = RunSummary(
            max(total.n_cells, done.n_cells), total.n_run + done.n_run, max(total.n_failed, done.n_failed)
        )
        questions = judge(seeds, alpha_at(n_seeds, schedule))
        if not questions:
            raise InputError(
                "--decide has no question: run volta, or another --reference, and methods to compare it with"
            )
        questions = [_as_given(question, given, n_seeds) for question in questions]
        earlier = decide(questions, earlier, n_seeds, schedule, seconds=seconds_of(store))
        write_analyses(store, schedule, earlier)
        for line in analysis_lines(earlier):
            say(line)
        if earlier.finished:
            break
        names = tuple(name for name in earlier.methods if name in config.methods) or names
    return total


def _as_given(question: Question, given: Mapping[str, Question], n_seeds: int) -> Question:
    """Return a question with its stored verdict, if an analysis of at most ``n_seeds`` gave it."""
    stored = given.get(question.key)
    if stored is None:
        return question
    return stored if stored.n_seeds <= n_seeds else replace(question, verdict="")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def seconds_of(store: RunStore) -> dict[str, float]:
    """Return method → the median seconds of its finished cells."""
    found: dict[str, list[float]] = {}
    for record in store.records():
        found.setdefault(record.cell.method, []).append(record.wall_s)
    return {method: statistics.median(values) for method, values in found.items()}


def analysis_lines(analysis: InterimAnalysis) -> list[str]:
    """Return an interim analysis in lines: decided questions, open ones, and their cost."""
    n_all = len(analysis.decided) + len(analysis.open)
    lines = [
        f"interim analysis at {analysis.n_seeds} seeds, level {analysis.alpha:.4f}: {len(analysis.decided)} of {n_all} "
        "questions decided"
    ]
    lines += [f"  decided  {one.key}: {one.verdict} (at {one.n_seeds} seeds)" for one in analysis.decided]
    for one in analysis.open:
        cost = analysis.cost_s.get(one.key)
        words = "" if cost is None else f"; the next analysis takes about {format_seconds(cost)} on one worker"
        needed = "" if one.seeds_needed is None else f"; about {one.seeds_needed} seeds should decide it"
        lines.append(f"  open     {one.key}{needed}{words}")
    if analysis.open and analysis.next_analysis is None:
        lines.append(f"the cap of {analysis.n_seeds} seeds is reached; open questions are inconclusive")
    elif analysis.open:
        lines.append(
            f"continuing to {analysis.next_analysis} seeds with {len(analysis.methods)} methods: "
            f"{', '.join(analysis.methods)}"
        )
    return lines


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
    from volta.api import Execution

    execution = Execution(executor, workers, address, networks_of)
    if decide and seeds is not None:
        raise InputError("--seeds and --decide exclude each other: --decide adds seeds up to --cap")
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
    """Raise before the run where the report would raise after it."""
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
