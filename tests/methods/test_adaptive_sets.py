"""Adaptive sets found from sorted probabilities are those of the definition, ties included."""

from __future__ import annotations

import numpy as np
import pytest

from volta.methods.conformal import adaptive_sets, mass_above


@pytest.mark.parametrize("n_classes", [1, 2, 5, 100])
def test_sets_are_the_classes_with_little_mass_above(n_classes):
    random = np.random.default_rng(0)
    probs = np.concatenate(
        [
            random.dirichlet(np.ones(n_classes), 200),
            np.full((1, n_classes), 1.0 / n_classes),
            np.eye(n_classes),
        ]
    )
    tied = np.round(probs, 1)
    for rows in (probs, tied):
        for threshold in (0.0, 0.3, 0.9, float(mass_above(rows)[7, 0]), 2.0, np.inf):
            np.testing.assert_array_equal(adaptive_sets(rows, threshold), mass_above(rows) <= threshold)
