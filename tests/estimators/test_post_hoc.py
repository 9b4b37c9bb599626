"""Anybody's network: its outputs by a hook, and post-hoc methods on them with calibrated decisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.estimators.test_face import draw
from volta import METHODS, InputError, LabelledOutputs, Outputs, PostHocClassifier, VoltaClassifier, outputs_of
from volta.methods.knn import Knn
from volta.methods.post_hoc import PostHoc

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.scaling.CalibrationWarning")


class Mine(nn.Module):
    """A user's network whose last linear layer is neither the last one registered nor the end of the forward pass."""

    def __init__(self):
        super().__init__()
        self.classify = nn.Linear(8, 3)
        self.encode = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, rows):
        return self.classify(self.encode(rows)).softmax(dim=1)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = Mine()
    rows, labels = (torch.from_numpy(part) for part in draw(600))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.nll_loss(network(rows.float()).log(), labels).backward()
        optimiser.step()
    return network


def batches(n_rows, seed):
    rows, labels = (torch.from_numpy(part) for part in draw(n_rows, seed))
    return [(rows[i : i + 64].float(), labels[i : i + 64]) for i in range(0, n_rows, 64)]


def test_outputs_come_from_the_last_linear_layer_called(network, capsys):
    found = outputs_of(network, batches(150, 1), verbose=True)
    assert isinstance(found, LabelledOutputs)
    assert np.array_equal(found.labels, draw(150, 1)[1])
    layer = found.outputs.last_layer
    np.testing.assert_allclose(
        found.outputs.features @ layer.weight.T + layer.bias, found.outputs.logits, rtol=1e-4, atol=1e-5
    )
    assert network.training
    assert "150 rows" in capsys.readouterr().err
    again = outputs_of(network, [inputs for inputs, _ in batches(150, 1)])
    assert isinstance(again, Outputs)
    assert np.array_equal(again.logits, found.outputs.logits)
    named = outputs_of(network, batches(10, 1), layer="encode.0")
    assert named.outputs.features.shape == (10, 4)


def test_what_cannot_be_watched_is_named(network):
    with pytest.raises(
        InputError, match="layer is 'head', which is no linear layer of the model; pass one of classify"
    ):
        outputs_of(network, batches(10, 1), layer="head")
    with pytest.raises(InputError, match="loader is empty"):
        outputs_of(network, [])
    with pytest.raises(InputError, match="called no linear layer"):
        outputs_of(nn.ReLU(), [torch.zeros(2, 3)])
    with pytest.raises(InputError, match=r"input has shape \(2, 5, 4\)"):
        outputs_of(nn.Linear(4, 3), [torch.zeros(2, 5, 4)])


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, PostHoc)])
def test_every_post_hoc_method_decides(network, name, tmp_path):
    train, cal, new = (outputs_of(network, batches(n, seed)) for n, seed in ((400, 0), (400, 2), (200, 3)))
    classifier = PostHocClassifier(name).fit(train, cal=cal)
    assert len(classifier.calibration_.labels) == 200
    assert (classifier.predict(new.outputs) == new.labels).mean() > 0.7
    assert classifier.is_ood(new.outputs).mean() < 0.15
    far = outputs_of(network, [torch.full((5, 4), 500.0)])
    assert classifier.is_ood(far).all()
    sets = classifier.predict_set(new.outputs)
    assert sets[np.arange(200), new.labels].mean() > 0.8
    classifier.save(tmp_path / "a.safetensors")
    loaded = PostHocClassifier.load(tmp_path / "a.safetensors")
    assert np.array_equal(loaded.decide(new.outputs).to_array(), classifier.decide(new.outputs).to_array())


def test_logits_alone_are_enough_for_some():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=500)
    logits = random.normal(size=(500, 3)) + 3.0 * np.eye(3)[labels]
    rows = LabelledOutputs(Outputs(logits), labels)
    classifier = PostHocClassifier("energy").fit(cal=rows)
    assert classifier.predict(logits.tolist()).shape == (500,)
    own = PostHocClassifier("energy").fit(val=rows, cal=rows)
    assert len(own.calibration_.labels) == 500
    with pytest.raises(InputError, match="X has 2 logits a row but the fit had 3"):
        classifier.predict(logits[:, :2])


def test_mistakes_are_named(tmp_path):
    rows = LabelledOutputs(Outputs(np.eye(2)), np.array([0, 1]))
    with pytest.raises(InputError, match="cal is missing; pass cal="):
        PostHocClassifier().fit(rows)
    with pytest.raises(InputError, match="method is 'volta', which trains a network of its own; pass one of softmax"):
        PostHocClassifier("volta").fit(cal=rows)
    with pytest.raises(InputError, match="the method learns from train rows and there are none"):
        PostHocClassifier(Knn(k=1)).fit(cal=rows)
    with pytest.raises(AttributeError, match="PostHocClassifier is not fitted"):
        PostHocClassifier().predict(np.eye(2))
    VoltaClassifier(max_epochs=2).fit(*draw(60)).save(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match=r"load it with VoltaClassifier\.load"):
        PostHocClassifier.load(tmp_path / "a.safetensors")
