"""Scores since invented: each against its formula written out for one row, and against pytorch-ood where it has it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.special import softmax as scipy_softmax
from scipy.stats import entropy as kl_divergence
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA

from volta.core.errors import InputError
from volta.methods import METHODS
from volta.methods.energy import spread_ratio
from volta.methods.last_layer import shares, smoothed
from volta.methods.scores import unit_rows
from volta.methods.softmax import pnorm_doubt
from volta.metrics import aurc
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs

N_CLASSES, WIDTH = 4, 12
RANDOM = np.random.default_rng(0)
WEIGHT, BIAS = RANDOM.normal(size=(N_CLASSES, WIDTH)), RANDOM.normal(size=N_CLASSES)


def outputs(features):
    features = features.astype(np.float32)
    return Outputs(features.astype(np.float64) @ WEIGHT.T + BIAS, features, LastLayer(WEIGHT, BIAS))


def draw(n_rows, seed, signed=False):
    features = np.random.default_rng(seed).normal(size=(n_rows, WIDTH))
    return outputs(features if signed else np.abs(features))


def labelled(found, seed=5):
    noise = np.random.default_rng(seed).gumbel(size=found.logits.shape)
    return LabelledOutputs(found, (found.logits + noise).argmax(axis=1))


TRAIN, VAL, TEST = labelled(draw(300, 1)), labelled(draw(120, 2)), draw(40, 3)
SIGNED_TRAIN, SIGNED_VAL, SIGNED_TEST = labelled(draw(300, 1, True)), labelled(draw(120, 2, True)), draw(40, 3, True)
F, G, LOGITS = (array.astype(np.float64) for array in (TRAIN.outputs.features, TEST.features, TEST.logits))


def scores(name, **parameters):
    prediction = METHODS[name](**parameters).fit_from_outputs(train=TRAIN, val=VAL).predict_outputs(TEST)
    assert np.allclose(prediction.probs, scipy_softmax(LOGITS, axis=1))
    return prediction.uncertainty


def test_gen():
    p = scipy_softmax(LOGITS, axis=1)
    assert np.allclose(scores("gen"), ((p * (1 - p)) ** 0.1).sum(axis=1))
    top = np.sort(p, axis=1)[:, -2:]
    assert np.allclose(scores("gen", top=2, gamma=0.5), np.sqrt(top * (1 - top)).sum(axis=1))


def test_gen_of_a_saturated_row_still_counts_the_doubt():
    far = np.array([[60.0, 0.0], [80.0, 0.0]])
    first, second = METHODS["gen"]().fit_from_outputs().predict_outputs(Outputs(far)).uncertainty
    assert first == pytest.approx(2 * np.exp(-6.0), rel=1e-9)
    assert second == pytest.approx(2 * np.exp(-8.0), rel=1e-9)


def test_fdbd():
    mean = F.mean(axis=0)
    found = scores("fdbd")
    for row, (vector, logits) in enumerate(zip(G, LOGITS, strict=True)):
        top = logits.argmax()
        boundary = [
            (logits[top] - logits[c]) / np.linalg.norm(WEIGHT[top] - WEIGHT[c]) for c in range(N_CLASSES) if c != top
        ]
        assert found[row] == pytest.approx(-np.mean(boundary) / np.linalg.norm(vector - mean), rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_in_fdbd_two_classes_of_equal_weight_share_no_boundary(seed):
    random = np.random.default_rng(seed)
    weight, bias = random.normal(size=(4, 64)), np.array([0.0, 0.0, 0.5, 0.0])
    weight[3] = weight[2]
    features = random.normal(size=(20, 64)).astype(np.float32)
    found = Outputs(features @ weight.T + bias, features, LastLayer(weight, bias))
    method = METHODS["fdbd"]().fit_from_outputs(train=LabelledOutputs(found, np.arange(20) % 4))
    assert np.flatnonzero(method.inverse_ == 0).tolist() == [0, 5, 10, 11, 14, 15]
    assert np.abs(method.predict_outputs(found).uncertainty).max() < 10.0


def test_nci():
    centred = G - F.mean(axis=0)
    along = (centred * WEIGHT[LOGITS.argmax(axis=1)]).sum(axis=1) / np.linalg.norm(centred, axis=1)
    assert np.allclose(scores("nci", alpha=0.2), -along - 0.2 * np.abs(G).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("dimension", [None, 2])
def test_neco(dimension):
    scaled = (F - F.mean(axis=0)) / F.std(axis=0)
    _, _, directions = np.linalg.svd(scaled, full_matrices=False)
    new = (G - F.mean(axis=0)) / F.std(axis=0)
    share = np.linalg.norm(new @ directions[: dimension or N_CLASSES].T, axis=1) / np.linalg.norm(new, axis=1)
    assert np.allclose(scores("neco", dimension=dimension, times_max_logit=False), -share, rtol=1e-5)
    assert np.allclose(scores("neco", dimension=dimension), -share * LOGITS.max(axis=1), rtol=1e-5)


def test_nnguide():
    bank = F / np.linalg.norm(F, axis=1, keepdims=True) * logsumexp(TRAIN.outputs.logits, axis=1)[:, None]
    products = np.sort((G / np.linalg.norm(G, axis=1, keepdims=True)) @ bank.T, axis=1)
    assert np.allclose(scores("nnguide", k=3), -logsumexp(LOGITS, axis=1) * products[:, -3:].mean(axis=1), rtol=1e-5)
    assert np.allclose(scores("nnguide", k=999), -logsumexp(LOGITS, axis=1) * products.mean(axis=1), rtol=1e-4)


def test_react():
    cut = np.percentile(TRAIN.outputs.features, 80)
    expected = -logsumexp(np.minimum(G, cut) @ WEIGHT.T + BIAS, axis=1)
    assert np.allclose(scores("react", percentile=80.0), expected, rtol=1e-5)
    assert np.allclose(scores("react", percentile=100.0), -logsumexp(LOGITS, axis=1), atol=0.5)
    with pytest.raises(InputError, match="percentile is 0; pass a number above 0"):
        METHODS["react"](percentile=0).fit_from_outputs(train=TRAIN)


def test_scale():
    found = scores("scale", percentile=75.0)
    for row, vector in enumerate(G):
        ratio = vector.sum() / np.sort(vector)[-3:].sum()
        assert found[row] == pytest.approx(-logsumexp(WEIGHT @ (vector * np.exp(ratio)) + BIAS), rel=1e-5)
    assert spread_ratio(np.zeros((1, 5)), 85.0).tolist() == [1.0]
    assert spread_ratio(np.ones((1, 4)), 50.0).tolist() == [2.0]
    with pytest.raises(InputError, match="percentile is 100; pass a number from 0 to below 100"):
        METHODS["scale"](percentile=100).fit_from_outputs(train=TRAIN)


def test_scale_refuses_signed_vectors_when_fitted_and_when_used():
    with pytest.raises(InputError, match=r"features row 0 holds -.*SCALE needs non-negative penultimate vectors"):
        METHODS["scale"]().fit_from_outputs(train=SIGNED_TRAIN)
    method = METHODS["scale"]().fit_from_outputs(train=TRAIN)
    with pytest.raises(InputError, match="needs non-negative penultimate vectors"):
        method.predict_outputs(SIGNED_TEST)


@pytest.mark.parametrize("name", ["fdbd", "nci", "neco", "nnguide", "react", "weiper", "mds_plus", "rmds_plus", "sirc"])
def test_the_others_take_signed_vectors(name):
    method = METHODS[name]().fit_from_outputs(train=SIGNED_TRAIN, val=SIGNED_VAL)
    assert np.isfinite(method.predict_outputs(SIGNED_TEST).uncertainty).all()


def test_normalised_mahalanobis_is_that_of_unit_vectors():
    unit_train, unit_test = (
        Outputs(found.logits, unit_rows(found.features), found.last_layer) for found in (TRAIN.outputs, TEST)
    )
    for name, plain in (("mds_plus", "mahalanobis"), ("rmds_plus", "rmds")):
        expected = METHODS[plain]().fit_from_outputs(train=LabelledOutputs(unit_train, TRAIN.labels))
        assert np.allclose(scores(name), expected.predict_outputs(unit_test).uncertainty)
    assert np.allclose(np.linalg.norm(unit_test.features, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("second", ["residual", "norm"])
def test_sirc(second):
    if second == "norm":
        val, new = (np.abs(found.features).sum(axis=1, dtype=np.float64) for found in (VAL.outputs, TEST))
    else:
        centre = F.mean(axis=0)
        _, _, directions = np.linalg.svd(F - centre, full_matrices=False)
        minor = directions[-(WIDTH // 2) :]
        val, new = (-np.linalg.norm((found.features - centre) @ minor.T, axis=1) for found in (VAL.outputs, TEST))
    low, slope = val.mean() - 3 * val.std(), 1 / val.std()
    doubt = 1 - scipy_softmax(LOGITS, axis=1).max(axis=1)
    expected = np.log(doubt) + np.log1p(np.exp(-slope * (new - low)))
    assert np.allclose(scores("sirc", second=second), expected, rtol=1e-4)
    with pytest.raises(InputError, match="second is 'other'; pass 'residual' or 'norm'"):
        METHODS["sirc"](second="other").fit_from_outputs(train=TRAIN, val=VAL)


def test_sirc_orders_usual_rows_by_the_softmax_and_raises_unusual_ones():
    method = METHODS["sirc"]().fit_from_outputs(train=TRAIN, val=VAL)
    softmax = METHODS["softmax"]().fit_from_outputs()
    usual, doubt = method.predict_outputs(TEST).uncertainty, softmax.predict_outputs(TEST).uncertainty
    assert np.corrcoef(usual, np.log(doubt))[0, 1] > 0.99
    away = TEST.features + 50.0 * method.minor_.directions[:, 0]
    far = Outputs(TEST.logits, away, TEST.last_layer)
    assert (method.predict_outputs(far).uncertainty > usual + 10).all()


def test_maxlogit_pnorm_chooses_the_norm_of_lowest_risk_on_val():
    centred = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    for p in (1, 3, 10):
        norms = np.linalg.norm(centred, ord=p, axis=1)
        assert np.allclose(pnorm_doubt(LOGITS, p), -centred.max(axis=1) / norms)
    correct = VAL.outputs.logits.argmax(axis=1) == VAL.labels
    risks = {p: aurc(pnorm_doubt(VAL.outputs.logits, p), correct) for p in (None, *range(1, 11))}
    chosen = METHODS["maxlogit_pnorm"]().fit_from_outputs(val=VAL).p_
    assert risks[chosen] == pytest.approx(min(risks.values()), abs=1e-12)


def test_maxlogit_pnorm_falls_back_to_the_softmax():
    right = LabelledOutputs(VAL.outputs, VAL.outputs.logits.argmax(axis=1))
    assert METHODS["maxlogit_pnorm"]().fit_from_outputs(val=right).p_ is None
    two = np.array([[1.0, 0.0], [9.0, 0.0], [0.0, 0.5]])
    assert np.allclose(pnorm_doubt(two, 4), 1 - scipy_softmax(two, axis=1).max(axis=1))
    assert pnorm_doubt(np.zeros((1, 3)), 2).tolist() == [0.0]


def test_weiper():
    method = METHODS["weiper"](repeats=3, n_bins=10, smoothing=(3, 4)).fit_from_outputs(train=TRAIN, random_state=7)
    moved = method.weight_.reshape(3, N_CLASSES, WIDTH) - WEIGHT
    assert np.allclose(np.linalg.norm(moved, axis=2), 2.1 * np.linalg.norm(WEIGHT, axis=1), rtol=1e-5)
    assert len(np.unique(moved.round(4))) > 3 * N_CLASSES

    def divergence(train, new, smoothing, floor):
        edges = np.linspace(train.min(), train.max(), 11)
        mean = np.mean([np.histogram(row, edges)[0] / len(row) for row in train], axis=0) + floor
        row = np.histogram(new, edges)[0] / len(new)
        padded = np.pad(row, ((smoothing - 1) // 2, smoothing // 2), mode="edge")
        own = np.convolve(padded, np.ones(smoothing) / smoothing, "valid") + floor
        p, q = mean / mean.sum(), own / own.sum()
        return (p * np.log(p / q)).sum() + (q * np.log(q / p)).sum()

    found = method.predict_outputs(TEST).uncertainty
    moved_train = (TRAIN.outputs.features @ method.weight_.T + method.bias_).astype(np.float64)
    for row in range(5):
        logits = (TEST.features[row] @ method.weight_.T + method.bias_).astype(np.float64)
        confident = scipy_softmax(logits.reshape(3, N_CLASSES), axis=1).max(axis=1).mean()
        expected = divergence(F, G[row], 3, 0.01) + divergence(moved_train, logits, 4, 0.025) - confident
        assert found[row] == pytest.approx(expected, rel=1e-3)


def test_weiper_learns_from_a_sample_of_many_rows():
    def profile(**settings):
        return METHODS["weiper"](repeats=2, **settings).fit_from_outputs(train=TRAIN, random_state=7).features_

    whole, sample = profile(), profile(setup_rows=20)
    counts = sample.mean * 20 * WIDTH
    assert np.allclose(counts, counts.round(), atol=1e-6)
    assert counts.sum() == pytest.approx(20 * WIDTH)
    assert whole.low <= sample.low < sample.high <= whole.high
    assert profile(setup_rows=len(F)).mean.tolist() == whole.mean.tolist() != sample.mean.tolist()


def test_shares_and_smoothing_by_hand():
    values = np.array([[0.0, 0.4, 1.0, 3.0], [0.5, 0.5, 0.5, 0.5]])
    assert shares(values, 0.0, 1.0, 2).tolist() == [[0.5, 0.25], [0.0, 1.0]]
    assert np.allclose(smoothed(np.array([[0.0, 3.0, 0.0, 6.0]]), 3), [[1.0, 1.0, 3.0, 4.0]])
    assert smoothed(np.array([[0.5, 1.5]]), 1).tolist() == [[0.5, 1.5]]


def test_ensemble_weights_are_the_best_along_every_edge():
    logits = RANDOM.normal(size=(200, 3)) * 3
    labels = np.where(RANDOM.random(200) < 0.3, RANDOM.integers(3, size=200), logits.argmax(axis=1))
    fitted = METHODS["ensemble_temperature"]().fit_from_outputs(val=LabelledOutputs(Outputs(logits), labels)).fitted_
    parts = np.stack(
        [scipy_softmax(logits * fitted.beta, axis=1), scipy_softmax(logits, axis=1), np.full((200, 3), 1 / 3)]
    )[:, np.arange(200), labels]

    def nll(weights):
        return -np.log(weights @ parts).mean()

    best = nll(fitted.weights)
    for corner in np.eye(3):
        along = minimize_scalar(
            lambda share, corner=corner: nll((1 - share) * fitted.weights + share * corner),
            bounds=(0, 0.999),
            method="bounded",
        )
        assert best <= along.fun + 1e-8


PEER_REASON = "pytorch-ood, the reference implementation, is not installed"


@pytest.fixture(scope="module")
def peer():
    return pytest.importorskip("pytorch_ood.detector", reason=PEER_REASON)


@pytest.fixture(scope="module")
def head():
    import torch

    layer = torch.nn.Linear(WIDTH, N_CLASSES)
    layer.weight.data, layer.bias.data = torch.tensor(WEIGHT).float(), torch.tensor(BIAS).float()
    return layer.requires_grad_(False)


def test_pytorch_ood_agrees(peer, head):
    import torch

    train, new, labels = (torch.from_numpy(part) for part in (TRAIN.outputs.features, TEST.features, TRAIN.labels))
    maps = peer.scale.scale(new[:, :, None, None], 0.75)[:, :, 0, 0]
    theirs = {
        "fdbd": peer.fDBD(None, head).fit_features(train).predict_features(new),
        "nci": peer.NCI(None, head, alpha=1e-3).fit_features(train).predict_features(new),
        "nnguide": peer.NNGuide(encoder=None, head=head, k=10).fit_features(train, labels).predict_features(new),
        "she": peer.SHE(None, head).fit_features(train, labels).predict_features(new),
        "dice": peer.DICE(None, head.weight, head.bias, p=0.9).fit_features(train, labels).predict_features(new),
        "react": peer.ReAct(None, head, percentile=0.9).fit_feature_maps(train, labels).predict_feature_maps(new),
    }
    for name, expected in theirs.items():
        assert np.allclose(scores(name), expected.numpy(), rtol=1e-4, atol=1e-5), name
    assert np.allclose(scores("scale", percentile=75.0), -torch.logsumexp(head(maps), 1).numpy(), rtol=1e-4)
    mean = peer.GEN.score(torch.from_numpy(LOGITS), M=2).numpy()
    # They clamp probabilities to 1e-7, we do not.
    assert np.allclose(scores("gen", top=2), 2 * mean, atol=1e-3)


def squared(rows, mean, covariance):
    away = rows - mean
    return (away @ np.linalg.inv(covariance) * away).sum(axis=1)


def nearest(rows, train, labels, shrunk=False):
    """Return the least squared Mahalanobis distance of rows to the class means of the training rows."""
    classes = np.unique(labels)
    means = np.stack([train[labels == k].mean(axis=0) for k in classes])
    away = train - means[np.searchsorted(classes, labels)]
    covariance = LedoitWolf(assume_centered=True).fit(away).covariance_ if shrunk else away.T @ away / len(train)
    covariance = covariance + 1e-6 * np.eye(WIDTH)
    return np.min([squared(rows, mean, covariance) for mean in means], axis=0)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.7])
def test_radial_mahalanobis(beta):
    scaled = [rows / np.linalg.norm(rows, axis=1, keepdims=True) ** beta for rows in (G, F)]
    assert np.allclose(scores("radial_mahalanobis", beta=beta), nearest(*scaled, TRAIN.labels), rtol=1e-6)


def test_radial_mahalanobis_is_between_plain_and_normalised():
    assert np.allclose(scores("radial_mahalanobis", beta=0.0), scores("mahalanobis"))
    assert np.allclose(scores("radial_mahalanobis", beta=1.0), scores("mds_plus"), rtol=1e-3)


def test_radial_mahalanobis_takes_the_beta_that_makes_validation_rows_one_shell():
    random = np.random.default_rng(0)

    def rows(n_rows, power):
        labels = np.arange(n_rows) % 3
        gaussian = 4 * np.eye(3, 6)[labels] + 0.3 * random.normal(size=(n_rows, 6))
        # g = f/|f|^β undoes lengths |g|^(1/(1 − β)).
        lengths = np.linalg.norm(gaussian, axis=1, keepdims=True)
        vectors = gaussian / lengths * lengths ** (1 / (1 - power)) if power != 1 else gaussian
        if power == 1:
            vectors = gaussian / lengths * random.gamma(2.0, size=(n_rows, 1))
        return LabelledOutputs(Outputs(vectors[:, :3], vectors.astype(np.float32)), labels)

    for power in (0.0, 0.5, 1.0):
        method = METHODS["radial_mahalanobis"]().fit_from_outputs(train=rows(900, power), val=rows(600, power))
        assert abs(method.beta_ - power) <= 0.25
    with pytest.raises(InputError, match="beta"):
        METHODS["radial_mahalanobis"](beta=-1.0).fit_from_outputs(train=TRAIN, val=VAL)


def test_global_mahalanobis_needs_no_labels():
    expected = squared(G, F.mean(axis=0), np.cov(F.T, bias=True) + 1e-6 * np.eye(WIDTH))
    assert np.allclose(scores("global_mahalanobis"), expected, rtol=1e-6)
    other = LabelledOutputs(TRAIN.outputs, np.zeros(300, dtype=np.int64))
    again = METHODS["global_mahalanobis"]().fit_from_outputs(train=other).predict_outputs(TEST)
    assert np.array_equal(again.uncertainty, scores("global_mahalanobis"))


def test_delta_mds():
    right = TRAIN.outputs.logits.argmax(axis=1) == TRAIN.labels
    parts = [nearest(G, F[rows], TRAIN.labels[rows], shrunk=True) for rows in (right, ~right)]
    assert np.allclose(scores("delta_mds"), parts[0] - parts[1], rtol=1e-5)
    all_right = LabelledOutputs(TRAIN.outputs, TRAIN.outputs.logits.argmax(axis=1))
    alone = METHODS["delta_mds"]().fit_from_outputs(train=all_right).predict_outputs(TEST).uncertainty
    assert np.allclose(alone, nearest(G, F, all_right.labels, shrunk=True), rtol=1e-5)


def test_residual():
    origin = -np.linalg.pinv(WEIGHT) @ BIAS
    _, vectors = np.linalg.eigh((F - origin).T @ (F - origin))
    expected = np.linalg.norm((G - origin) @ vectors[:, : WIDTH // 2], axis=1)
    assert np.allclose(scores("residual"), expected, rtol=1e-4)


def test_kernel_pca_reconstructs_what_its_kernel_says():
    method = METHODS["kernel_pca"](n_features=40, explained=0.8).fit_from_outputs(train=TRAIN)
    units, new = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (F, G))

    def mapped(rows):
        return np.sqrt(2 / 40) * np.cos(rows @ method.weight_ + method.shift_)

    pca = PCA(n_components=0.8, svd_solver="full").fit(mapped(units))
    error = np.linalg.norm(mapped(new) - pca.inverse_transform(pca.transform(mapped(new))), axis=1)
    assert np.allclose(method.predict_outputs(TEST).uncertainty, error, rtol=1e-5)
    many = METHODS["kernel_pca"](n_features=10**6).fit_from_outputs(train=TRAIN)
    assert many.weight_.shape == (WIDTH, 4 * WIDTH)


def test_kernel_pcas_features_stand_for_the_gaussian_kernel():
    method = METHODS["kernel_pca"]()
    wide = np.random.default_rng(3).normal(size=(200, 300))
    outputs_of_wide = Outputs(wide[:, :3], wide.astype(np.float32))
    method.fit_from_outputs(train=LabelledOutputs(outputs_of_wide, np.arange(200) % 3))
    units = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    apart = ((units[:, None] - units[None]) ** 2).sum(axis=2)
    kernel = np.exp(-apart / apart.mean())
    mapped = np.sqrt(2 / 1024) * np.cos(units @ method.weight_ + method.shift_)
    assert np.abs(mapped @ mapped.T - kernel).max() < 0.15


def test_dice():
    contributions = WEIGHT * F.mean(axis=0)
    sparse = WEIGHT * (contributions > np.percentile(contributions, 70))
    assert np.allclose(scores("dice", percentile=70.0), -logsumexp(G @ sparse.T + BIAS, axis=1), rtol=1e-5)
    with pytest.raises(InputError, match=r"percentile is 100\.0; pass a number from 0"):
        METHODS["dice"](percentile=100.0).fit_from_outputs(train=TRAIN)


def test_she():
    top = TRAIN.outputs.logits.argmax(axis=1)
    patterns = [F[(top == k) & (TRAIN.labels == k)].mean(axis=0) for k in range(N_CLASSES)]
    expected = [-row @ patterns[k] for row, k in zip(G, LOGITS.argmax(axis=1), strict=True)]
    assert np.allclose(scores("she"), expected, rtol=1e-5)


def test_she_of_a_class_that_is_always_wrong_has_the_mean_of_its_rows():
    swapped = LabelledOutputs(TRAIN.outputs, np.where(TRAIN.labels == 0, 1, TRAIN.outputs.logits.argmax(axis=1) * 0))
    patterns = METHODS["she"]().fit_from_outputs(train=swapped).patterns_
    assert np.allclose(patterns[2:], 0.0)
    assert np.isfinite(patterns).all()


def test_ctm():
    means = np.stack([F[TRAIN.labels == k].mean(axis=0) for k in range(N_CLASSES)])
    cosines = (G @ means.T) / np.linalg.norm(G, axis=1)[:, None] / np.linalg.norm(means, axis=1)
    assert np.allclose(scores("ctm"), -cosines.max(axis=1), rtol=1e-5)


def test_kl_matching():
    probs, val = scipy_softmax(LOGITS, axis=1), scipy_softmax(VAL.outputs.logits, axis=1)
    templates = [val[val.argmax(axis=1) == k].mean(axis=0) for k in np.unique(val.argmax(axis=1))]
    expected = np.min([kl_divergence(probs, template[None], axis=1) for template in templates], axis=0)
    assert np.allclose(scores("kl_matching"), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["radial_mahalanobis", "ctm", "she", "kernel_pca"])
def test_a_row_of_zeros_has_a_score(name):
    method = METHODS[name]().fit_from_outputs(train=TRAIN, val=VAL)
    assert np.isfinite(method.predict_outputs(outputs(np.zeros((2, WIDTH)))).uncertainty).all()


def test_pnorm_is_not_chosen_for_a_score_that_is_the_same_for_all_rows():
    random, right = np.random.default_rng(0), np.arange(200) < 150
    strength = np.where(right, random.uniform(2, 6, 200), random.uniform(1, 4, 200))
    # Of these logits the p-norm of every row is the same multiple of its maximum.
    val = LabelledOutputs(Outputs(np.outer(strength, [1.0, 0.0, 0.0])), np.where(right, 0, 1))
    assert METHODS["maxlogit_pnorm"]().fit_from_outputs(val=val).p_ is None
