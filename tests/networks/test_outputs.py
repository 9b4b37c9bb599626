from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import blobs
from volta.core.errors import InputError
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

LOGITS = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_networks_give_their_linear_last_layer():
    data, test = blobs()
    network = Trainer(seed=1, budget=Budget(max_epochs=1)).network(data)
    outputs = network.outputs(test.inputs)
    layer = outputs.need_last_layer()
    assert layer.weight.shape == (4, 128)
    np.testing.assert_allclose(outputs.need_features() @ layer.weight.T + layer.bias, outputs.logits, atol=1e-4)


def test_arrays_are_kept_in_the_networks_precision():
    outputs = Outputs(LOGITS.astype(np.float16).tolist(), features=np.ones((2, 3), dtype=np.float64))
    assert outputs.logits.dtype == np.float64
    assert outputs.need_features().dtype == np.float32
    assert (len(outputs), outputs.n_classes, outputs.nbytes) == (2, 2, 2 * 2 * 8 + 2 * 3 * 4)
    assert Outputs(LOGITS).logits is LOGITS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Outputs(np.zeros(3)), r"logits has shape \(3,\); expected .* one logit z .*column_stack"),
        (lambda: Outputs(np.zeros((3, 1))), r"logits has shape \(3, 1\); expected .* one logit z .*column_stack"),
        (lambda: Outputs(np.zeros((1, 3, 2, 2))), r"logits has shape \(1, 3, 2, 2\); expected one row"),
        (lambda: Outputs(np.array([[1.0, np.nan]])), "logits row 0 holds nan"),
        (
            lambda: Outputs(np.array([[1.0, -np.inf]])),
            r"logits row 0 holds -inf in column 1; .* mix in a little .* e = 1 / \(n \+ 1\)",
        ),
        (lambda: Outputs(LOGITS, np.array([[1.0], [np.inf]])), "features row 1 holds inf"),
        (lambda: Outputs(LOGITS, np.ones((3, 1))), "features has 3 rows but logits has 2"),
        (lambda: Outputs(LOGITS, None, LastLayer(np.ones((2, 3)), np.ones(2))), "outputs hold no features"),
        (lambda: LastLayer(np.ones((3, 2)), np.ones(2)), "transpose the weight"),
        (
            lambda: Outputs(LOGITS, np.ones((2, 3)), LastLayer(np.ones((3, 2)), np.ones(3))),
            r"last_layer.weight is \(3, 2\); logits and features ask for \(2, 3\)",
        ),
        (lambda: LabelledOutputs(Outputs(LOGITS), np.array([0, 2])), "labels row 1 is 2"),
        (lambda: LabelledOutputs(Outputs(LOGITS), np.array([0])), "labels has 1 rows but logits has 2"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_outputs_need_no_torch():
    code = "import sys, volta.networks.outputs; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, 2.0], "weights has 2 rows but labels has 3; pass one entry"),
        ([1.0, -1.0, 1.0], "weights row 1 is -1.0; pass finite numbers of at least 0"),
        ([1.0, 1.0, np.nan], "weights row 2 is nan"),
        ([0.0, 0.0, 0.0], "weights are all 0, so that no row counts"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights, said):
    with pytest.raises(InputError, match=said):
        LabelledOutputs(Outputs(np.eye(3)), np.arange(3), np.array(weights))
