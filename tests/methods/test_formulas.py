"""Each method's own formula on small tensors, against a direct computation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import binom
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

from tests.conftest import blobs
from volta.core.quantile import conformal_quantile
from volta.core.seeding import rng
from volta.methods import find_method
from volta.methods.calibrators import fit_vector_scaling
from volta.methods.conformal import mass_above
from volta.methods.ensemble import Moments
from volta.methods.mahalanobis import fit_gaussians
from volta.methods.scores import entropy, softmax
from volta.networks.modules import sampled_from
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


@pytest.fixture(scope="module")
def setting():
    data, test = blobs(spread=3.0)
    trainer = Trainer(seed=5, budget=Budget(max_epochs=5))
    return data, test, trainer


def fit(name, setting):
    data, test, trainer = setting
    method = find_method(name).method.fit(data, trainer)
    return method, method.predict(test.inputs), trainer.network(data).outputs(test.inputs)


def test_softmax_energy_and_max_logit(setting):
    _, prediction, outputs = fit("softmax", setting)
    assert np.allclose(prediction.probs, np.exp(log_softmax(outputs.logits, axis=1)))
    assert np.allclose(prediction.uncertainty, 1 - prediction.probs.max(axis=1))
    _, prediction, _ = fit("energy", setting)
    assert np.allclose(prediction.uncertainty, -logsumexp(outputs.logits, axis=1))
    _, prediction, _ = fit("max_logit", setting)
    assert np.array_equal(prediction.uncertainty, -outputs.logits.max(axis=1))


def test_temperature(setting):
    data, _, trainer = setting
    method, prediction, outputs = fit("temperature", setting)
    assert np.allclose(prediction.probs, softmax(outputs.logits * method.fitted_.beta))
    assert np.allclose(prediction.uncertainty, entropy(prediction.probs))
    val = trainer.network(data).outputs(data.val.inputs).logits
    losses = [
        -log_softmax(val * beta, axis=1)[np.arange(len(val)), data.val.labels].mean()
        for beta in (method.fitted_.beta * 0.99, method.fitted_.beta, method.fitted_.beta * 1.01)
    ]
    assert losses[1] == min(losses)


def test_mahalanobis_and_rmds(setting):
    data, _, trainer = setting
    train = trainer.network(data).outputs(data.train.inputs).features.astype(np.float64)
    labels = data.train.labels
    means = np.stack([train[labels == k].mean(axis=0) for k in range(4)])
    residuals = train - means[labels]
    precision = np.linalg.pinv(residuals.T @ residuals / len(train) + 1e-6 * np.eye(train.shape[1]))
    _, prediction, outputs = fit("mahalanobis", setting)
    direct = np.array(
        [min((row - mean) @ precision @ (row - mean) for mean in means) for row in outputs.features.astype(np.float64)]
    )
    assert np.allclose(prediction.uncertainty, direct, rtol=1e-6)
    overall = np.linalg.pinv(np.cov(train.T, bias=True) + 1e-6 * np.eye(train.shape[1]))
    centred = outputs.features.astype(np.float64) - train.mean(axis=0)
    background = np.einsum("ij,jk,ik->i", centred, overall, centred)
    _, relative, _ = fit("rmds", setting)
    assert np.allclose(relative.uncertainty, direct - background, rtol=1e-5, atol=1e-5)


def test_gaussian_distances_match_scipy():
    from scipy.spatial.distance import mahalanobis

    random = np.random.default_rng(0)
    features, groups = random.normal(size=(50, 3)), np.arange(50) % 2
    fitted = fit_gaussians(features, groups)
    means = np.stack([features[groups == group].mean(axis=0) for group in (0, 1)])
    residuals = features - means[groups]
    inverse = np.linalg.inv(residuals.T @ residuals / 50 + 1e-6 * np.eye(3))
    squared = fitted.squared_distances(features[:5])
    for row in range(5):
        for group in (0, 1):
            assert squared[row, group] == pytest.approx(mahalanobis(features[row], means[group], inverse) ** 2)


def test_gmm_density_is_scikit_learns(setting):
    method, prediction, outputs = fit("gmm", setting)
    mixture = method.mixture_
    reference = GaussianMixture(len(mixture.means), covariance_type="full")
    reference.weights_ = np.exp(mixture.log_weights)
    reference.means_ = mixture.means
    reference.precisions_cholesky_ = mixture.factors
    expected = -reference.score_samples(outputs.features.astype(np.float64))
    assert np.allclose(prediction.uncertainty, expected, rtol=1e-9)
    assert len(mixture.means) == 10


def one_pass(network, inputs, random):
    """Return the logits of a pass of its own through the whole network, with dropout on."""
    with sampled_from(random):
        return network.outputs(inputs).logits


def test_mc_dropout_averages_ten_different_passes(setting):
    _, test, _ = setting
    method, prediction, _ = fit("mc_dropout", setting)
    passes = [softmax(one_pass(method.network_, test.inputs, rng(5, "mc_dropout", t))) for t in range(10)]
    assert np.allclose(prediction.probs, np.mean(passes, axis=0))
    assert not np.allclose(passes[0], passes[1])
    assert np.allclose(prediction.uncertainty, entropy(prediction.probs))
    calm = method.network_.outputs(test.inputs).logits
    assert np.array_equal(calm, method.network_.outputs(test.inputs).logits)


def test_swag_moments_match_the_explicit_covariance():
    visited = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    moments = Moments.of(visited, rank=20)
    assert np.allclose(moments.mean, visited.mean(axis=0), atol=1e-6)
    assert np.allclose(moments.std, visited.std(axis=0), atol=1e-5)
    running = np.stack([visited[: t + 1].mean(axis=0) for t in range(6)])
    assert np.allclose(moments.deviations, visited - running, atol=1e-6)
    assert Moments.of(visited, rank=2).deviations.shape == (2, 4)
    draws = np.stack([moments.draw(np.random.default_rng(seed)) for seed in range(60_000)])
    covariance = np.diag(moments.std**2) / 2 + moments.deviations.T @ moments.deviations / (2 * 5)
    assert np.allclose(draws.mean(axis=0), moments.mean, atol=0.02)
    assert np.allclose(np.cov(draws.T), covariance, atol=0.03)


def test_swag_averages_its_sampled_networks(setting):
    _, test, _ = setting
    method, prediction, outputs = fit("swag", setting)
    each = [softmax(network.outputs(test.inputs).logits) for network in method.networks_]
    assert len(each) == 10
    assert np.allclose(prediction.probs, np.mean(each, axis=0))
    assert not np.allclose(each[0], each[1])
    assert np.abs(prediction.probs - softmax(outputs.logits)).max() < 0.5


def test_hyperbolic_uses_entropy_and_inverse_margin(setting):
    _, test, _ = setting
    method, prediction, _ = fit("hyperbolic", setting)
    logits = method.network_.outputs(test.inputs).logits
    top = np.sort(logits, axis=1)
    assert np.allclose(prediction.ood_score, 1 / (top[:, -1] - top[:, -2]))
    assert np.allclose(prediction.uncertainty, entropy(softmax(logits)))
    assert logits.max() <= 0


def test_taylor_sensus_trains_smaller_logit_variance(setting):
    _, test, _ = setting
    method, _, outputs = fit("taylor_sensus", setting)
    assert method.network_.outputs(test.inputs).logits.var(axis=1).mean() < outputs.logits.var(axis=1).mean()


def test_conformal_sets(setting):
    data, _, trainer = setting
    method, prediction, outputs = fit("conformal", setting)
    probs = softmax(outputs.logits)
    cal = softmax(trainer.network(data).outputs(data.cal.inputs).logits)
    scores = np.sort(1 - cal[np.arange(len(cal)), data.cal.labels])
    rank = int(np.ceil((len(scores) + 1) * 0.9 - 1e-9))
    assert method.quantile_ == scores[rank - 1]
    assert np.array_equal(prediction.sets, 1 - probs <= method.quantile_)
    sizes = prediction.sets.sum(axis=1)
    filled = sizes > 0
    assert np.allclose(prediction.uncertainty[filled], (sizes + 1 - probs.max(axis=1))[filled])
    assert np.all(prediction.uncertainty[~filled] >= 4)


def test_conformal_coverage_is_what_it_promises():
    n_cal, n_test, alpha = 100, 100, 0.1
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        probs = random.dirichlet(np.ones(5), n_cal + n_test)
        labels = np.array([random.choice(5, p=row) for row in probs])
        scores = 1 - probs[np.arange(len(probs)), labels]
        covered += int((scores[n_cal:] <= conformal_quantile(scores[:n_cal], alpha)).sum())
    # one calibration draw moves all its test rows together: the exact share of rank 91 of 101 is 91/101
    spread = 4 * np.sqrt(0.9 * 0.1 * (1 / n_cal + 1 / n_test) / 200)
    assert covered / (200 * n_test) == pytest.approx(91 / 101, abs=spread)
    low, high = binom.ppf([1e-6, 1 - 1e-6], 200 * n_test, 91 / 101)
    assert low - 200 * n_test * spread < covered < high + 200 * n_test * spread


def test_adaptive_sets(setting):
    assert mass_above(np.array([[0.5, 0.2, 0.3]])).tolist() == [[0.0, 0.8, 0.5]]
    assert mass_above(np.array([[0.25, 0.5, 0.25]])).tolist() == [[0.5, 0.0, 0.5]]
    method, prediction, outputs = fit("aps", setting)
    probs = softmax(outputs.logits)
    for row, members in zip(probs, prediction.sets, strict=True):
        expected = {k for k in range(4) if row[row > row[k]].sum() <= method.quantile_ + 1e-12}
        assert set(np.flatnonzero(members)) == expected
    assert prediction.sets.any(axis=1).all()


def test_adaptive_sets_cover_as_often_as_asked():
    random = np.random.default_rng(0)
    n_cal, n_test, covered, size = 100, 500, 0, 0
    for _ in range(200):
        logits = random.normal(size=(n_cal + n_test, 4))
        labels = np.array([random.choice(4, p=row) for row in softmax(logits)])
        above = mass_above(softmax(3 * logits))  # overconfident, as networks are
        scores = above[np.arange(len(labels)), labels]
        sets = above[n_cal:] <= conformal_quantile(scores[:n_cal], 0.1)
        covered += int(sets[np.arange(n_test), labels[n_cal:]].sum())
        size += int(sets.sum())
    spread = 4 * np.sqrt(0.9 * 0.1 * (1 / n_cal + 1 / n_test) / 200)
    assert covered / (200 * n_test) == pytest.approx(91 / 101, abs=spread)
    assert size / (200 * n_test) < 3.5


def test_knn_distance_is_scikit_learns(setting):
    data, _, trainer = setting
    _, prediction, outputs = fit("knn", setting)
    train = trainer.network(data).outputs(data.train.inputs).features.astype(np.float64)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, outputs.features.astype(np.float64))]
    distances, _ = NearestNeighbors(n_neighbors=50).fit(unit[0]).kneighbors(unit[1])
    assert np.allclose(prediction.uncertainty, distances[:, -1], atol=1e-3)


def test_vim(setting):
    data, _, trainer = setting
    network = trainer.network(data)
    weights = {name: array.astype(np.float64) for name, array in network.tensors().items()}
    matrix, bias = weights["head.linear.weight"], weights["head.linear.bias"]
    train = network.outputs(data.train.inputs)
    origin = -np.linalg.pinv(matrix) @ bias
    assert np.allclose(matrix @ origin + bias, 0, atol=1e-6)
    centred = train.features - origin
    values, vectors = np.linalg.eig(centred.T @ centred)
    minor = np.real(vectors[:, np.argsort(-np.real(values))[vectors.shape[1] // 2 :]])
    method, prediction, outputs = fit("vim", setting)
    alpha = train.logits.max(axis=1).mean() / np.linalg.norm(centred @ minor, axis=1).mean()
    expected = alpha * np.linalg.norm((outputs.features - origin) @ minor, axis=1) - logsumexp(outputs.logits, axis=1)
    assert np.allclose(prediction.uncertainty, expected, rtol=1e-3, atol=1e-3)
    assert method.minor_.directions.shape == (128, 64)


def test_laplace_variance_matches_the_explicit_kronecker_posterior(setting):
    data, _, trainer = setting
    method, prediction, outputs = fit("laplace", setting)
    train = trainer.network(data).outputs(data.train.inputs)
    extended = np.concatenate([train.features, np.ones((len(train.logits), 1))], axis=1).astype(np.float64)
    probs = softmax(train.logits)
    curvature = np.mean([np.diag(row) - np.outer(row, row) for row in probs], axis=0)
    factor = extended.T @ extended
    covariance = np.linalg.inv(np.kron(factor, curvature) + method.precision_ * np.eye(len(factor) * 4))
    rows = np.concatenate([outputs.features[:5], np.ones((5, 1))], axis=1).astype(np.float64)
    for row, variance in zip(rows, method.logit_variance(outputs.features[:5]), strict=True):
        jacobian = np.kron(row[:, None], np.eye(4))
        assert np.allclose(variance, np.diag(jacobian.T @ covariance @ jacobian), rtol=1e-5)
    variance = method.logit_variance(outputs.features)
    assert np.allclose(prediction.probs, softmax(outputs.logits / np.sqrt(1 + np.pi / 8 * variance)))


def test_vector_scaling_finds_the_convex_minimum():
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    logits = 3 * np.eye(3)[labels] * np.array([1.0, 2.0, 0.5]) + random.normal(size=(90, 3))
    scale, bias = fit_vector_scaling(logits, labels, ridge=1e-3)

    def loss(parameters):
        scaled = logits * parameters[:3] + parameters[3:]
        penalty = ((parameters[:3] - 1) ** 2).sum() + (parameters[3:] ** 2).sum()
        return -log_softmax(scaled, axis=1)[np.arange(90), labels].mean() + 1e-3 * penalty

    reference = minimize(
        loss, np.r_[1, 1, 1, 0, 0, 0], method="Nelder-Mead", options={"maxiter": 20000, "xatol": 1e-9, "fatol": 1e-13}
    )
    assert loss(np.r_[scale, bias]) <= reference.fun + 1e-9
    assert np.allclose(np.r_[scale, bias], reference.x, atol=1e-3)


def test_ensemble_averages_its_members(setting):
    _, test, _ = setting
    method, prediction, outputs = fit("ensemble", setting)
    each = [softmax(network.outputs(test.inputs).logits) for network in method.networks_]
    assert len(each) == 5
    assert np.array_equal(each[0], softmax(outputs.logits))
    assert not np.allclose(each[1], each[2])
    assert np.allclose(prediction.probs, np.mean(each, axis=0))


def test_volta_scores_and_probabilities(setting):
    _, test, _ = setting
    method, prediction, _ = fit("volta", setting)
    network = method.network_
    encoded = network.outputs(test.inputs).features.astype(np.float64)
    prototypes = network.tensors()["head.prototypes"].astype(np.float64)
    similarities = encoded / np.linalg.norm(encoded, axis=1, keepdims=True) @ prototypes.T
    assert np.allclose(np.linalg.norm(prototypes, axis=1), 1)
    assert np.allclose(prediction.probs, softmax(method.beta_ * similarities), atol=1e-5)
    assert np.allclose(prediction.uncertainty, 1 - softmax(similarities / 0.1).max(axis=1), atol=1e-5)


def test_full_volta_averages_passes_and_no_mc_does_not(setting):
    _, test, _ = setting
    full, prediction, _ = fit("volta-full", setting)
    tau = float(np.exp(full.network_.tensors()["head.log_temperature"]))
    passes = [one_pass(full.network_, test.inputs, rng(5, "volta", t)) * tau for t in range(10)]
    assert np.allclose(prediction.probs, np.mean([softmax(full.beta_ * each) for each in passes], axis=0))
    calm, calm_prediction, _ = fit("volta-full-no-mc", setting)
    assert calm.network_.key == full.network_.key
    similarities = calm.network_.outputs(test.inputs).logits * tau
    assert np.allclose(calm_prediction.probs, softmax(calm.beta_ * similarities))


def test_ablation_rows_change_what_they_say(setting):
    fixed, _, _ = fit("volta-full-no-adaptive-temperature", setting)
    assert np.exp(fixed.network_.tensors()["head.log_temperature"]) == 1.0
    assert fixed.beta_ != 1.0
    bare, _, _ = fit("volta-full-no-temperature", setting)
    assert bare.beta_ == 1.0
    assert bare.network_.key == fixed.network_.key
    learned, _, _ = fit("volta-full-no-posthoc", setting)
    assert learned.beta_ == pytest.approx(np.exp(-learned.network_.tensors()["head.log_temperature"]), rel=1e-6)
    shallow, _, _ = fit("volta-full-shallow", setting)
    assert shallow.network_.spec.body.hidden == (256,)
    assert shallow.network_.spec.body.width == 256
    deep, _, _ = fit("volta-full", setting)
    assert deep.network_.spec.body.hidden == (256, 128)
    assert not deep.network_.spec.body.residual
