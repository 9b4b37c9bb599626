from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from volta.bench.cell import _PIECE_ROWS, SpilledOutputCache
from volta.networks.modules import Identity, Linear
from volta.networks.network import Network
from volta.networks.recipe import TrainingLog
from volta.networks.spec import NetworkSpec


def linear_network() -> Network:
    spec = NetworkSpec(Identity(3), Linear(), (3,), 4)
    return Network(spec, spec.build(0).eval(), TrainingLog(1, None, 0.0, (1.0,), 0.0), "key", torch.device("cpu"))


def test_what_is_too_large_to_hold_is_mapped_with_the_same_bits(tmp_path: Path) -> None:
    network = linear_network()
    inputs = np.random.default_rng(0).normal(size=(_PIECE_ROWS + 5, 3)).astype(np.float32)
    cache = SpilledOutputCache(held=1000, folder=tmp_path)
    found, expected = cache.outputs(network, "test", inputs), network.outputs(inputs)
    assert isinstance(found.logits, np.memmap)
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.need_last_layer().weight, expected.need_last_layer().weight)
    assert cache.outputs(network, "test", inputs) is found
    assert list(tmp_path.iterdir()) == []


def test_what_is_small_is_held(tmp_path: Path) -> None:
    inputs = np.ones((10, 3), dtype=np.float32)
    found = SpilledOutputCache(held=1000, folder=tmp_path / "none").outputs(linear_network(), "test", inputs)
    assert not isinstance(found.logits, np.memmap)
    assert not (tmp_path / "none").exists()
