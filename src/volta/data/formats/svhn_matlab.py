"""SVHN's cropped digits: a MATLAB file with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from volta.core.contained import contained
from volta.core.errors import InputError, MissingDataError
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Split
from volta.data.formats.array_files import read_npy

_VARIABLES = ("X", "y")


def read_svhn(path: Path, limits: Limits = DEFAULT_LIMITS) -> Split:
    """Return the digits as (n, 3, 32, 32) uint8 with labels 0-9.

    SciPy's reader runs in a process of its own: one wrong byte can crash it or make it ask for terabytes.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; get it with: volta data get svhn")
    with tempfile.TemporaryDirectory(prefix="volta-mat-") as folder:
        job = {"source": str(path.resolve()), "into": folder}
        contained(f"{__name__}:convert", path, job, limits)
        return _digits(path, Path(folder), limits)


def _digits(path: Path, folder: Path, limits: Limits) -> Split:
    images, labels = (np.array(read_npy(folder / f"{name}.npy", limits)) for name in _VARIABLES)
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise InputError(
            f"{path} has X of shape {images.shape} and {images.dtype}, expected (32, 32, 3, n) uint8; fetch it again"
        )
    labels = labels.reshape(-1)
    if labels.dtype.kind not in "iuf" or len(labels) != images.shape[3] or not np.isin(labels, range(1, 11)).all():
        raise InputError(
            f"{path} has {len(labels)} labels for {images.shape[3]} digits, or one outside 1-10; fetch it again"
        )
    return Split(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10)


def convert(source: str, into: str) -> None:
    """Write the variables of a MATLAB file as npy files; what :func:`read_svhn` runs in another process."""
    from scipy.io import loadmat

    try:
        content = loadmat(source, variable_names=list(_VARIABLES))
    except Exception as error:
        # On files that are none, SciPy's reader raises zlib, struct, MatReadError, NotImplementedError and more.
        raise InputError(f"{source} is not a MATLAB file that can be read ({error}); fetch it again") from error
    for name in _VARIABLES:
        if name not in content:
            raise InputError(f"{source} has no variable {name!r}; expected SVHN's test_32x32.mat, fetch it again")
        np.save(Path(into) / f"{name}.npy", np.asarray(content[name]), allow_pickle=False)
