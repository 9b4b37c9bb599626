"""Cost as it is measured: size and memory of a method that is known to need so much."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from volta.bench.cell import BATCH_ROWS, measure_backbone, measure_efficiency, with_backbone
from volta.bench.records import COST_METRICS
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
    costs = measured(Known())
    assert set(with_backbone(costs, costs)) | {"train_s"} == COST_METRICS
    assert {name for name, metric in METRICS.items() if metric.timing} < COST_METRICS


def test_a_backbone_costs_its_parameters_and_its_forward_pass():
    costs = measure_backbone("resnet18", torch.device("cpu"), 1)
    # torchvision's ResNet-18 has 11,689,512 parameters, 513,000 of them in the last layer.
    assert costs["size_mb"] == pytest.approx((11_689_512 - 513_000) * 4 / 1e6)
    assert costs["latency_ms"] > 0.1


def test_costs_with_a_backbone_are_sums_and_keep_those_on_features():
    own = {"latency_ms": 0.01, "latency_p95_ms": 0.02, "size_mb": 2.0, "peak_mb": 4.0}
    both = with_backbone(own, {"latency_ms": 20.0, "latency_p95_ms": 30.0, "size_mb": 44.0, "peak_mb": 80.0})
    assert both == {
        **{"latency_ms": 20.01, "latency_p95_ms": 30.02, "size_mb": 46.0, "peak_mb": 80.0},
        **{"latency_features_ms": 0.01, "size_features_mb": 2.0},
    }
