"""SVHN's cropped digits: a MATLAB file with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Split


def read_svhn(path: Path) -> Split:
    """Return the digits as (n, 3, 32, 32) uint8 with labels 0-9."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"]
    except KeyError as error:
        raise InputError(f"{path} has no variable {error}; expected SVHN's test_32x32.mat, fetch it again") from error
    except Exception as error:
        # On files that are none, SciPy's reader raises zlib, struct, MatReadError, NotImplementedError and more.
        raise InputError(f"{path} is not a MATLAB file that can be read ({error}); fetch it again") from error
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise InputError(
            f"{path} has X of shape {images.shape} and {images.dtype}, expected (32, 32, 3, n) uint8; fetch it again"
        )
    labels = labels.reshape(-1).astype(np.int64)
    if len(labels) != images.shape[3] or not ((labels >= 1) & (labels <= 10)).all():
        raise InputError(
            f"{path} has {len(labels)} labels for {images.shape[3]} digits, or one outside 1-10; fetch it again"
        )
    return Split(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels % 10)
