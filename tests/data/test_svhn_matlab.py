from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.genuine import svhn_mat
from volta.core.errors import InputError
from volta.data.tasks.cifar import read_svhn

ROWS = 20


def test_svhn_axes_and_the_ten_that_means_zero(root: Path) -> None:
    content, pixels, digits = svhn_mat(ROWS)
    (root / "test_32x32.mat").write_bytes(content)
    split = read_svhn(root / "test_32x32.mat")
    assert np.array_equal(split.inputs, pixels)
    assert np.array_equal(split.labels, digits)
    assert split.inputs.flags.c_contiguous


def test_broken_svhn_files_are_refused(root: Path) -> None:
    from scipy.io import savemat

    path = root / "test_32x32.mat"
    content, _, _ = svhn_mat(ROWS)
    for broken in (b"", b"<html>", content[: len(content) // 2]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="fetch it again"):
            read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8)})
    with pytest.raises(InputError, match="has no variable 'y'"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))})
    with pytest.raises(InputError, match="float64, expected"):
        read_svhn(path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.zeros((2, 1))})
    with pytest.raises(InputError, match="outside 1-10"):
        read_svhn(path)
