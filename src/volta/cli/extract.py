"""``volta extract``: frozen features of a task's images, computed once and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.printing import echo
from volta.cli.shifts import shift_origin
from volta.cli.stopping import stoppable
from volta.core.errors import InputError
from volta.core.limits import parse_limits

if TYPE_CHECKING:
    from volta.data import LoadOptions
    from volta.features import ExtractionProgress
    from volta.features.tasks import Extraction


def extract(
    task: Annotated[str, typer.Argument(metavar="SRC", help="A task with images, built in or imported.")],
    backbone: Annotated[
        str, typer.Option(help="resnet18, efficientnet-lite0, FILE.onnx, timm:NAME, hf:MODEL, or a plug-in's.")
    ] = "resnet18",
    weights: Annotated[Path | None, typer.Option(help="Weights file for a named backbone.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
    severities: Annotated[str, typer.Option(help="Corruption severities with commas between them, from 1-5.")] = "1",
    shifts: Annotated[str, typer.Option(help="Corrupted sets: auto, official, generated or none.")] = "auto",
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Corrupt own test images as in CIFAR-10-C too: --shifts generated.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="shifts: leave stored features alone and extract the shifted sets that they lack."),
    ] = None,
    limit_test: Annotated[
        int | None, typer.Option(help="Extract at most this many rows of test and of each OOD and shifted set.")
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Also write features/SRC.npz into the data folder; with --only shifts, SRC-shifts.npz."
        ),
    ] = False,
    precision: Annotated[
        str, typer.Option(help="f32, or bf16: faster, through OpenVINO, on processors that have it; other features.")
    ] = "f32",
    threads: Annotated[int | None, typer.Option(help="Threads to use; as many as torch has unless given.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Limit on the backbone's file as NAME=VALUE; repeatable.")
    ] = None,
) -> None:
    """Turn a task's images into features; goes on where it was stopped. volta bench does this by itself."""
    from volta.bench.config import MAX_THREADS, parse_numbers
    from volta.core.checks import check_count
    from volta.data import LoadOptions, all_tasks, store_features
    from volta.features.openvino import known_precision
    from volta.features.tasks import Extraction, extract_task

    if only not in (None, "shifts"):
        raise InputError(f"--only is {only!r}; the one thing it names is shifts")
    if task not in all_tasks(data) and Path(task).exists():
        raise InputError(f"SRC is the path {task}; make it a task first: volta data import {task} --name NAME")
    options = LoadOptions(
        data,
        parse_numbers(severities, "--severities"),
        shift_origin(shifts, corruptions),
        limit_test=limit_test,
    )
    if threads is not None:
        check_count(threads, "--threads", most=MAX_THREADS)
    extraction = Extraction(backbone, weights, parse_limits(limit or ()), known_precision(precision), threads)
    if only == "shifts":
        _extract_shifts(task, options, extraction, save)
        return
    if save and limit_test is not None:
        raise InputError("--save would store a part of the test rows as all of them; leave --limit-test or --save out")
    with stoppable():
        features = extract_task(task, options, extraction, on_set=_lines)
    for name, found in features.items():
        echo(f"{name}: {found.array.shape[0]} × {found.array.shape[1]}, {found.path}")
    if save:
        for path in store_features(task, {name: found.array for name, found in features.items()}, options):
            echo(f"saved: {path}")


def _extract_shifts(task: str, options: LoadOptions, extraction: Extraction, save: bool) -> None:
    """Extract the shifted sets that stored features lack, set by set, once a few test rows tell that they fit."""
    from volta.data import store_shifts
    from volta.features.stored_sets import extract_missing, match_stored, with_labels

    with stoppable():
        network = extraction.network(options.folder)
        found = match_stored(task, options, network, threads=extraction.threads)
        n_sets = len(found.images.shifts)
        echo(f"{found.agreement}; {len(found.missing)} of {n_sets} shifted sets are missing", err=True)
        features = extract_missing(
            found, network, precision=extraction.precision, threads=extraction.threads, on_set=_lines
        )
    for name, array in features.items():
        echo(f"{name}: {array.array.shape[0]} × {array.array.shape[1]}, {array.path}")
    if save and features:
        echo(f"saved: {store_shifts(task, with_labels(found, features), options, found.images.corruptions)}")


def _lines(name: str) -> Callable[[ExtractionProgress], None]:
    from volta.bench.progress import ExtractionLines

    return ExtractionLines(name, lambda text: echo(text, err=True))
