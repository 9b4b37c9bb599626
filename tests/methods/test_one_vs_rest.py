"""Maps of one class against the rest: against scikit-learn, scipy and isotonic regression fitted anew for each score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from volta.methods.one_vs_rest import (
    beta_features,
    fit_beta,
    fit_quadratic,
    fit_spline,
    fit_venn_abers,
    quadratic_features,
    spline_features,
    spline_pieces,
    step_values,
)


def rows(n_rows=400, seed=0):
    """Return log-odds, hits of a curved and shifted logit, and equal counts."""
    random = np.random.default_rng(seed)
    x = random.normal(size=n_rows) * 2
    hits = random.random(n_rows) < 1 / (1 + np.exp(-(0.5 + 0.8 * x + 0.05 * x**2)))
    return x, hits, np.ones(n_rows)


def test_beta_features_are_logs_of_probabilities():
    x = np.array([-50.0, -1.0, 0.0, 3.0])
    p = 1 / (1 + np.exp(-x))
    assert np.allclose(beta_features(x), np.stack([np.log(p), -np.log1p(-p), np.ones(4)], axis=1))


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_beta_is_the_logistic_regression_of_its_features(ridge):
    x, hits, counts = rows()
    fitted = fit_beta(x, hits, counts, ridge)
    p = 1 / (1 + np.exp(-x))
    features = np.stack([np.log(p), -np.log(1 - p), np.ones(len(x))], axis=1)

    def loss(values):
        logits = features @ values
        penalty = ridge / len(x) * ((values - [1, 1, 0]) ** 2).sum()
        return (np.logaddexp(0, logits) - hits * logits).mean() + penalty

    assert np.allclose(fitted, minimize(loss, [1.0, 1.0, 0.0], method="Nelder-Mead", tol=1e-10).x, atol=1e-4)
    if not ridge:
        model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(features[:, :2], hits)
        assert np.allclose(fitted, [*model.coef_[0], model.intercept_[0]], atol=1e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_slopes_below_0_stop_at_0(sign):
    # Scores that are right on one side of ½ and worse than chance on the other, and scores that are wrong throughout.
    x, _, counts = rows()
    random = np.random.default_rng(3)
    hits = random.random(len(x)) < 1 / (1 + np.exp(sign * np.abs(x)))
    for fit, slopes in ((fit_beta, slice(0, 2)), (fit_quadratic, slice(2, 4))):
        found = fit(x, hits, counts, 1.0)
        assert found[slopes].min() >= 0.0
        wrong = fit(x, x < 0.0, counts, 1.0)
        assert np.array_equal(wrong[slopes], [0.0, 0.0])


def test_beta_on_a_face_is_the_best_of_all_that_are_allowed():
    x, _, counts = rows()
    hits = np.random.default_rng(3).random(len(x)) < 1 / (1 + np.exp(-np.abs(x)))
    found, features = fit_beta(x, hits, counts, 1.0), beta_features(x)

    def loss(values):
        logits = features @ values
        penalty = ((values - [1, 1, 0]) ** 2).sum() / len(x)
        return (np.logaddexp(0, logits) - hits * logits).mean() + penalty

    bounded = minimize(loss, [1.0, 1.0, 0.0], method="L-BFGS-B", bounds=[(0, None), (0, None), (None, None)])
    assert np.allclose(found, bounded.x, atol=1e-3)
    assert loss(found) <= bounded.fun + 1e-9


def test_quadratic_is_a_polynomial_within_the_range_and_a_line_outside():
    x, hits, counts = rows()
    low, high, *of_features = fit_quadratic(x, hits, counts, 0.0)
    assert (low, high) == (x.min(), x.max())
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(np.stack([x, x**2], axis=1), hits)
    polynomial = model.intercept_[0] + model.coef_[0, 0] * x + model.coef_[0, 1] * x**2
    assert np.allclose(quadratic_features(x, low, high) @ of_features, polynomial, atol=1e-3)
    outside = quadratic_features(high + np.array([0.0, 1.0, 2.0, 3.0]), low, high) @ of_features
    assert np.allclose(np.diff(outside), of_features[1])
    assert quadratic_features(np.zeros(1), low, high)[0] @ [2.0, 3.0, 0.0] == pytest.approx(0.0)


def test_spline_is_the_penalised_optimum_in_another_basis():
    x, hits, counts = rows(200)
    knots, values = fit_spline(x, hits, counts)
    # Cubic B-splines on the same knots; natural: no curvature at either end.
    padded = np.r_[[knots[0]] * 3, knots, [knots[-1]] * 3]
    n_basis = len(knots) + 2
    basis = BSpline(padded, np.eye(n_basis), 3)
    ends = basis(knots[[0, -1]], 2)
    free = np.linalg.svd(ends)[2][2:].T
    design, at_knots = basis(x) @ free, basis(knots) @ free
    fine = np.linspace(knots[0], knots[-1], 4001)
    curvature = basis(fine, 2) @ free
    bend = (curvature[:-1].T @ curvature[:-1] + curvature[1:].T @ curvature[1:]) / 2 * (fine[1] - fine[0])

    def optimum(smoothness):
        def loss(values):
            logits, pulled = design @ values, at_knots @ values - knots
            penalty = smoothness * values @ bend @ values + (pulled**2).mean() / len(x)
            slope = design.T @ (1 / (1 + np.exp(-logits)) - hits) / len(x)
            slope += 2 * smoothness * bend @ values + 2 * at_knots.T @ pulled / len(knots) / len(x)
            return (np.logaddexp(0, logits) - hits * logits).mean() + penalty, slope

        start = np.linalg.lstsq(at_knots, knots, rcond=None)[0]
        return at_knots @ minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x

    # The weight of curvature is one of the grid: the fit is the optimum for one of them.
    grid = np.logspace(0, -6, 7) * (knots[-1] - knots[0]) ** 3
    assert min(np.abs(optimum(one) - values).max() for one in grid) < 1e-3


def test_the_splines_weight_of_curvature_is_what_leaving_rows_out_says():
    straight, curved = rows(300, seed=1), rows(300, seed=1)
    wave = np.random.default_rng(5).random(300) < 1 / (1 + np.exp(-4 * np.sin(straight[0])))
    knots, values = fit_spline(curved[0], wave, curved[2])
    line = np.polyfit(knots, values, 1)
    assert np.abs(values - np.polyval(line, knots)).max() > 1.0
    x, counts = straight[0], straight[2]
    hits = np.random.default_rng(6).random(300) < 1 / (1 + np.exp(-x))
    knots, values = fit_spline(x, hits, counts)
    assert np.abs(values - knots).max() < 1.0


def test_a_spline_goes_straight_on_outside():
    knots = np.array([-2.0, 0.0, 1.0, 3.0])
    values = np.array([0.0, 1.0, -1.0, 2.0])
    at = spline_features(np.array([-4.0, -3.0, -2.0, 3.0, 5.0, 7.0, 9.0]), knots) @ values
    assert at[2] == pytest.approx(0.0)
    assert at[3] == pytest.approx(2.0)
    assert at[0] - at[1] == pytest.approx(at[1] - at[2])
    assert np.allclose(np.diff(at[3:], 2), 0.0)


def test_a_splines_cubes_are_the_spline():
    random = np.random.default_rng(0)
    knots = [np.sort(random.normal(size=m)) * 3 for m in (2, 5, 10)]
    values = [random.normal(size=len(at)) for at in knots]
    lines, places, cubes = spline_pieces(knots, values)
    x = np.linspace(-12.0, 12.0, 60)
    for k, (at, heights) in enumerate(zip(knots, values, strict=True)):
        first, value, slope = lines[k]
        found = value + slope * (x - first) + (np.maximum(x[:, None] - places[k], 0.0) ** 3 * cubes[k]).sum(axis=1)
        assert np.allclose(found, spline_features(x, at) @ heights, atol=1e-7)


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=25), st.integers(-50, 50))
@settings(max_examples=60, deadline=None)
def test_venn_abers_is_isotonic_regression_with_the_score_added(pairs, new):
    x, hits = (np.array(values) for values in zip(*pairs, strict=True))
    as_miss, as_hit = fit_venn_abers(x.astype(float), hits, np.ones(len(x)))
    for score in (new / 10, float(x[0])):
        for steps, label in ((as_miss, 0), (as_hit, 1)):
            again = IsotonicRegression().fit(np.append(x, score), np.append(hits, label)).predict([score])[0]
            assert step_values(np.array([score]), steps, after=label == 0)[0] == pytest.approx(again, abs=1e-12)


def test_venn_abers_without_rows_beyond_a_score():
    as_miss, as_hit = fit_venn_abers(np.array([0.2, 0.4]), np.array([False, True]), np.ones(2))
    beyond = np.array([0.0, 0.9])
    assert step_values(beyond, as_miss, after=True).tolist() == [0.0, 0.5]
    assert step_values(beyond, as_hit, after=False).tolist() == [0.5, 1.0]
