"""Cost as it is measured: size and memory of a method that is known to need so much."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

from volta.bench.cell import BATCH_ROWS, measure_efficiency
from volta.bench.keys import COST_METRICS
from volta.core.types import FitData, Prediction, Split
from volta.methods.base import Method
from volta.metrics import METRICS
from volta.networks.trainer import Trainer


@dataclass
class Known(Method):
    """Keeps 1,000 numbers, and for every batch fills ``n_pieces`` of 100 kB and sleeps."""

    title = "Known"
    origin = "extra"

    n_pieces: int = 0
    seconds: float = 0.0

    def _fit(self, data, trainer):
        self.bank_ = np.ones(1000)

    def _predict(self, inputs):
        pieces = [np.ones(12_500) for _ in range(self.n_pieces)]
        self.on_top = np.ones(12_500)  # so that the freed pieces below it are not given back by themselves
        time.sleep(self.seconds)
        certain = np.zeros(len(inputs)) + len(pieces)
        return Prediction(np.ones((len(inputs), 1)), certain, certain)


def measured(method, n_rows=400):
    split = Split(np.zeros((n_rows, 2), dtype=np.float32), np.zeros(n_rows, dtype=np.int64))
    return measure_efficiency(method.fit(FitData(split, split, split, n_classes=1), Trainer(seed=0)), split.inputs)


def test_size_counts_what_is_kept():
    assert measured(Known())["size_mb"] == pytest.approx(1000 * 4 / 1e6)


def test_latency_is_a_row_of_a_batch():
    cost = measured(Known(seconds=0.05))
    assert cost["latency_ms"] >= 50 / BATCH_ROWS
    assert cost["latency_p95_ms"] >= cost["latency_ms"]


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the kernel does not let a process reset its peak here"
)
def test_memory_counts_even_when_an_earlier_call_left_it_free():
    little, much = measured(Known())["peak_mb"], measured(Known(n_pieces=500))["peak_mb"]
    assert little < 5
    assert 45 < much < 60


def test_what_is_measured_is_what_the_table_of_metrics_says():
    assert set(measured(Known())) | {"train_s"} == COST_METRICS
    assert {name for name, metric in METRICS.items() if metric.timing} < COST_METRICS
