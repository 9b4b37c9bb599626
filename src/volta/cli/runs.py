"""``volta report``, ``volta status`` and ``volta compare``: what run folders hold."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="Print the tables as md, latex, csv or html instead.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="First compute all metrics again from the stored predictions.")
    ] = False,
) -> None:
    """Rebuild tables, figures and report.html from a run folder alone."""
    from volta.bench.rescoring import recompute as recompute_metrics
    from volta.bench.store import RunStore
    from volta.report import build_report, export

    store = RunStore(run_folder)
    # Tables that are asked for on standard output stay alone there.
    say = partial(typer.echo, err=format_ is not None)
    if recompute:
        changed = recompute_metrics(store)
        n_done = sum(map(store.is_done, store.cells()))
        say(f"recomputed the metrics of {n_done} cells, {len(changed)} changed")
    typer.echo(f"report: {build_report(store, say=say)}" if format_ is None else export(store, format_, say))


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The run to compare with.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run in question.")],
) -> None:
    """Tell what changed between two runs, cell by cell, with tests: whether a change helped."""
    from volta.bench.store import RunStore
    from volta.report import compare_runs

    result = compare_runs(RunStore(run_a), RunStore(run_b), say=partial(typer.echo, err=True))
    typer.echo(result.to_text((str(run_a), str(run_b))))


def status(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Tell how a run stands, from any shell, while it runs or after."""
    from volta.bench.status import read_status
    from volta.bench.store import RunStore

    store = RunStore(run_folder)
    state = read_status(store)
    counts = {"done": state.done, "running": state.running, "failed": state.failed, "waiting": state.waiting}
    typer.echo(", ".join(f"{len(cells)} {name}" for name, cells in counts.items()))
    for cell, epochs in state.running.items():
        typer.echo(f"running  {cell.label}" + (f"  epoch {epochs[0]}/{epochs[1]}" if epochs else ""))
    for cell in state.failed:
        typer.echo(f"failed   {cell.label}  (see {store.failure(cell)})")
