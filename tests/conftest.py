from __future__ import annotations

import numpy as np
import pytest
import torch

from volta.core.types import FitData, Split
from volta.data import find_task


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


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
