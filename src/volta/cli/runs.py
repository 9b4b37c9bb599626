"""``volta report`` and ``volta status``: what a run folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    recompute: Annotated[
        bool, typer.Option("--recompute", help="First compute all metrics again from the stored predictions.")
    ] = False,
) -> None:
    """Rebuild tables, figures and report.html from a run folder alone."""
    from volta.bench.scoring import recompute as recompute_metrics
    from volta.bench.store import RunStore
    from volta.report import build_report

    store = RunStore(run_folder)
    if recompute:
        changed = recompute_metrics(store)
        typer.echo(f"recomputed the metrics of {sum(map(store.is_done, store.cells()))} cells, {len(changed)} changed")
    typer.echo(f"report: {build_report(store)}")


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
