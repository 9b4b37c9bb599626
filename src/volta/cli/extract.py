"""``volta extract``: frozen features of a task's images, computed once and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volta.cli.shifts import shift_origin
from volta.cli.stopping import stoppable
from volta.core.errors import InputError
from volta.core.limits import parse_limits


def extract(
    task: Annotated[str, typer.Argument(metavar="SRC", help="A task with images, built in or imported.")],
    backbone: Annotated[
        str, typer.Option(help="resnet18, efficientnet-lite0, a file ending in .onnx, or hf:MODEL.")
    ] = "resnet18",
    weights: Annotated[Path | None, typer.Option(help="Weights file for a named backbone.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
    severities: Annotated[str, typer.Option(help="Corruption severities with commas between them, from 1-5.")] = "1",
    shifts: Annotated[str, typer.Option(help="Corrupted sets: auto, official, generated or none.")] = "auto",
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Corrupt own test images as in CIFAR-10-C too: --shifts generated.")
    ] = False,
    save: Annotated[
        bool,
        typer.Option("--save", help="Also write features/SRC.npz into the data folder."),
    ] = False,
    precision: Annotated[
        str, typer.Option(help="f32, or bf16: faster, through OpenVINO, on processors that have it; other features.")
    ] = "f32",
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Limit on the backbone's file as NAME=VALUE; repeatable.")
    ] = None,
) -> None:
    """Turn a task's images into features; goes on where it was stopped. volta bench does this by itself."""
    from volta.bench.config import parse_numbers
    from volta.bench.progress import ExtractionLines
    from volta.data import LoadOptions, all_tasks, store_features
    from volta.features.openvino import known_precision
    from volta.features.tasks import Extraction, extract_task

    if task not in all_tasks(data) and Path(task).exists():
        raise InputError(f"SRC is the path {task}; make it a task first: volta data import {task} --name NAME")
    options = LoadOptions(data, parse_numbers(severities, "--severities"), shift_origin(shifts, corruptions))
    with stoppable():
        features = extract_task(
            task,
            options,
            Extraction(backbone, weights, parse_limits(limit or ()), known_precision(precision)),
            on_set=lambda name: ExtractionLines(name, lambda text: typer.echo(text, err=True)),
        )
    for name, found in features.items():
        typer.echo(f"{name}: {found.array.shape[0]} × {found.array.shape[1]}, {found.path}")
    if save:
        for path in store_features(task, {name: found.array for name, found in features.items()}, options):
            typer.echo(f"saved: {path}")
