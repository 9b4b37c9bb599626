"""The floor of ECE against brute force, by hand and at its edges."""

import numpy as np
import pytest

from tests.metrics.test_scoring import softmax_sample
from volta.core.errors import InputError
from volta.metrics import ece, ece_floor, ece_floor_high, ece_floor_low, report


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
    drawn, floor = simulated(confidence), ece_floor(as_probs(confidence))
    error = drawn.std() / np.sqrt(len(drawn))
    assert floor.estimate == pytest.approx(drawn.mean(), abs=4.5 * error)
    below, above = (drawn < floor.low).mean(), (drawn > floor.high).mean()
    # Small samples have few possible values, so that the tails hold less than 2.5 %.
    assert below <= 0.038 and above <= 0.038  # noqa: PT018
    if floor.estimate * n_rows > 15:
        assert below >= 0.014 and above >= 0.014  # noqa: PT018


def test_by_hand():
    floor = ece_floor([[0.9, 0.1]])  # |1 − 0.9| with chance 0.9, |0 − 0.9| with chance 0.1
    assert floor.estimate == pytest.approx(0.18, abs=1e-12)
    assert floor.low == pytest.approx(0.1, abs=1e-3)
    assert floor.high == pytest.approx(0.9, abs=1e-3)
    # Two bins of one row each: the gaps add before they are averaged.
    assert ece_floor([[0.9, 0.1], [0.6, 0.4]]).estimate == pytest.approx((0.18 + 0.48) / 2, abs=1e-12)
    assert float(floor) == floor.estimate


def test_many_rows_in_one_bin_are_a_half_normal():
    n_rows, confidence = 4000, 0.8
    floor = ece_floor(as_probs(np.full(n_rows, confidence)))
    deviation = np.sqrt(confidence * (1 - confidence) / n_rows)
    assert floor.estimate == pytest.approx(deviation * np.sqrt(2 / np.pi), rel=2e-3)
    assert floor.low == pytest.approx(0.0313 * deviation, abs=0.02 * deviation)
    assert floor.high == pytest.approx(2.2414 * deviation, rel=0.02)


def test_certain_rows_have_none_and_more_rows_have_less():
    floor = ece_floor([[1.0, 0.0], [0.0, 1.0]])
    assert (floor.estimate, floor.low, floor.high) == (0.0, 0.0, 0.0)
    few, many = (ece_floor(as_probs(np.tile(np.linspace(0.5, 1, 50), n))).estimate for n in (10, 1000))
    assert many == pytest.approx(few / 10, rel=0.02)


def test_ends_levels_and_the_report_agree():
    probs, labels = softmax_sample(500, 6, seed=2)
    floor = ece_floor(probs)
    assert (ece_floor_low(probs), ece_floor_high(probs)) == (floor.low, floor.high)
    found = report(probs, labels, 1 - probs.max(axis=1), only=["ece_floor", "ece_floor_low", "ece_floor_high"])["test"]
    assert tuple(found.values()) == (floor.estimate, floor.low, floor.high)
    wider = ece_floor(probs, level=0.99)
    assert wider.low < floor.low < floor.estimate < floor.high < wider.high


def test_row_order_and_dtype_change_nothing_that_matters():
    probs, _ = softmax_sample(3000, 10, seed=4)
    floor = ece_floor(probs)
    assert ece_floor(probs[::-1]).estimate == pytest.approx(floor.estimate, rel=1e-9)
    assert ece_floor(probs.astype(np.float32)).estimate == pytest.approx(floor.estimate, rel=1e-4)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="row 0 sums to"):
        ece_floor([[0.9, 0.9]])
    with pytest.raises(InputError, match="level"):
        ece_floor([[0.9, 0.1]], level=1.5)
