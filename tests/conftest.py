from __future__ import annotations

import os
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch

from tests.parser_process import forked_parsers
from volta.core.types import FitData, Split
from volta.data import find_task


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _one_core():
    """Let runs and reports see one core, so that they start processes only where a test asks for them."""
    if hasattr(os, "sched_getaffinity"):
        with mock.patch.object(os, "sched_getaffinity", return_value={0}):
            yield
    else:
        yield


@pytest.fixture(autouse=True, scope="session")
def _forked_parsers():
    with forked_parsers():
        yield


@contextmanager
def figures_laid_out():
    """Lay out every figure, as a real save does, but write no picture: what breaks a figure still breaks the test."""

    def save(figure, folder, name):
        figure.draw_without_rendering()
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
        for path in paths:
            path.write_bytes(b"drawn")
        return paths

    with mock.patch("volta.figures.save_figure", save), mock.patch("volta.figures.charts.save_figure", save):
        yield


@pytest.fixture
def quick_figures():
    with figures_laid_out():
        yield


@pytest.fixture(scope="session")
def digits():
    return find_task("digits").load("features")


def blobs(n_rows=240, n_classes=4, n_features=8, spread=1.0, seed=0, dtype=np.float32):
    """Gaussian clouds around random centres: train, val, cal and a test split."""
    random = np.random.default_rng(seed)
    centres = random.normal(0.0, 3.0, (n_classes, n_features))

    def split(size):
        labels = np.arange(size, dtype=np.int64) % n_classes
        inputs = centres[labels] + spread * random.normal(size=(size, n_features))
        return Split(inputs.astype(dtype), labels)

    data = FitData(split(n_rows), split(n_rows // 2), split(n_rows // 2), n_classes=n_classes)
    return data, split(n_rows)
