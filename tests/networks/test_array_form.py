"""Networks on a few float64 rows: what NumPy gives is what torch gives."""

import copy
import pickle

import numpy as np
import pytest
import torch

from volta.networks.modules import Encoder, Epinet, Epistemic, Hyperbolic, Identity, Linear, Mlp, Prototypes
from volta.networks.network import FEW_ROWS, Network
from volta.networks.recipe import TrainingLog
from volta.networks.spec import NetworkSpec

BODIES = (Encoder((16, 8), projection=12, residual=False), Encoder((16, 8)), Mlp((16, 8)), Identity(5))
ROWS = np.random.default_rng(0).normal(size=(FEW_ROWS + 24, 5))
NARROW = np.asarray(ROWS, dtype=np.float32)


def network_of(body, head):
    spec = NetworkSpec(body, head, (5,), 3)
    return Network(spec, spec.build(seed=1), TrainingLog(1, None, 0.0, (0.0,), 0.0), "key", torch.device("cpu"))


@pytest.mark.parametrize("head", [Linear(), Prototypes(temperature=0.3)])
@pytest.mark.parametrize("body", BODIES)
def test_few_rows_agree_with_many_and_with_float32(body, head):
    network = network_of(body, head)
    assert network._arrays is not None
    many, few = network.outputs(ROWS), network.outputs(ROWS[:2])
    assert np.allclose(few.logits, many.logits[:2], rtol=1e-12, atol=1e-14)
    assert np.allclose(few.features, many.features[:2], rtol=1e-6, atol=1e-7)
    assert (few.last_layer is None) == (many.last_layer is None)
    narrow = network.outputs(NARROW)
    assert np.allclose(many.logits, narrow.logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", [Hyperbolic(), Epistemic(), Epinet()])
def test_heads_without_an_array_form_go_through_torch(head):
    network = network_of(BODIES[0], head)
    assert network._arrays is None
    assert np.allclose(network.outputs(ROWS[:2]).logits, network.outputs(ROWS).logits[:2], rtol=1e-12, atol=1e-12)


def test_copies_and_pickles_leave_out_what_is_computed_again():
    network = network_of(BODIES[0], Prototypes())
    logits = network.outputs(ROWS[:1]).logits
    for other in (pickle.loads(pickle.dumps(network)), copy.deepcopy(network)):
        assert set(vars(other)) == {"spec", "classifier", "log", "key", "device"}
        assert np.array_equal(other.outputs(ROWS[:1]).logits, logits)


def test_sampling_is_the_same_whatever_the_precision_of_rows():
    network = network_of(BODIES[0], Linear())
    drawn = [
        np.concatenate([passes[0] for _, passes in network.sampled_logits(rows, [np.random.default_rng(0)])])
        for rows in (ROWS, NARROW)
    ]
    assert np.array_equal(*drawn)
    assert not np.allclose(drawn[0], network.outputs(ROWS).logits)
