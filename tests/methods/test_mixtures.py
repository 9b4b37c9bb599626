import tracemalloc

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus
from sklearn.mixture import GaussianMixture

from volta.methods.gmm import Mixture, fit_mixture, spread_points
from volta.methods.scores import mean_variance


def blobs(gap: float, n: int = 6000, width: int = 5) -> np.ndarray:
    random = np.random.default_rng(3)
    centres = gap * random.normal(size=(4, width))
    stretch = random.normal(size=(4, width, width))
    group = random.integers(4, size=n)
    noise = np.einsum("nij,nj->ni", stretch[group], random.normal(size=(n, width)))
    return (centres[group] + noise).astype(np.float32)


def hard_start(features: np.ndarray, start: np.ndarray, ridge: float) -> dict[str, np.ndarray]:
    nearest = ((features[:, None] - start) ** 2).sum(axis=2).argmin(axis=1)
    groups = [features[nearest == index].astype(np.float64) for index in range(len(start))]
    width = features.shape[1]
    return {
        "weights_init": np.array([len(group) / len(features) for group in groups]),
        "means_init": np.array([group.mean(axis=0) for group in groups]),
        "precisions_init": np.array([np.linalg.inv(np.cov(g.T, bias=True) + ridge * np.eye(width)) for g in groups]),
    }


@pytest.mark.parametrize("gap", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("n_passes", [1, 12])
def test_the_passes_are_scikit_learns_from_the_same_start(gap: float, n_passes: int) -> None:
    features = blobs(gap)
    start, _ = kmeans_plusplus(features, 4, random_state=0)
    mixture, _ = fit_mixture(features, start, max_iter=n_passes, tol=0.0, ridge=1e-6)
    peer = GaussianMixture(4, max_iter=n_passes, tol=0.0, reg_covar=1e-6, **hard_start(features, start, 1e-6))
    with pytest.warns(UserWarning, match="converge"):
        peer.fit(features.astype(np.float64))
    # scikit-learn's passes end with the maximisation, as ours do, so both hold the same parameters.
    np.testing.assert_allclose(np.exp(mixture.log_weights), peer.weights_, rtol=1e-6)
    np.testing.assert_allclose(mixture.means, peer.means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mixture.log_density(features), peer.score_samples(features), rtol=1e-6, atol=1e-6)


def test_converges_to_scikit_learns_density() -> None:
    features = blobs(3.0)
    start, _ = kmeans_plusplus(features, 4, random_state=1)
    mixture, bound = fit_mixture(features, start, max_iter=500, tol=1e-9, ridge=1e-6)
    peer = GaussianMixture(4, max_iter=500, tol=1e-9, reg_covar=1e-6, **hard_start(features, start, 1e-6))
    peer.fit(features.astype(np.float64))
    assert bound == pytest.approx(peer.lower_bound_, abs=1e-6)
    assert mixture.log_density(features).mean() == pytest.approx(bound, abs=1e-6)


def test_one_gaussian_in_closed_form() -> None:
    features = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    mixture, _ = fit_mixture(features, features[:1], max_iter=3, tol=0.0, ridge=0.0)
    np.testing.assert_allclose(mixture.means, [[1.0, 1.0]])
    np.testing.assert_allclose(mixture.factors[0] @ mixture.factors[0].T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(mixture.log_density(np.array([[1.0, 1.0]])), [-np.log(2 * np.pi)])


def test_rows_longer_than_a_piece_and_none() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(9001, 3))
    mixture = Mixture(np.zeros(1), np.zeros((1, 3)), np.eye(3)[None])
    expected = -1.5 * np.log(2 * np.pi) - 0.5 * (features**2).sum(axis=1)
    np.testing.assert_allclose(mixture.log_density(features), expected)
    assert mixture.log_density(features[:0]).shape == (0,)


def test_singular_covariances_raise() -> None:
    features = np.ones((50, 3))
    with pytest.raises(np.linalg.LinAlgError):
        fit_mixture(features, features[:1], max_iter=5, tol=1e-3, ridge=0.0)


def test_spread_points_are_distinct_rows_one_in_each_far_group() -> None:
    features = blobs(1000.0)
    groups = set()
    for seed in range(20):
        points = spread_points(features, 4, np.random.default_rng(seed))
        assert all((features == point.astype(np.float32)).all(axis=1).any() for point in points)
        groups.add(len(np.unique(np.round(points / 200.0), axis=0)))
    assert groups == {4}


def test_spread_points_are_as_far_apart_as_scikit_learns() -> None:
    features = blobs(2.0)

    def potential(points: np.ndarray) -> float:
        return float(((features[:, None] - points) ** 2).sum(axis=2).min(axis=1).mean())

    ours = [potential(spread_points(features, 8, np.random.default_rng(seed))) for seed in range(30)]
    theirs = [potential(kmeans_plusplus(features, 8, random_state=seed)[0]) for seed in range(30)]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.05)


def test_spread_points_of_equal_rows() -> None:
    assert spread_points(np.ones((10, 2)), 3, np.random.default_rng(0)).shape == (3, 2)


def test_the_mean_variance_needs_no_copy_of_the_rows() -> None:
    rows = np.random.default_rng(0).normal(5.0, 2.0, size=(200_000, 8)).astype(np.float32)
    tracemalloc.start()
    found = mean_variance(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(float(rows.astype(np.float64).var(axis=0).mean()), rel=1e-6)
    assert peak < rows.nbytes / 2
