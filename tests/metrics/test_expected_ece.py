"""The expected of ECE against brute force, by hand and at its edges."""

import numpy as np
import pytest

from tests.metrics.test_scoring import softmax_sample
from volta.core.errors import InputError
from volta.metrics import ece, ece_expected, ece_expected_high, ece_expected_low, report


def as_probs(confidence):
    confidence = np.asarray(confidence, dtype=np.float64)
    return np.column_stack([confidence, 1 - confidence])


def simulated(confidence, n_draws=3000):
    """Return the ECE of predictors that are right as often as they say, drawn row by row."""
    random = np.random.default_rng(1)
    probs = as_probs(confidence)
    return np.array([ece(probs, (random.random(len(probs)) >= confidence).astype(int)) for _ in range(n_draws)])


@pytest.mark.parametrize(
    ("n_rows", "shape"), [(20, (5, 1)), (289, (9, 0.5)), (2000, (3, 1)), (2000, (40, 0.2)), (5000, (8, 0.6))]
)
def test_equals_brute_force(n_rows, shape):
    confidence = 0.5 + 0.5 * np.random.default_rng(0).beta(*shape, n_rows)
    drawn, expected = simulated(confidence), ece_expected(as_probs(confidence))
    error = drawn.std() / np.sqrt(len(drawn))
    assert expected.estimate == pytest.approx(drawn.mean(), abs=4.5 * error)
    below, above = (drawn < expected.low).mean(), (drawn > expected.high).mean()
    # Small samples have few possible values, so that the tails hold less than 2.5 %.
    assert below <= 0.038 and above <= 0.038  # noqa: PT018
    if expected.estimate * n_rows > 15:
        assert below >= 0.014 and above >= 0.014  # noqa: PT018


def test_by_hand():
    expected = ece_expected([[0.9, 0.1]])  # |1 − 0.9| with chance 0.9, |0 − 0.9| with chance 0.1
    assert expected.estimate == pytest.approx(0.18, abs=1e-12)
    assert expected.low == pytest.approx(0.1, abs=1e-3)
    assert expected.high == pytest.approx(0.9, abs=1e-3)
    # Two bins of one row each: the gaps add before they are averaged.
    assert ece_expected([[0.9, 0.1], [0.6, 0.4]]).estimate == pytest.approx((0.18 + 0.48) / 2, abs=1e-12)
    assert float(expected) == expected.estimate


def test_many_rows_in_one_bin_are_a_half_normal():
    n_rows, confidence = 4000, 0.8
    expected = ece_expected(as_probs(np.full(n_rows, confidence)))
    deviation = np.sqrt(confidence * (1 - confidence) / n_rows)
    assert expected.estimate == pytest.approx(deviation * np.sqrt(2 / np.pi), rel=2e-3)
    assert expected.low == pytest.approx(0.0313 * deviation, abs=0.02 * deviation)
    assert expected.high == pytest.approx(2.2414 * deviation, rel=0.02)


def test_certain_rows_have_none_and_more_rows_have_less():
    expected = ece_expected([[1.0, 0.0], [0.0, 1.0]])
    assert (expected.estimate, expected.low, expected.high) == (0.0, 0.0, 0.0)
    few, many = (ece_expected(as_probs(np.tile(np.linspace(0.5, 1, 50), n))).estimate for n in (10, 1000))
    assert many == pytest.approx(few / 10, rel=0.02)


def test_ends_levels_and_the_report_agree():
    probs, labels = softmax_sample(500, 6, seed=2)
    expected = ece_expected(probs)
    assert (ece_expected_low(probs), ece_expected_high(probs)) == (expected.low, expected.high)
    found = report(
        probs, labels, 1 - probs.max(axis=1), only=["ece_expected", "ece_expected_low", "ece_expected_high"]
    )["test"]
    assert tuple(found.values()) == (expected.estimate, expected.low, expected.high)
    wider = ece_expected(probs, level=0.99)
    assert wider.low < expected.low < expected.estimate < expected.high < wider.high


def test_row_order_and_dtype_change_nothing_that_matters():
    probs, _ = softmax_sample(3000, 10, seed=4)
    expected = ece_expected(probs)
    assert ece_expected(probs[::-1]).estimate == pytest.approx(expected.estimate, rel=1e-9)
    assert ece_expected(probs.astype(np.float32)).estimate == pytest.approx(expected.estimate, rel=1e-4)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="row 0 sums to"):
        ece_expected([[0.9, 0.9]])
    with pytest.raises(InputError, match="level"):
        ece_expected([[0.9, 0.1]], level=1.5)
