"""Post-hoc methods on plain arrays: a user's own network is as good as one trained here."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import blobs
from tests.methods.test_contract import same
from volta.core.errors import InputError
from volta.methods import METHODS
from volta.methods.base import PostHoc
from volta.methods.registry import needs_of
from volta.methods.saving import load_methods, save_methods
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
POST_HOC = [name for name, method in METHODS.items() if issubclass(method, PostHoc)]
FROM_LOGITS = [
    "softmax",
    "temperature",
    "energy",
    "conformal",
    "max_logit",
    "vector_scaling",
    "aps",
    "gen",
    "maxlogit_pnorm",
    "structured_vector_scaling",
    "structured_matrix_scaling",
    "ensemble_temperature",
    "isotonic",
    "beta",
    "quadratic",
    "spline",
    "dirichlet",
    "venn_abers",
    "kl_matching",
]
LAST_LAYER = ["vim", "fdbd", "nci", "react", "scale", "weiper", "residual", "dice"]


@pytest.fixture(scope="module")
def setting():
    data, test = blobs(spread=3.0)
    return data, test, {one: Trainer(seed=5, protocol=one, budget=Budget(max_epochs=3)) for one in ("fair", "paper")}


def as_a_user_has_them(network, inputs, **without):
    """Return outputs made of numbers that went through text, as from another library."""
    found = network.outputs(inputs)
    logits, features, weight, bias = (
        np.array(array.tolist())
        for array in (found.logits, found.features, found.last_layer.weight, found.last_layer.bias)
    )
    parts = {"features": features, "last_layer": LastLayer(weight, bias)} | without
    return Outputs(logits, **parts)


def splits(data, network, **without):
    return {
        name: LabelledOutputs(as_a_user_has_them(network, split.inputs, **without), split.labels)
        for name, split in (("train", data.train), ("val", data.val), ("cal", data.cal))
    }


def test_every_post_hoc_method_is_among_these():
    assert len(POST_HOC) == 43
    assert set(FROM_LOGITS) < set(POST_HOC)


def test_what_each_method_needs_is_said():
    assert [name for name in METHODS if needs_of(name) == "logits"] == [name for name in METHODS if name in FROM_LOGITS]
    assert {name for name in METHODS if needs_of(name) == "last-layer"} == set(LAST_LAYER)
    assert {name for name in METHODS if needs_of(name) == "training"} == set(METHODS) - set(POST_HOC)


@pytest.mark.parametrize("name", POST_HOC)
def test_plain_arrays_give_what_the_trainer_gives(setting, name, tmp_path):
    data, test, trainers = setting
    trainer = trainers[METHODS[name].protocols[0]]
    through_trainer = METHODS[name]().fit(data, trainer)
    network = through_trainer.network_
    method = METHODS[name]().fit_from_outputs(**splits(data, network), random_state=trainer.seed)
    outputs = as_a_user_has_them(network, test.inputs)
    prediction = method.predict_outputs(outputs)
    same(prediction, through_trainer.predict(test.inputs))
    same(prediction, through_trainer.predict_outputs(trainer.cache.outputs(network, "test", test.inputs)))
    save_methods([method], name, tmp_path / "method.safetensors")
    (loaded,), _ = load_methods(tmp_path / "method.safetensors", METHODS)
    same(prediction, loaded.predict_outputs(outputs))
    with pytest.raises(InputError, match="was fitted from outputs, without a network; call predict_outputs"):
        method.predict(test.inputs)


@pytest.mark.parametrize("name", POST_HOC)
def test_what_is_missing_is_named(setting, name):
    data, test, trainers = setting
    trainer = trainers[METHODS[name].protocols[0]]
    network = trainer.network(data)
    bare = splits(data, network, features=None, last_layer=None)
    if name in FROM_LOGITS:
        method = METHODS[name]().fit_from_outputs(**bare)
        same(
            method.predict_outputs(as_a_user_has_them(network, test.inputs, features=None, last_layer=None)),
            METHODS[name]().fit(data, trainer).predict(test.inputs),
        )
        return
    with pytest.raises(InputError, match="outputs hold no features"):
        METHODS[name]().fit_from_outputs(**bare)
    fitted = METHODS[name]().fit_from_outputs(**splits(data, network))
    with pytest.raises(InputError, match="outputs hold no features"):
        fitted.predict_outputs(Outputs(network.outputs(test.inputs).logits))


@pytest.mark.parametrize("name", LAST_LAYER)
def test_a_method_names_the_last_layer_it_misses(setting, name):
    data, _, trainers = setting
    trainer = trainers[METHODS[name].protocols[0]]
    with pytest.raises(InputError, match=r"outputs hold no last_layer.*LastLayer\(weight, bias\)"):
        METHODS[name]().fit_from_outputs(**splits(data, trainer.network(data), last_layer=None))


@pytest.mark.parametrize(("name", "split"), [("temperature", "val"), ("conformal", "cal"), ("knn", "train")])
def test_only_the_splits_a_method_learns_from_are_needed(setting, name, split):
    data, trainer = setting[0], setting[2]["fair"]
    every = splits(data, trainer.network(data))
    METHODS[name]().fit_from_outputs(**{split: every[split]})
    del every[split]
    with pytest.raises(InputError, match=f"learns from {split} rows and there are none; pass {split}="):
        METHODS[name]().fit_from_outputs(**every)


def test_splits_of_two_networks_are_refused(setting):
    data, trainer = setting[0], setting[2]["fair"]
    train = splits(data, trainer.network(data))["train"]
    narrow = LabelledOutputs(Outputs(np.zeros((2, 4)), np.zeros((2, 3))), np.array([0, 1]))
    with pytest.raises(InputError, match=r"differ.*pass outputs of one network"):
        METHODS["laplace"]().fit_from_outputs(train=train, val=narrow)


def test_fitting_from_outputs_forgets_an_earlier_fit(setting):
    data, test, trainer = *setting[:2], setting[2]["fair"]
    method = METHODS["temperature"]().fit(data, trainer)
    method.fit_from_outputs(val=splits(data, trainer.network(data))["val"])
    with pytest.raises(InputError, match="without a network"):
        method.predict(test.inputs)
    assert set(vars(method)) == {"fitted_", "input_shape_"}


def test_only_what_a_method_asks_for_is_computed(setting):
    data, _, _ = setting
    trainer = Trainer(seed=5, budget=Budget(max_epochs=1))
    seen = []
    compute = trainer.cache.outputs
    trainer.cache.outputs = lambda network, name, inputs: seen.append(name) or compute(network, name, inputs)
    METHODS["energy"]().fit(data, trainer)
    assert seen == []
    METHODS["temperature"]().fit(data, trainer)
    assert seen == ["val"]
