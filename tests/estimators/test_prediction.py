"""What a method gives, settled: of any kind of number, finite, and with as many digits as mean anything."""

from __future__ import annotations

import numpy as np

from volta.core.types import Prediction
from volta.estimators.deciding import settled


def test_scores_of_any_number_type_become_float64() -> None:
    probs = np.array([[0.75, 0.25], [0.5, 0.5]], dtype=np.float32)
    found = settled(Prediction(probs, np.array([0.25, 2.5], dtype=np.float32), ood_score=np.array([1, 3])))
    assert (found.probs.dtype, found.uncertainty.dtype, found.ood_score.dtype) == (np.float64,) * 3
    np.testing.assert_array_equal(found.uncertainty, [0.25, 2.5])
    np.testing.assert_array_equal(found.ood_score, [1.0, 3.0])


def test_the_largest_scores_stay_finite() -> None:
    largest = np.array([np.finfo(np.float64).max, -np.finfo(np.float64).max])
    found = settled(Prediction(np.full((2, 2), 0.5), largest))
    assert np.isfinite(found.uncertainty).all()
    assert found.ood_score is found.uncertainty
