"""VOLTA+: its score by hand, gross outliers, huge inputs, few rows and folds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from tests.conftest import blobs
from volta.core.errors import InputError
from volta.core.types import FitData, Split
from volta.methods.gaussians import fit_shrunk_distances
from volta.methods.volta_plus import VoltaPlus
from volta.metrics import auroc
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer
from volta.networks.wide import prepared

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.scaling.CalibrationWarning")


@pytest.fixture(scope="module")
def setting():
    data, test = blobs(spread=3.0)
    return data, test, VoltaPlus(hidden=32).fit(data, Trainer(seed=5, budget=Budget(max_epochs=20)))


def test_its_score_by_hand(setting):
    data, test, method = setting

    def parts(rows):
        outputs = method.network_.outputs(rows)
        logits = method.beta_ * outputs.logits
        return logits, -logsumexp(logits, axis=1), outputs.features[:, 32:].astype(np.float64)

    *_, of_train = parts(data.train.inputs)
    found = fit_shrunk_distances(of_train, data.train.labels, 0.05)

    def distances(even):
        nearest = found.classes.squared_distances(even).min(axis=1)
        return nearest, nearest - found.background.squared_distances(even)[:, 0]

    logits, free, even = parts(test.inputs)
    _, val_free, val_even = parts(data.val.inputs)
    expected = (np.maximum(free, val_free.min()) - val_free.mean()) / val_free.std()
    for weight, value, val in zip((0.25, 0.5), distances(even), distances(val_even), strict=True):
        expected = expected + weight * (value - val.mean()) / val.std()
    prediction = method.predict(test.inputs)
    assert np.allclose(prediction.probs, softmax(logits, axis=1))
    assert np.allclose(prediction.uncertainty, 1 - softmax(logits, axis=1).max(axis=1))
    assert np.allclose(prediction.ood_score, expected, atol=1e-4)


def test_beta_minimises_the_nll_of_validation_rows(setting):
    data, _, method = setting
    logits = method.network_.outputs(data.val.inputs).logits

    def nll(beta):
        return (logsumexp(beta * logits, axis=1) - beta * logits[np.arange(len(logits)), data.val.labels]).mean()

    assert nll(method.beta_) < min(nll(0.98 * method.beta_), nll(1.02 * method.beta_))


@pytest.mark.parametrize("n_features", [2, 8, 60])
def test_gross_outliers_are_flagged(n_features):
    data, test = blobs(n_rows=300, n_features=n_features, spread=2.0)
    method = VoltaPlus(hidden=64).fit(data, Trainer(seed=1))
    known = method.predict(test.inputs).ood_score
    deviation = data.train.inputs.std(axis=0)
    one_column = test.inputs.copy()
    one_column[:, 0] += 1e6
    for outliers in (
        test.inputs + 10.0 * deviation,
        test.inputs - 10.0 * deviation,
        test.inputs * 1000.0,
        one_column,
        np.random.default_rng(0).uniform(-200.0, 200.0, test.inputs.shape),
    ):
        assert auroc(known, method.predict(outliers.astype(np.float32)).ood_score) > 0.99


def test_huge_rows_give_finite_scores_above_all_others(setting):
    _, test, method = setting
    huge = np.concatenate([np.full((1, 8), 1e30), np.full((1, 8), -3e38), np.eye(8)[:1] * 1e30]).astype(np.float32)
    found = method.predict(huge)
    for values in (found.probs, found.uncertainty, found.ood_score):
        assert np.isfinite(values).all()
    assert found.ood_score.min() > method.predict(test.inputs).ood_score.max()


def test_a_hundred_rows_suffice_and_folds_judge_distances_by_rows_left_out():
    random = np.random.default_rng(0)
    labels = np.arange(100) % 2
    mixing = random.normal(size=(5, 60))

    def draw(labels):
        latent = random.normal(size=(len(labels), 5)) + labels[:, None]
        return (latent @ mixing + 0.3 * random.normal(size=(len(labels), 60))).astype(np.float32)

    rows = Split(draw(labels), labels)
    data = FitData(rows, replace(rows, inputs=rows.inputs[:]), rows.take(np.arange(4)), 2, n_folds=5)
    trainer = Trainer(seed=1)
    method = VoltaPlus(hidden=32).fit(data, trainer)
    assert trainer.n_trained == 6
    new = draw(np.arange(400) % 2)
    own, of_new = (
        method.distances_.of(prepared(method.network_.spec.body, rows))[0].mean() for rows in (data.train.inputs, new)
    )
    # Rows that the covariance was fitted on lie nearer than new ones; the scale comes from rows that it was not.
    assert own < 0.9 * method.scales_[2, 0]
    assert method.scales_[2, 0] == pytest.approx(of_new, rel=0.15)


def test_training_ends_with_its_cycle_under_both_protocols():
    data, _ = blobs(n_rows=80)
    logs = [VoltaPlus(hidden=8).fit(data, Trainer(seed=1, protocol=one)).network_.log for one in ("fair", "paper")]
    assert [(log.max_epochs, log.patience, len(log.val_losses)) for log in logs] == [(120, None, 120)] * 2


def test_pixels_are_refused():
    pixels = Split(np.zeros((4, 3, 8, 8), dtype=np.float32), np.arange(4) % 2)
    data = FitData(pixels, pixels, pixels, 2, kind="pixels")
    with pytest.raises(InputError, match="VOLTA works on frozen features"):
        VoltaPlus().fit(data, Trainer(seed=0))
