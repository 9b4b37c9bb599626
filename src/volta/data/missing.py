"""What is said when data is not there: one line for what is missing, one for the commands that bring it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from volta.core.errors import MissingDataError


def missing_pixels(task: str, root: Path, missing: Sequence[str]) -> MissingDataError:
    """Return the error for a task whose image files are not all there."""
    return MissingDataError(
        f"{task} is not complete under {root}: missing {', '.join(missing)}\n"
        f"get it with: volta data get {task} --data {root}   or point at it with: --data DIR (or VOLTA_DATA=DIR)"
    )


def missing_features(task: str, root: Path, *, have_pixels: bool, downloadable: bool = True) -> MissingDataError:
    """Return the error for a task whose features are not there."""
    extract = f"volta extract {task} --data {root}"
    if not have_pixels and downloadable:
        extract = f"volta data get {task} --data {root} && {extract}"
    lacking = f"features/{task}.npz" + ("" if have_pixels else " and the images to extract it from")
    return MissingDataError(
        f"{task} has no features under {root}: missing {lacking}\n"
        f"get them with: {extract}   or point at them with: --data DIR (or VOLTA_DATA=DIR)"
    )
