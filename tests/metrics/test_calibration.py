import numpy as np
import pytest
import torch
from hypothesis import given
from torchmetrics.functional.classification import multiclass_calibration_error
from torchmetrics.functional.classification.calibration_error import _ce_compute

from volta import metrics
from volta.core.errors import InputError

from . import reference
from .strategies import predictions
from .test_scoring import softmax_sample


def test_hand_computed():
    probs = np.array([[0.7, 0.3], [0.72, 0.28], [0.9, 0.1], [0.45, 0.55]])
    labels = [0, 1, 0, 1]
    # Bins of width 1/15: 0.7 and 0.72 share (10/15, 11/15]; 0.9 and 0.55 stand alone.
    gaps = [abs(0.5 - 0.71), 0.1, 0.45]
    assert metrics.ece(probs, labels) == pytest.approx((2 * gaps[0] + gaps[1] + gaps[2]) / 4, abs=1e-15)
    assert metrics.mce(probs, labels) == pytest.approx(0.45, abs=1e-15)
    # 0.71 of (10/15, 11/15] against 1/2 ± √(1/4): the other bins hold one row and add nothing.
    assert metrics.ece_debiased(probs, labels) == 0.0
    assert metrics.signed_ce(probs, labels) == pytest.approx(2.87 / 4 - 0.75, abs=1e-15)
    bins = metrics.reliability_bins(probs, labels)
    assert bins.gap == pytest.approx([-0.45, 0.21, -0.1])
    assert metrics.signed_ce(probs, labels) == pytest.approx(np.sum(bins.count * bins.gap) / 4, abs=1e-15)
    assert bins.count.tolist() == [1, 2, 1]
    assert bins.lower == pytest.approx([8 / 15, 10 / 15, 13 / 15])
    assert bins.upper == pytest.approx([9 / 15, 11 / 15, 14 / 15])
    assert bins.confidence == pytest.approx([0.55, 0.71, 0.9])
    assert bins.accuracy.tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize("n_classes", [2, 10, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchmetrics_away_from_edges(n_classes, dtype):
    probs, labels = softmax_sample(2000, n_classes, seed=3, dtype=dtype)
    confidence = torch.tensor(probs.max(axis=1), dtype=torch.float64)
    correct = torch.tensor(probs.argmax(axis=1) == labels, dtype=torch.float64)
    for norm, function in (("l1", metrics.ece), ("max", metrics.mce)):
        # The public function rounds to float32 first; its inner step takes float64.
        public = multiclass_calibration_error(
            torch.tensor(probs), torch.tensor(labels), n_classes, n_bins=15, norm=norm
        )
        inner = _ce_compute(confidence, correct, torch.linspace(0, 1, 16, dtype=torch.float64), norm=norm)
        assert function(probs, labels) == pytest.approx(float(public), abs=2e-6)
        assert function(probs, labels) == pytest.approx(float(inner), abs=1e-9)


@given(predictions())
def test_agrees_with_the_definitions(case):
    probs, labels = case
    for name in ("ece", "mce", "ece_equal_mass", "ece_classwise"):
        expected = getattr(reference, name)(probs, labels)
        assert getattr(metrics, name)(probs, labels) == pytest.approx(expected, abs=1e-12), name
    # A root near 0 magnifies rounding.
    squared = metrics.ece_debiased(probs, labels) ** 2
    assert squared == pytest.approx(reference.ece_debiased(probs, labels) ** 2, abs=1e-12)
    signed = probs.max(axis=1).mean() - np.mean(probs.argmax(axis=1) == labels)
    assert metrics.signed_ce(probs, labels) == pytest.approx(signed, abs=1e-12)


@given(predictions())
def test_signed_error_is_at_most_the_unsigned_one(case):
    assert abs(metrics.signed_ce(*case)) <= metrics.ece(*case) + 1e-12


def test_signed_error_names_over_and_underconfidence():
    assert metrics.signed_ce([[1.0, 0.0]] * 4, [1] * 4) == 1.0
    assert metrics.signed_ce([[0.5, 0.5]] * 4, [0] * 4) == -0.5


def test_debiased_by_hand():
    probs = [[0.9, 0.1]] * 4
    assert metrics.ece_debiased(probs, [0, 0, 1, 1]) == pytest.approx((0.4**2 - 0.25 / 3) ** 0.5, abs=1e-12)
    assert metrics.ece_debiased(probs, [0, 0, 0, 1]) == 0.0
    assert metrics.ece_debiased([[0.9, 0.1]], [1]) == 0.0
    assert metrics.ece_debiased([[1.0, 0.0]] * 3, [1] * 3) == 1.0


def test_debiased_square_has_the_right_mean_where_the_plain_one_has_not():
    rng = np.random.default_rng(0)
    gap, plain, debiased = 0.1, [], []
    for _ in range(400):
        confidence = rng.uniform(0.62, 0.98, 300)
        correct = rng.random(300) < confidence - gap
        bins = metrics.reliability_bins(np.column_stack([confidence, 1 - confidence]), (~correct).astype(int))
        plain.append(np.sum(bins.count * bins.gap**2) / 300)
        debiased.append(
            metrics.ece_debiased(np.column_stack([confidence, 1 - confidence]), (~correct).astype(int)) ** 2
        )
    assert np.mean(plain) > gap**2 + 0.003
    assert np.mean(debiased) == pytest.approx(gap**2, abs=0.001)


@given(predictions())
def test_bounds_and_order(case):
    probs, labels = case
    ece, mce = metrics.ece(probs, labels), metrics.mce(probs, labels)
    assert 0 <= ece <= mce + 1e-15 <= 1 + 1e-15
    assert 0 <= metrics.ece_equal_mass(probs, labels) <= 1
    assert 0 <= metrics.ece_debiased(probs, labels) <= 1
    assert -1 <= metrics.signed_ce(probs, labels) <= 1
    assert 0 <= metrics.ece_classwise(probs, labels) <= 1
    assert metrics.reliability_bins(probs, labels, 5).count.sum() == len(labels)


def test_confidence_one_is_in_the_last_bin_and_not_lost():
    probs = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert metrics.ece(probs, [0, 1]) == metrics.mce(probs, [0, 1]) == 0.5
    assert metrics.reliability_bins(probs, [0, 1]).upper.tolist() == [1.0]


def test_equal_mass_ignores_the_order_of_tied_rows():
    probs = np.tile([0.8, 0.2], (30, 1))
    labels = np.array([0] * 24 + [1] * 6)
    assert metrics.ece_equal_mass(probs, labels) == pytest.approx(0, abs=1e-15)
    assert metrics.ece_equal_mass(probs, labels[::-1]) == pytest.approx(0, abs=1e-15)


def test_equal_mass_is_the_usual_one_when_rows_divide_evenly():
    probs, labels = softmax_sample(15 * 40, 4, seed=9)
    top, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    blocks = np.argsort(top).reshape(15, 40)
    expected = np.mean([abs(correct[rows].mean() - top[rows].mean()) for rows in blocks])
    assert metrics.ece_equal_mass(probs, labels) == pytest.approx(expected, abs=1e-12)


def test_ece_interval_is_reproducible_ordered_and_widens():
    probs, labels = softmax_sample(400, 5, seed=4)
    interval = metrics.ece_interval(probs, labels, n_resamples=200, seed=1)
    assert interval == metrics.ece_interval(probs, labels, n_resamples=200, seed=1)
    assert interval.estimate == pytest.approx(metrics.ece(probs, labels), abs=1e-12)
    assert 0 <= interval.low <= interval.high <= 1
    narrow = metrics.ece_interval(probs, labels, level=0.5, n_resamples=200, seed=1)
    assert narrow.high - narrow.low < interval.high - interval.low
    assert metrics.ece_interval([[0.9, 0.1]], [0], n_resamples=10).estimate == pytest.approx(0.1)


def test_ece_interval_covers_the_true_error():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(60):
        confidence = rng.uniform(0.55, 0.95, 400)
        correct = rng.random(400) < confidence - 0.15
        probs = np.column_stack([confidence, 1 - confidence])
        interval = metrics.ece_interval(probs, (~correct).astype(int), n_resamples=200, seed=trial)
        covered += interval.low <= 0.15 <= interval.high
    assert covered >= 52


def test_debiased_interval_is_reproducible_ordered_and_widens():
    probs, labels = softmax_sample(400, 5, seed=4)
    interval = metrics.ece_debiased_interval(probs, labels, n_resamples=200, seed=1)
    assert interval == metrics.ece_debiased_interval(probs, labels, n_resamples=200, seed=1)
    assert interval.estimate == pytest.approx(metrics.ece_debiased(probs, labels), abs=1e-12)
    assert 0 <= interval.low <= interval.high <= 1
    narrow = metrics.ece_debiased_interval(probs, labels, level=0.5, n_resamples=200, seed=1)
    assert narrow.high - narrow.low < interval.high - interval.low
    assert metrics.ece_debiased_interval([[0.9, 0.1]], [0], n_resamples=10).estimate == 0.0


@pytest.mark.parametrize("gap", [0.0, 0.04, 0.15])
def test_debiased_interval_covers_the_true_error(gap):
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(60):
        confidence = rng.uniform(0.55, 0.95, 400)
        correct = rng.random(400) < confidence - gap
        probs = np.column_stack([confidence, 1 - confidence])
        interval = metrics.ece_debiased_interval(probs, (~correct).astype(int), n_resamples=200, seed=trial)
        covered += interval.low <= gap <= interval.high
    assert covered >= 53


def test_rejects_bad_options():
    probs, labels = [[0.5, 0.5]], [0]
    with pytest.raises(InputError, match="n_bins is 0; expected an integer of at least 1"):
        metrics.reliability_bins(probs, labels, 0)
    with pytest.raises(InputError, match=r"level is 1\.5"):
        metrics.ece_interval(probs, labels, level=1.5)
    with pytest.raises(InputError, match="n_resamples"):
        metrics.ece_interval(probs, labels, n_resamples=-1)
    with pytest.raises(InputError, match=r"level is 0; expected a number strictly between 0 and 1"):
        metrics.ece_debiased_interval(probs, labels, level=0)
    with pytest.raises(InputError, match="n_resamples"):
        metrics.ece_debiased_interval(probs, labels, n_resamples=0)
