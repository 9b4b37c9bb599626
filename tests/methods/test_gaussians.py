"""Gaussians with a shared covariance: shrinkage against scikit-learn's, and the order of the two covariances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LinearRegression

from volta.methods.mahalanobis import fit_distances, fit_gaussians, fit_shrunk_distances


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    groups = np.arange(60) % 3
    mixing = random.normal(size=(5, 5))
    return 4.0 * random.normal(size=(3, 5))[groups] + random.normal(size=(60, 5)) @ mixing, groups


def by_hand(rows, groups, shrinkage):
    means = np.array([rows[groups == group].mean(axis=0) for group in range(3)])
    residuals = rows - means[groups]

    def inverse(covariance):
        shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / 5 * np.eye(5)
        return np.linalg.inv(shrunk + 1e-6 * np.eye(5))

    within, overall = residuals.T @ residuals / 60, np.cov(rows.T, bias=True)
    from_means = np.einsum("nci,ij,ncj->nc", rows[:, None] - means, inverse(within), rows[:, None] - means)
    centred = rows - rows.mean(axis=0)
    return from_means, np.einsum("ni,ij,nj->n", centred, inverse(overall), centred)


def test_the_shrinkage_is_ledoit_and_wolfs(rows):
    features, groups = rows
    means = np.array([features[groups == group].mean(axis=0) for group in range(3)])
    _, shrinkage = ledoit_wolf(features - means[groups], assume_centered=True)
    assert 0.0 < shrinkage < 1.0
    found = fit_shrunk_distances(features, groups)
    classes, background = found.classes, found.background
    from_means, from_centre = by_hand(features, groups, shrinkage)
    assert np.allclose(classes.squared_distances(features), from_means)
    assert np.allclose(background.squared_distances(features)[:, 0], from_centre)


def test_the_shrinkage_has_a_least_value(rows):
    features, groups = rows
    found = fit_shrunk_distances(features, groups, least=0.7)
    classes, background = found.classes, found.background
    from_means, from_centre = by_hand(features, groups, 0.7)
    assert np.allclose(classes.squared_distances(features), from_means)
    assert np.allclose(background.squared_distances(features)[:, 0], from_centre)


def test_far_rows_are_never_nearer_to_a_class_than_to_all_rows(rows):
    features, groups = rows
    found = fit_shrunk_distances(features, groups, least=0.05)
    classes, background = found.classes, found.background
    far = 1e6 * np.random.default_rng(1).normal(size=(200, 5))
    assert (classes.squared_distances(far).min(axis=1) > background.squared_distances(far)[:, 0]).all()


def test_rows_that_do_not_vary_and_single_rows_have_finite_distances():
    for features in (np.ones((4, 3)), np.array([[1.0, 2.0, 3.0]])):
        for found in (
            fit_gaussians(features, np.zeros(len(features), int)),
            *vars(fit_shrunk_distances(features, np.zeros(len(features), int))).values(),
        ):
            assert np.isfinite(found.squared_distances(features + 1.0)).all()


def test_redundancy_is_the_mean_r_squared_of_each_column_on_the_others():
    random = np.random.default_rng(2)
    features = random.normal(size=(400, 3)) @ random.normal(size=(3, 5)) + 0.5 * random.normal(size=(400, 5))
    expected = []
    for column in range(5):
        others = np.delete(features, column, axis=1)
        expected.append(LinearRegression().fit(others, features[:, column]).score(others, features[:, column]))
    found = fit_gaussians(features, np.zeros(400, dtype=np.int64)).redundancy()
    assert found == pytest.approx(np.mean(expected), abs=1e-4)
    alone = fit_gaussians(random.normal(size=(5000, 4)), np.zeros(5000, dtype=np.int64)).redundancy()
    assert 0.0 <= alone < 0.01


def test_the_gaussian_over_all_rows_is_one_group(rows):
    features, groups = rows
    found = fit_distances(features, groups)
    alone = fit_gaussians(features, np.zeros_like(groups))
    np.testing.assert_allclose(
        found.background.squared_distances(features), alone.squared_distances(features), rtol=1e-9
    )
    np.testing.assert_allclose(
        found.classes.squared_distances(features), fit_gaussians(features, groups).squared_distances(features), rtol=0
    )
