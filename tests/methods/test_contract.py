"""What every entry of METHODS must hold, one test a promise."""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.conftest import blobs
from volta.core.errors import InputError, NotFittedError, StoreError
from volta.core.types import FitData, Split
from volta.methods import ABLATION, METHODS, find_method
from volta.methods.saving import count_values, load_methods, parameters_of, save_methods
from volta.methods.temperature import CalibrationWarning
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
NAMES = list(METHODS)


def first_protocol(name):
    return METHODS[name].protocols[0] if name in METHODS else "fair"


def fitted(name, data, seed=3, max_epochs=4, protocol=None, store=None):
    trainer = Trainer(seed=seed, protocol=protocol or first_protocol(name), budget=Budget(max_epochs=max_epochs))
    if store is not None:
        trainer.store = store
    return find_method(name).method.fit(data, trainer)


@cache
def fitted_on_blobs(name):
    """Return a method fitted on the usual blobs, and rows to predict: fitted once for the tests that only predict."""
    data, test = blobs()
    return fitted(name, data), test


def same(first, second):
    assert np.array_equal(first.probs, second.probs)
    assert np.array_equal(first.uncertainty, second.uncertainty)
    assert np.array_equal(first.ood_score, second.ood_score)
    assert (first.sets is None and second.sets is None) or np.array_equal(first.sets, second.sets)


def check(prediction, n_rows, n_classes):
    assert prediction.probs.shape == (n_rows, n_classes)
    assert prediction.probs.dtype == np.float64
    assert np.abs(prediction.probs.sum(axis=1) - 1).max() < 1e-9
    assert prediction.probs.min() >= 0
    for scores in (prediction.uncertainty, prediction.ood_score):
        assert scores.shape == (n_rows,)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
    if prediction.sets is not None:
        assert prediction.sets.shape == (n_rows, n_classes)
        assert prediction.sets.dtype == bool


def test_every_method_is_documented_and_importable():
    for method in METHODS.values():
        assert method.__module__.startswith("volta.methods.")
        assert getattr(importlib.import_module(method.__module__), method.__name__) is method
        assert method.__doc__.strip()
        assert method.title
        assert method.origin in {"volta", "paper", "extra"}


def test_the_papers_ten_are_there():
    ten = "mc_dropout swag gmm temperature energy mahalanobis hyperbolic enn taylor_sensus conformal"
    assert {name for name, method in METHODS.items() if method.origin == "paper"} == set(ten.split())


def test_an_unknown_method_is_named_with_the_known_ones():
    with pytest.raises(InputError, match="there is no method 'nope'; the methods are: volta"):
        find_method("nope")


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bytes_and_a_refit_forgets(name):
    data, _ = blobs()
    other, _ = blobs(n_classes=3, n_features=8, seed=9)
    once, test = fitted_on_blobs(name)
    first = once.predict(test.inputs)
    check(first, len(test), 4)
    method = fitted(name, other)
    method.fit(data, Trainer(seed=3, protocol=first_protocol(name), budget=Budget(max_epochs=4)))
    same(first, method.predict(test.inputs))
    same(first, method.predict(test.inputs))


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_use_raises(name):
    with pytest.raises(NotFittedError, match="is not fitted; call fit before using it"):
        find_method(name).method.predict(np.zeros((2, 8), dtype=np.float32))


@pytest.mark.parametrize("name", [*NAMES, "volta-full"])
def test_saved_and_loaded_methods_predict_the_same(name, tmp_path):
    method, test = fitted_on_blobs(name)
    registered = "volta" if name in ABLATION else name
    save_methods([method], registered, tmp_path / "model.safetensors")
    (loaded,), extra = load_methods(tmp_path / "model.safetensors", METHODS)
    assert extra == {}
    assert type(loaded) is type(method)
    assert parameters_of(loaded) == parameters_of(method)
    same(method.predict(test.inputs), loaded.predict(test.inputs))
    assert count_values(loaded) == count_values(method) > 0


def test_a_file_that_is_no_method_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"not a safetensors file")
    with pytest.raises(StoreError, match="is not a saved VOLTA method"):
        load_methods(path, METHODS)


# A fit a class: 200 of them take seconds.
FEWER_CLASSES = ("auto", "boosted_trees", "spline")


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_classes(name, many):
    n_classes = 2 if not many else 65 if name in FEWER_CLASSES else 200
    data, test = blobs(n_rows=2 * n_classes + 40, n_classes=n_classes)
    check(fitted(name, data, max_epochs=1).predict(test.inputs), len(test), n_classes)


@pytest.mark.parametrize(("name", "protocol"), [(name, one) for name in NAMES for one in METHODS[name].protocols])
def test_its_protocols(name, protocol):
    data, test = blobs(n_rows=80)
    check(fitted(name, data, max_epochs=1, protocol=protocol).predict(test.inputs), len(test), 4)


@pytest.mark.parametrize("name", NAMES)
def test_one_feature_and_a_constant_feature(name):
    data, test = blobs(n_rows=80, n_features=1)
    check(fitted(name, data, max_epochs=1).predict(test.inputs), len(test), 4)
    data, test = blobs(n_rows=80, n_features=3)
    for split in (data.train, data.val, data.cal, test):
        split.inputs[:, 1] = 7.0
    check(fitted(name, data, max_epochs=1).predict(test.inputs), len(test), 4)


@pytest.mark.parametrize("name", NAMES)
def test_classes_absent_from_val_and_train(name):
    data, test = blobs(n_rows=80)
    rows = np.flatnonzero(data.val.labels != 2)
    trained = np.flatnonzero(data.train.labels != 1)
    partial = replace(data, val=data.val.take(rows), train=data.train.take(trained))
    check(fitted(name, partial, max_epochs=1).predict(test.inputs), len(test), 4)


@pytest.mark.parametrize("name", NAMES)
def test_float32_and_float64_input_agree(name):
    data, test = blobs(n_rows=80)
    double = FitData(*(Split(s.inputs.astype(np.float64), s.labels) for s in (data.train, data.val, data.cal)), 4)
    first = fitted(name, data, max_epochs=2).predict(test.inputs)
    second = fitted(name, double, max_epochs=2).predict(test.inputs.astype(np.float64))
    # Networks compute rows in the precision that they come in, so only float32's rounding may lie between the two.
    # The residual that ViM and SIRC score by lies in directions in which these rows vary by rounding alone.
    for kind in ("probs",) if name in ("vim", "sirc") else ("probs", "uncertainty", "ood_score"):
        np.testing.assert_allclose(getattr(first, kind), getattr(second, kind), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_refused_with_the_row(name):
    data, test = blobs(n_rows=80)
    trainer = Trainer(seed=0, protocol=first_protocol(name), budget=Budget(max_epochs=1))
    broken = data.train.inputs.copy()
    broken[5, 2] = np.nan
    with pytest.raises(InputError, match="train inputs row 5 holds nan"):
        find_method(name).method.fit(replace(data, train=Split(broken, data.train.labels)), trainer)
    labels = data.val.labels.copy()
    labels[3] = 4
    with pytest.raises(InputError, match=r"val labels row 3"):
        find_method(name).method.fit(replace(data, val=Split(data.val.inputs, labels)), trainer)
    method = find_method(name).method.fit(data, trainer)
    infinite = test.inputs.copy()
    infinite[1, 0] = np.inf
    with pytest.raises(InputError, match="inputs row 1 holds inf"):
        method.predict(infinite)
    with pytest.raises(InputError, match=r"inputs has rows of shape \(3,\); the method was fitted on \(8,\)"):
        method.predict(test.inputs[:, :3])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_overflow_are_refused_or_answered_in_numbers(name):
    method, test = fitted_on_blobs(name)
    for value in (1e30, -1e38):
        with suppress(InputError):
            check(method.predict(np.full((2, test.inputs.shape[1]), value, np.float32)), 2, 4)


@pytest.mark.parametrize("name", NAMES)
def test_rows_between_classes_are_less_certain_than_rows_at_their_centres(name):
    random = np.random.default_rng(0)
    centres = np.array([[6.0, 0.0], [-6.0, 0.0]])

    def split(size):
        labels = np.arange(size) % 2
        return Split((centres[labels] + random.normal(0, 1.5, (size, 2))).astype(np.float32), labels.astype(np.int64))

    data = FitData(split(200), split(100), split(100), n_classes=2)
    method = fitted(name, data, max_epochs=40)
    core = (centres[np.arange(200) % 2] + random.normal(0, 0.3, (200, 2))).astype(np.float32)
    between = random.normal(0, 0.3, (200, 2)).astype(np.float32)
    certain, doubtful = (method.predict(rows).uncertainty for rows in (core, between))
    assert np.median(doubtful) > np.median(certain)


def test_post_hoc_methods_share_one_training():
    data, _ = blobs()
    trainer = Trainer(seed=1, budget=Budget(max_epochs=2))
    shared = "softmax temperature energy mahalanobis gmm conformal knn vim max_logit laplace rmds vector_scaling aps"
    methods = [find_method(name).method.fit(data, trainer) for name in shared.split()]
    assert trainer.n_trained == 1
    assert len({id(method.network_) for method in methods}) == 1
    find_method("ensemble").method.fit(data, trainer)
    assert trainer.n_trained == 5


def test_ablation_rows_are_settings_of_one_class_and_share_what_they_can():
    data, _ = blobs(n_rows=60)
    trainer = Trainer(seed=1, budget=Budget(max_epochs=1))
    settings = [tuple(parameters_of(find_method(name).method).values()) for name in ABLATION]
    assert len(set(settings)) == len(ABLATION) == 14
    for name in ABLATION:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            find_method(name).method.fit(data, trainer)
    # no-mc and no-posthoc reuse full VOLTA's network, no-temperature that of no-adaptive-temperature
    assert trainer.n_trained == 14 - 3
