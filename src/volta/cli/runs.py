"""``volta report``, ``status``, ``compare`` and ``leaderboard``: what run folders hold."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from volta.cli.completion import complete_metrics
from volta.cli.model_files import check_new_file
from volta.cli.printing import echo
from volta.cli.references import check_reference
from volta.core.errors import InputError

EXIT_DISAGREE = 1
COMPARE_FORMATS = ("text", "markdown", "csv")


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="Print the tables as md, latex, csv or html instead.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="First compute all metrics again from the stored predictions.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(help="What the tests compare with: a method, best, or all pairs (all).")
    ] = None,
) -> None:
    """Rebuild tables, figures and report.html from a run folder alone."""
    from volta.bench.rescoring import recompute as recompute_metrics
    from volta.bench.store import RunStore
    from volta.report import build_report, export

    store = RunStore(run_folder)
    # Tables that are asked for on standard output stay alone there.
    say = partial(echo, err=format_ is not None)
    check_reference(reference, (cell.method for cell in store.cells()))
    if recompute:
        changed = recompute_metrics(store)
        n_done = sum(map(store.is_done, store.cells()))
        say(f"recomputed the metrics of {n_done} cells, {len(changed)} changed")
    if format_ is None:
        echo(f"report: {build_report(store, say=say, reference=reference)}")
    else:
        echo(export(store, format_, say, reference))


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The run to compare with.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run in question.")],
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metrics with commas between them; see: volta metrics. On a set: ece@test+T, auroc@near:.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="text, markdown or csv.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --out if it exists.")] = False,
) -> None:
    """Tell what changed between two runs, on the seeds both have, with tests: whether a change helped."""
    if format_ not in COMPARE_FORMATS:
        raise InputError(f"--format is {format_!r}; pass one of {', '.join(COMPARE_FORMATS)}")
    if out is not None:
        check_new_file(out, force)
        _refuse_files_of_runs(out, run_a, run_b)
    from volta.bench.store import RunStore
    from volta.core.files import write_text
    from volta.report import compare_runs
    from volta.report.compare import DEFAULT_METRICS

    named = [part.strip() for part in (metric or "").split(",") if part.strip()]
    result = compare_runs(RunStore(run_a), RunStore(run_b), named or DEFAULT_METRICS, say=partial(echo, err=True))
    if not result.rows:
        first, second = (next(iter(only), "nothing") for only in (result.only_a, result.only_b))
        raise InputError(
            f"{run_a} and {run_b} share no task, protocol, method and seed; there is nothing to compare (only one has "
            f"{first}, only the other {second}; own predictions of the same rows need the same volta evaluate --task)"
        )
    titles = str(run_a), str(run_b)
    texts = {"text": result.to_text, "markdown": result.to_markdown}
    text = texts[format_](titles) if format_ in texts else result.to_csv()
    if out is None:
        echo(text, nl=False)
    else:
        write_text(out, text)
        echo(f"comparison: {out}")


def _refuse_files_of_runs(out: Path, *runs: Path) -> None:
    """Refuse to replace a file in one of the ``runs``, whatever was told: what a run needs lies there."""
    if out.exists() and any(run.resolve() in out.resolve().parents for run in runs):
        raise InputError(f"--out is {out}, a file in a run folder, where none is replaced; name another file")


def leaderboard(
    run_folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for leaderboard.html and leaderboard.csv.")] = Path("leaderboard"),
) -> None:
    """Make one sortable page and a CSV over many runs, every value computed again from stored predictions."""
    from volta.bench.store import RunStore
    from volta.report.joint_leaderboard import joint_leaderboard
    from volta.report.joint_page import write_joint_leaderboard

    if out.suffix in (".html", ".csv") or out.is_file():
        raise InputError(f"--out is {out}, a file; name the folder that leaderboard.html and leaderboard.csv go into")
    if RunStore(out).has_manifest:
        raise InputError(f"--out is {out}, a run folder with a leaderboard.csv of its own; name another folder")
    found = joint_leaderboard(run_folders, say=echo)
    if not found.groups:
        raise InputError(f"no finished cell in {', '.join(map(str, run_folders))}; run volta bench first")
    for problem in found.problems:
        echo(f"does not agree: {problem}", err=True)
    for path in write_joint_leaderboard(found, out):
        echo(f"leaderboard: {path}")
    if found.problems:
        raise typer.Exit(EXIT_DISAGREE)


def status(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Tell how a run stands, from any shell, while it runs or after."""
    from volta.bench.status import read_status
    from volta.bench.store import RunStore

    store = RunStore(run_folder)
    state = read_status(store)
    counts = {"done": state.done, "running": state.running, "failed": state.failed, "waiting": state.waiting}
    echo(", ".join(f"{len(cells)} {name}" for name, cells in counts.items()))
    for cell, epochs in state.running.items():
        echo(f"running  {cell.label}" + (f"  epoch {epochs[0]}/{epochs[1]}" if epochs else ""))
    for cell in state.failed:
        echo(f"failed   {cell.label}  (see {store.failure(cell)})")
