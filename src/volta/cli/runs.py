"""``volta report, status, compare, leaderboard, evaluate, calibrate``: run folders and external predictions."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.bench import complete_metrics
from volta.cli.model import check_new_file, check_not_read
from volta.cli.terminal import echo, print_table
from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.bench.store import RunStore
    from volta.predictions.matching import Destination


EXIT_DISAGREE = 1
COMPARE_FORMATS = ("text", "markdown", "csv")


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="Print the tables as md, latex, csv or html instead.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="First recompute all metrics from the stored predictions.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(help="Reference of the tests: a method, best, or all (all pairs).")
    ] = None,
    style: Annotated[str, typer.Option(help="Style of the figures for print: plain, neurips, icml or ieee.")] = "plain",
) -> None:
    """Rebuild tables, figures and report.html from a run folder alone."""
    from volta.api import check_reference
    from volta.bench.store import RunStore
    from volta.bench.store import recompute as recompute_metrics
    from volta.report import build_report, export

    store = RunStore(run_folder)
    # Standard output holds nothing but the requested tables.
    say = partial(echo, err=format_ is not None)
    check_reference(reference, (cell.method for cell in store.cells()))
    if recompute:
        changed = recompute_metrics(store)
        n_done = sum(map(store.is_done, store.cells()))
        say(f"recomputed the metrics of {n_done} cells, {len(changed)} changed")
    if format_ is None:
        echo(f"report: {build_report(store, say=say, reference=reference, style=style).path}")
    else:
        echo(export(store, format_, say, reference))


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Reference run.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Run to compare.")],
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metrics separated by commas; see: volta metrics. On a set: ece@test+T, auroc@near:.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="text, markdown or csv.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing output.")] = False,
) -> None:
    """Compare two runs by paired tests on their common seeds."""
    if format_ not in COMPARE_FORMATS:
        raise InputError(f"--format is {format_!r}; pass one of {', '.join(COMPARE_FORMATS)}")
    if out is not None:
        check_new_file(out, force)
        if out.exists() and any(run.resolve() in out.resolve().parents for run in (run_a, run_b)):
            raise InputError(f"--out is {out}, a file in a run folder, where none is replaced; name another file")
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
            f"{first}, only the other {second}; external predictions need the same volta evaluate --task)"
        )
    titles = str(run_a), str(run_b)
    texts = {"text": result.to_text, "markdown": result.to_markdown}
    text = texts[format_](titles) if format_ in texts else result.to_csv()
    if out is None:
        echo(text, nl=False)
    else:
        write_text(out, text)
        echo(f"comparison: {out}")


def leaderboard(
    run_folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for leaderboard.html and leaderboard.csv.")] = Path("leaderboard"),
) -> None:
    """Make one sortable page and a CSV of many runs; all values are recomputed from stored predictions."""
    from volta.bench.store import RunStore
    from volta.report.leaderboard import joint_leaderboard, write_joint_leaderboard

    if out.suffix in (".html", ".csv") or out.is_file():
        raise InputError(f"--out is {out}, a file; name the folder that leaderboard.html and leaderboard.csv go into")
    if RunStore(out).has_manifest:
        raise InputError(f"--out is {out}, a run folder, which has its own leaderboard.csv; name another folder")
    found = joint_leaderboard(run_folders, say=echo)
    if not found.groups:
        raise InputError(f"no finished cell in {', '.join(map(str, run_folders))}; run volta bench first")
    for problem in found.problems:
        echo(f"mismatch: {problem}", err=True)
    for path in write_joint_leaderboard(found, out):
        echo(f"leaderboard: {path}")
    if found.problems:
        raise typer.Exit(EXIT_DISAGREE)


def status(run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Show run progress: cells by state, failures, time left and the report's path."""
    from volta.bench.progress import estimate_seconds, format_seconds
    from volta.bench.store import RunStore, read_status

    store = RunStore(run_folder)
    state = read_status(store)
    counts = {"done": state.done, "running": state.running, "failed": state.failed, "waiting": state.waiting}
    echo(", ".join(f"{len(cells)} {name}" for name, cells in counts.items()))
    for cell, epochs in state.running.items():
        echo(f"running  {cell.label}" + (f"  epoch {epochs[0]}/{epochs[1]}" if epochs else ""))
    for cell in state.failed:
        echo(f"failed   {cell.label}  (see {store.failure(cell)})")
    if state.failed:
        echo("failed cells are tried again by the same volta bench command")
    missing = [*state.running, *state.waiting]
    estimate = estimate_seconds(store, state.done, missing) if missing else None
    if estimate is not None:
        n_workers = max(1, len(state.running))
        left = f"{format_seconds(estimate.seconds / n_workers)} left on {n_workers} worker{'s' * (n_workers > 1)}"
        echo(f"about {left} (from {estimate.n_measured} cells measured)")
    page = store.root / "report.html"
    echo(f"report: {page}" if page.is_file() else f"report: none yet; make it with: volta report {store.root}")


SHOWN = ("accuracy", "nll", "ece", "brier", "aurc")


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Predictions: npz, CSV or Parquet with label and p_0, p_1 … (in npz labels, probs)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run folder: a new one, or one with results on the same test samples.")],
    logits: Annotated[bool, typer.Option("--logits", help="Columns p_0 … and arrays probs hold logits.")] = False,
    method: Annotated[str | None, typer.Option(help="Method name, if the files do not contain it.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, if the files do not contain it.")] = None,
    near: Annotated[str, typer.Option(help="Near OOD sets, separated by commas; all others are far.")] = "",
    task: Annotated[
        str | None,
        typer.Option(help="Task of the samples: its labels are checked if volta tasks lists it; otherwise a name."),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol of the run folder to join, if it has several.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Reference of the report's tests: a method, best, or all (all pairs).")
    ] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of the test samples; 0 omits them.")] = 1000,
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: VOLTA_DATA, else the cache folder.")] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report; make it later with volta report RUN.")
    ] = False,
) -> None:
    """Evaluate external predictions: metrics, paired tests, figures and a report."""
    if resamples < 0:
        raise InputError(f"--resamples is {resamples}; pass a whole number of at least 0")
    from volta.api import check_reference
    from volta.bench.store import RunStore
    from volta.predictions.matching import add_predictions, find_destination
    from volta.predictions.prediction_files import read_models

    store = RunStore(out)
    store.check_usable()
    place = find_destination(store, task, protocol)
    models = read_models(files, logits=logits, method=method, seed=seed, say=partial(echo, err=True))
    held = [cell.method for cell in store.cells()] if reference is not None and store.has_manifest else []
    check_reference(reference, [*held, *(model.method for model in models)])
    names = [part.strip() for part in near.split(",") if part.strip()]
    command = shlex.join(["volta", *sys.argv[1:]])
    add_predictions(store, models, place, near=names, command=command, data=data)
    del models
    _print_results(store, place)
    if no_report:
        echo(f"run: {store.root}")
    else:
        from volta.report import build_report

        echo(f"report: {build_report(store, resamples, reference=reference).path}")


def _print_results(store: RunStore, place: Destination) -> None:
    """Print each method's means over seeds, the most accurate first, with the expected ECE."""
    from volta.bench.store import current_records
    from volta.metrics.expected_ece import EXPECTED_ECE_METRICS, show_expected_ece
    from volta.stats.results import group_records

    cells = [cell for cell in store.cells() if (cell.task, cell.protocol) == (place.task, place.protocol)]
    (table,) = group_records(current_records(store, cells))
    means = {
        method: {
            metric: sample.mean
            for metric in (*SHOWN, *EXPECTED_ECE_METRICS)
            if (sample := table.sample(method, "test", metric)) is not None
        }
        for method in table.methods
    }

    def shown(method: str, metric: str) -> str:
        value = f"{means[method][metric]:.4f}"
        if metric != "ece":
            return value
        mean, low, high = (means[method][name] for name in EXPECTED_ECE_METRICS)
        return f"{value} ({show_expected_ece(mean, low, high)})"

    print_table(
        ("method", "seeds", *SHOWN),
        [
            (method, str(len(table.seeds(method))), *(shown(method, metric) for metric in SHOWN))
            for method in sorted(means, key=lambda method: -means[method]["accuracy"])
        ],
    )


def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions to calibrate: npz, CSV or Parquet.")],
    fit: Annotated[Path, typer.Option(help="Labelled held-out predictions that fit the calibrator.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz, .csv or .parquet.")],
    method: Annotated[
        str, typer.Option(help="Calibrator, e.g. vector_scaling; an unknown name lists all.")
    ] = "temperature",
    logits: Annotated[bool, typer.Option("--logits", help="Columns p_0 … and arrays probs hold logits.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing output.")] = False,
) -> None:
    """Fit a calibrator on held-out predictions and calibrate another file.

    Name one file twice if it has both: its val set fits, the other sets are calibrated.
    """
    from volta.predictions.calibrate import calibrate_file

    check_not_read(out, file, fit)
    words = calibrate_file(file, fit, out, method, logits=logits, overwrite=force)
    echo(words)
    echo(f"calibrated: {out}")
