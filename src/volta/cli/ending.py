"""What ``volta bench`` says at its two ends: what would run, and the result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from volta.cli.printing import echo, printable
from volta.cli.text_table import table_console

if TYPE_CHECKING:
    from volta.bench.config import RunConfig
    from volta.bench.progress import Listener
    from volta.bench.runner import RunSummary
    from volta.bench.store import RunStore
    from volta.features.extract import NotExtractedError
    from volta.networks.recipe import Budget
    from volta.stats import LeaderboardRow, Results

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

    from volta.report.standings import standings

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
    from volta.features.stored_sets import NotCheckedError

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
