"""``volta data`` and ``volta extract``: data sets and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.cli.bench import shift_origin
from volta.cli.terminal import PlainCommand, PlainGroup, echo, print_table, stoppable
from volta.core.errors import InputError, VoltaError

if TYPE_CHECKING:
    from volta.core.types import EncoderKind
    from volta.data import LoadOptions
    from volta.features.extract import Extraction, ExtractionProgress


EXIT_PROBLEMS = 1
MEGA = 1e6
SHOWN = 20

app = typer.Typer(
    cls=PlainGroup, help="Get, list, verify and import data sets.", no_args_is_help=True, rich_markup_mode=None
)

DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Data folder. Default: VOLTA_DATA, else the cache folder.")
]


@app.command(cls=PlainCommand)
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Task or archive; see: volta data list.")],
    data: DataFolder = None,
    keep_archives: Annotated[bool, typer.Option("--keep-archives", help="Keep archives after unpacking.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Download and unpack again.")] = False,
) -> None:
    """Download, verify and unpack data; broken downloads resume."""
    from volta.data.inventory import get_data

    with stoppable(), _progress("B") as progress:
        paths = get_data(name, data, progress=progress, keep_archives=keep_archives, again=again)
    for path in paths:
        echo(f"ready: {path}")


@app.command(cls=PlainCommand, name="list")
def list_(data: DataFolder = None) -> None:
    """List data sets and their state in the data folder."""
    from volta.data import data_root
    from volta.data.inventory import list_data

    echo(f"data folder: {data_root(data)}")
    print_table(
        ("name", "description", "state", "MB", "note"),
        [(h.name, h.title, h.state, f"{h.n_bytes / MEGA:.1f}", h.note) for h in list_data(data)],
    )


@app.command(cls=PlainCommand)
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Data sets to verify. Default: all that are there.")
    ] = None,
    data: DataFolder = None,
) -> None:
    """Check files against their hashes; exit code 1 if anything is wrong."""
    from volta.data.inventory import verify_data

    verdicts = verify_data(data, tuple(names or ()))
    for verdict in verdicts:
        echo(f"{'ok ' if not verdict.problems else 'BAD'} {verdict.name}: {verdict.checked}")
        for problem in verdict.problems:
            echo(f"    {problem}")
    if any(verdict.problems for verdict in verdicts):
        raise typer.Exit(EXIT_PROBLEMS)


@app.command(cls=PlainCommand, name="import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="Image folder, or a zip or tar of one; .csv, .npz, .npy or .parquet; a saved Hugging Face data set.",
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the task.")],
    ood: Annotated[list[str] | None, typer.Option("--ood", help="OOD set as NAME=SRC; may be repeated.")] = None,
    shift: Annotated[
        list[str] | None, typer.Option("--shift", help="Corrupted test set as NAME-SEVERITY=SRC; may be repeated.")
    ] = None,
    near: Annotated[
        list[str] | None, typer.Option("--near", help="Near OOD set, all others are far; may be repeated.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="tabular, or vision for features of images. Default: by the source.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Name of a table's label column.")] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="ID column of a table, not a feature; may be repeated.")
    ] = None,
    image_size: Annotated[
        str | None, typer.Option("--image-size", help="Scale images to HEIGHTxWIDTH, or to one number for a square.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip undecodable images and invalid rows.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing task.")] = False,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Limit on the sources as NAME=VALUE; see docs/data.md.")
    ] = None,
    data: DataFolder = None,
) -> None:
    """Import your own images or features as a task."""
    from volta.core.files import parse_limits
    from volta.data.importing import import_task

    with stoppable(), _progress("images") as progress:
        report = import_task(
            source,
            name,
            root=data,
            ood=_pairs(ood, "--ood"),
            shifts=_pairs(shift, "--shift"),
            near=near or (),
            label=label,
            ids=ids or (),
            image_size=_size(image_size),
            encoder=_encoder(encoder),
            skip_bad=skip_bad,
            replace=force,
            progress=progress,
            limits=parse_limits(limit or ()),
        )
    rows = ", ".join(f"{key} {count}" for key, count in report.rows.items())
    echo(f"imported {report.name}: {report.kind}, {len(report.class_names)} classes, samples: {rows}")
    echo(f"classes: {_listed([f'{name} {count}' for name, count in report.class_rows.items()])}")
    ranges = [f"{key} {low:g} to {high:g}" for key, (low, high) in report.ranges.items()]
    echo(f"values: {_listed(ranges)}")
    for note in report.notes:
        echo(f"note: {note}")
    echo(f"next: volta bench {report.name}{_backbone_option(data) if report.kind == 'pixels' else ''}")


def _backbone_option(root: Path | None) -> str:
    """Return the option of a backbone with local weights, where the default has none."""
    from importlib.util import find_spec

    from volta.data.task import data_root
    from volta.features.backbones.load import BACKBONES, find_weights
    from volta.features.extract import DEFAULT_BACKBONE

    # With torchvision the default's weights come by themselves; asking for them here would fetch them.
    for name in () if find_spec("torchvision") else (DEFAULT_BACKBONE, *BACKBONES):
        try:
            find_weights(name, data_root(root))
        except VoltaError:
            continue
        return "" if name == DEFAULT_BACKBONE else f" --backbone {name}"
    return ""


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more


def _pairs(texts: list[str] | None, option: str) -> dict[str, Path | str]:
    pairs: dict[str, Path | str] = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key or not value:
            raise InputError(f"{option} is {text!r}; pass NAME=SRC")
        if key in pairs:
            raise InputError(f"{option} names {key!r} twice; give each set its own name")
        pairs[key] = value
    return pairs


def _encoder(text: str | None) -> EncoderKind | None:
    if text not in (None, "tabular", "vision"):
        raise InputError(f"--encoder is {text!r}; pass tabular or vision")
    return cast("EncoderKind | None", text)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--image-size is {text!r}; pass HEIGHTxWIDTH, as in 32x48, or one number, as in 224")
    return int(parts[0]), int(parts[-1])


@contextmanager
def _progress(unit: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a callback that shows a progress bar on a terminal."""
    from rich import progress
    from rich.console import Console

    amount = (
        [progress.DownloadColumn(), progress.TransferSpeedColumn()] if unit == "B" else [progress.MofNCompleteColumn()]
    )
    name = progress.TextColumn("{task.description}", markup=False)
    columns = name, progress.BarColumn(), *amount, progress.TimeRemainingColumn()
    console = Console(stderr=True, markup=False, emoji=False)
    with progress.Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        shown: dict[str, progress.TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in shown:
                shown[name] = bars.add_task(name)
                if not console.is_terminal:
                    echo(f"{name}: {total if total is not None else 'unknown number of'} {unit}", err=True)
            bars.update(shown[name], completed=done, total=total)

        yield report


def extract(
    task: Annotated[str, typer.Argument(metavar="SRC", help="A task with images, built in or imported.")],
    backbone: Annotated[
        str, typer.Option(help="resnet18, efficientnet-lite0, FILE.onnx, timm:NAME, hf:MODEL, or a plug-in.")
    ] = "resnet18",
    weights: Annotated[Path | None, typer.Option(help="Weights file for a named backbone.")] = None,
    data: DataFolder = None,
    severities: Annotated[str, typer.Option(help="Corruption severities from 1 to 5, separated by commas.")] = "1",
    shifts: Annotated[str, typer.Option(help="Corrupted test sets: auto, official, generated or none.")] = "auto",
    corruptions: Annotated[
        bool,
        typer.Option("--corruptions", help="Also corrupt imported test images as in CIFAR-10-C (--shifts generated)."),
    ] = False,
    only: Annotated[
        str | None, typer.Option(help="shifts: keep stored features and extract only missing corrupted test sets.")
    ] = None,
    limit_test: Annotated[
        int | None, typer.Option(help="Maximum number of samples of the test set and of each OOD and corrupted set.")
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Also write features/SRC.npz into the data folder; with --only shifts, SRC-shifts.npz."
        ),
    ] = False,
    precision: Annotated[
        str, typer.Option(help="f32, or bf16 through OpenVINO: faster where supported, with different features.")
    ] = "f32",
    threads: Annotated[int | None, typer.Option(help="Number of threads. Default: torch's.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    amp: Annotated[
        bool, typer.Option("--amp", help="Automatic mixed precision (GPU): faster, with different features.")
    ] = False,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Limit on the backbone's file as NAME=VALUE; may be repeated.")
    ] = None,
) -> None:
    """Extract features of a task's images; resumable. volta bench does this when needed."""
    from volta.bench.config import parse_numbers
    from volta.bench.records import MAX_THREADS
    from volta.core.checks import check_count
    from volta.core.files import parse_limits
    from volta.data import LoadOptions, all_tasks, find_task, store_features
    from volta.features.engines import known_precision
    from volta.features.extract import Extraction, extract_task
    from volta.networks.trainer import pick_device

    if only not in (None, "shifts"):
        raise InputError(f"--only is {only!r}; pass shifts")
    if task not in all_tasks(data) and Path(task).exists():
        raise InputError(f"SRC is the path {task}; make it a task first: volta data import {task} --name NAME")
    options = LoadOptions(
        data, parse_numbers(severities, "--severities"), shift_origin(shifts, corruptions), limit_test=limit_test
    )
    if threads is not None:
        check_count(threads, "--threads", most=MAX_THREADS)
    kind = known_precision(precision)
    # OpenVINO's precisions are for processors.
    chosen = "cpu" if device == "auto" and kind != "f32" else pick_device(device).type
    extraction = Extraction(backbone, weights, parse_limits(limit or ()), kind, threads, chosen, amp, _lines)
    if only == "shifts":
        _extract_shifts(task, options, extraction, save)
        return
    if save and limit_test is not None:
        raise InputError("--save would store part of the test set as all of it; pass either --limit-test or --save")
    with stoppable():
        features = extract_task(find_task(task, data), options, extraction)
    for name, found in features.items():
        echo(f"{name}: {found.array.shape[0]} × {found.array.shape[1]}, {found.path}")
    if save:
        for path in store_features(task, {name: found.array for name, found in features.items()}, options):
            echo(f"saved: {path}")


def _extract_shifts(task: str, options: LoadOptions, extraction: Extraction, save: bool) -> None:
    """Extract the corrupted test sets missing from stored features, after checking that a few test samples match."""
    from volta.data import find_task, store_shifts
    from volta.features.extract import extract_missing, match_stored, with_labels

    with stoppable():
        found = match_stored(find_task(task, options.root), options, extraction)
        n_sets = len(found.images.shifts)
        echo(f"{found.agreement}; {len(found.missing)} of {n_sets} corrupted test sets are missing", err=True)
        features = extract_missing(found, extraction)
    for name, array in features.items():
        echo(f"{name}: {array.array.shape[0]} × {array.array.shape[1]}, {array.path}")
    if save and features:
        echo(f"saved: {store_shifts(task, with_labels(found, features), options, found.images.corruptions)}")


def _lines(name: str) -> Callable[[ExtractionProgress], None]:
    from volta.bench.progress import ExtractionLines

    return ExtractionLines(name, lambda text: echo(text, err=True))
