"""``volta calibrate``: logits of held-out rows fit a calibrator, which then calibrates others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volta.cli.model_files import check_not_read
from volta.cli.printing import echo


def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions to calibrate: npz, CSV or Parquet.")],
    fit: Annotated[Path, typer.Option(help="Held-out predictions with labels, which the calibrator is fitted to.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz, .csv or .parquet.")],
    method: Annotated[str, typer.Option(help="Calibrator; an unknown name lists them.")] = "temperature",
    logits: Annotated[bool, typer.Option("--logits", help="Columns p_0 … and arrays probs hold logits.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace --out if it exists.")] = False,
) -> None:
    """Fit a calibrator on held-out logits or probabilities, and write the calibrated ones of another file.

    Where both are sets of one file, name it twice: val rows fit, the others are calibrated.
    """
    from volta.bench.own.calibrating import calibrate_file

    check_not_read(out, file, fit)
    words = calibrate_file(file, fit, out, method, logits=logits, overwrite=force)
    echo(words)
    echo(f"calibrated: {out}")
