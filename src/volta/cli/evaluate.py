"""``volta evaluate``: own predictions become a run folder, with metrics, statistics, figures and a report."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.printing import echo
from volta.cli.references import check_reference
from volta.cli.text_table import print_table
from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.bench.own.run import Place
    from volta.bench.store import RunStore

SHOWN = ("accuracy", "nll", "ece", "brier", "aurc")


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Predictions: npz, CSV or Parquet with label and p_0, p_1 … (in npz labels, probs)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run folder: a new one, or one that holds results on the same test rows.")],
    logits: Annotated[bool, typer.Option("--logits", help="Columns p_0 … and arrays probs hold logits.")] = False,
    method: Annotated[str | None, typer.Option(help="Name of the method, where files do not say it.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, where files do not say it.")] = None,
    near: Annotated[
        str, typer.Option(help="OOD sets that are near, with commas between them; all others are far.")
    ] = "",
    task: Annotated[
        str | None,
        typer.Option(help="Task the rows are of: checked against it if it is one of volta tasks; else a name."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Which protocol of a run folder to join, where it holds several.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="What the report's tests compare with: a method, best, or all pairs (all).")
    ] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of the test rows; 0 leaves them out.")] = 1000,
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Leave tables and figures for later: volta report RUN.")
    ] = False,
) -> None:
    """Evaluate predictions of your own models: metrics, paired statistics, figures and a report, as of a benchmark."""
    if resamples < 0:
        raise InputError(f"--resamples is {resamples}; pass a whole number of at least 0")
    from volta.bench.own.files import read_models
    from volta.bench.own.run import add_predictions, find_place
    from volta.bench.store import RunStore

    store = RunStore(out)
    store.check_usable()
    place = find_place(store, task, protocol)
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

        echo(f"report: {build_report(store, resamples, reference=reference)}")


def _print_results(store: RunStore, place: Place) -> None:
    """Print each method's means over seeds, the most accurate first; beside ECE its floor."""
    from volta.bench.rescoring import current_records
    from volta.metrics.floor_words import FLOOR_METRICS, show_floor
    from volta.stats import group_records

    cells = [cell for cell in store.cells() if (cell.task, cell.protocol) == (place.task, place.protocol)]
    (table,) = group_records(current_records(store, cells))
    means = {
        method: {
            metric: sample.mean
            for metric in (*SHOWN, *FLOOR_METRICS)
            if (sample := table.sample(method, "test", metric)) is not None
        }
        for method in table.methods
    }

    def shown(method: str, metric: str) -> str:
        value = f"{means[method][metric]:.4f}"
        if metric != "ece":
            return value
        mean, low, high = (means[method][name] for name in FLOOR_METRICS)
        return f"{value} ({show_floor(mean, low, high)})"

    print_table(
        ("method", "seeds", *SHOWN),
        [
            (method, str(len(table.seeds(method))), *(shown(method, metric) for metric in SHOWN))
            for method in sorted(means, key=lambda method: -means[method]["accuracy"])
        ],
    )
