"""Data with folds: what is fitted on validation rows rests on networks that were trained without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from volta.core.types import FitData, Split
from volta.methods.linear import Linear
from volta.methods.softmax import Softmax
from volta.methods.volta import Volta
from volta.networks.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.calibrators.CalibrationWarning")


@pytest.fixture(scope="module")
def noise():
    """Labels that have nothing to do with the columns: only a network that saw a row can know its label."""
    random = np.random.default_rng(0)
    rows = Split(random.normal(size=(60, 30)).astype(np.float32), np.arange(60) % 2)
    return FitData(rows, replace(rows, inputs=rows.inputs[:]), rows.take(np.arange(4)), 2, n_folds=5)


def accuracy(logits, labels):
    return (logits.argmax(axis=1) == labels).mean()


def test_validation_rows_are_judged_by_networks_that_never_saw_them(noise):
    trainer = Trainer(seed=1)
    method = Volta().fit(noise, trainer)
    assert accuracy(method.network_.outputs(noise.train.inputs).logits, noise.train.labels) > 0.9
    assert accuracy(trainer.outputs(method.network_, noise, "val").logits, noise.val.labels) < 0.75
    assert accuracy(trainer.outputs(method.network_, noise, "train").logits, noise.train.labels) > 0.9
    assert trainer.n_trained == 6


def test_folds_are_trained_only_where_validation_rows_are_asked_for(noise):
    trainer = Trainer(seed=1)
    Softmax().fit(noise, trainer)
    assert trainer.n_trained == 1


def test_folds_are_disjoint_and_hold_every_row(noise):
    parts = Trainer(seed=1).held_out(noise)
    assert len(parts) == 5
    held = np.concatenate([val.inputs[:, 0] for _, val in parts])
    assert np.array_equal(np.sort(held), np.sort(noise.train.inputs[:, 0]))
    for train, val in parts:
        assert not set(train.inputs[:, 0]) & set(val.inputs[:, 0])


def test_the_linear_probe_sees_through_noise_and_does_not_depend_on_the_seed(noise):
    one, other = (Linear().fit(noise, Trainer(seed=seed)) for seed in (1, 2))
    assert np.array_equal(one.predict(noise.train.inputs).probs, other.predict(noise.train.inputs).probs)
    assert one.ridge_ >= 0.1
    assert one.predict(noise.train.inputs).probs.max() < 0.95


def test_weights_and_folds_are_part_of_the_fingerprint(noise):
    plain = replace(noise, n_folds=0)
    weighted = replace(plain, train=replace(plain.train, weights=np.ones(60)))
    assert len({noise.fingerprint, plain.fingerprint, weighted.fingerprint}) == 3
