import warnings

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from volta import metrics
from volta.core.errors import InputError
from volta.metrics.bins import bin_edges, bin_index, first_bin_limit

from . import reference
from .strategies import predictions


def softmax_sample(n_samples, n_classes, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n_samples, n_classes))
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = np.where(rng.random(n_samples) < 0.7, logits.argmax(axis=1), rng.integers(0, n_classes, n_samples))
    return probs.astype(dtype), labels


def test_hand_computed():
    probs = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    labels = [0, 2]
    assert metrics.accuracy(probs, labels) == 0.5
    assert metrics.nll(probs, labels) == pytest.approx(-(np.log(0.5) + np.log(0.1)) / 2, abs=1e-15)
    assert metrics.brier(probs, labels) == pytest.approx((0.375 + 0.01 + 0.64 + 0.81) / 2, abs=1e-15)


@pytest.mark.parametrize(("n_samples", "n_classes"), [(1, 2), (500, 2), (3000, 10), (700, 33), (400, 1000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_scikit_learn(n_samples, n_classes, dtype):
    probs, labels = softmax_sample(n_samples, n_classes, seed=n_classes, dtype=dtype)
    exact = probs.astype(np.float64)
    every = np.arange(n_classes)
    assert metrics.accuracy(probs, labels) == accuracy_score(labels, probs.argmax(axis=1))
    unit = exact / exact.sum(axis=1, keepdims=True)
    tolerance = 1e-9 if dtype == np.float64 else 1e-6
    assert metrics.nll(probs, labels) == pytest.approx(log_loss(labels, unit, labels=every), abs=tolerance)
    brier = brier_score_loss(labels, unit, labels=every, scale_by_half=False) if n_classes > 2 else None
    if brier is not None:
        assert metrics.brier(probs, labels) == pytest.approx(brier, abs=tolerance)
    onehot = np.eye(n_classes)[labels]
    assert metrics.brier(probs, labels) == pytest.approx(np.sum((exact - onehot) ** 2) / n_samples, abs=1e-12)
    assert metrics.nll(probs, labels) == pytest.approx(-np.mean(np.log(exact[np.arange(n_samples), labels])), abs=1e-12)


def test_binary_brier_is_twice_scikit_learns():
    probs, labels = softmax_sample(800, 2, seed=5)
    assert metrics.brier(probs, labels) == pytest.approx(2 * brier_score_loss(labels, probs[:, 1]), abs=1e-12)


def test_equal_maxima_predict_the_lowest_class():
    for n_classes in (2, 40):
        probs = np.full((2, n_classes), 1 / n_classes)
        assert metrics.accuracy(probs, [0, 1]) == 0.5


def test_floored_rows_are_counted_and_warned_about():
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [1.0 - 1e-310, 1e-310]])
    labels = [1, 0, 1]
    assert metrics.nll_floored_rows(probs, labels) == 2
    expected = (2 * -np.log(np.finfo(float).tiny) + np.log(2)) / 3
    with pytest.warns(metrics.FlooredProbabilityWarning, match="2 of 3 rows") as alone:
        assert metrics.nll(probs, labels) == pytest.approx(expected, rel=1e-14)
    with pytest.warns(metrics.FlooredProbabilityWarning, match="2 of 3 rows") as among_all:
        metrics.report(probs, labels, [0.1, 0.2, 0.3])
    assert [warning.filename for warning in (*alone, *among_all)] == [__file__, __file__]


def test_small_float32_probability_is_not_floored():
    probs = np.array([[1.0, 1e-40]], dtype=np.float32)
    assert metrics.nll_floored_rows(probs, [1]) == 0
    assert metrics.nll(probs, [1]) == pytest.approx(-np.log(float(probs[0, 1])), rel=1e-12)


def test_certain_and_right_is_positive_zero():
    probs = np.eye(3)
    assert str(metrics.nll(probs, [0, 1, 2])) == "0.0"
    assert metrics.brier(probs, [0, 1, 2]) == 0.0


@given(predictions())
def test_decomposition_closes_and_agrees_with_its_definition(case):
    probs, labels = case
    parts = metrics.brier_decomposition(probs, labels)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.residual
    assert total == pytest.approx(metrics.brier(probs, labels), abs=1e-12)
    expected = reference.brier_decomposition(probs, labels)
    assert (parts.reliability, parts.resolution, parts.uncertainty, parts.residual) == pytest.approx(
        expected, abs=1e-12
    )


@pytest.mark.parametrize(("n_samples", "n_classes"), [(50_000, 10), (3000, 200), (20_000, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_decomposition_closes_over_many_chunks(n_samples, n_classes, dtype):
    probs, labels = softmax_sample(n_samples, n_classes, seed=1, dtype=dtype)
    parts = metrics.brier_decomposition(probs, labels)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.residual
    assert total == pytest.approx(metrics.brier(probs, labels), abs=1e-12)
    assert min(parts.reliability, parts.resolution) >= 0
    assert metrics.brier_reliability(probs, labels) == parts.reliability
    assert metrics.brier_resolution(probs, labels) == parts.resolution
    assert metrics.brier_uncertainty(probs, labels) == parts.uncertainty
    assert metrics.brier_residual(probs, labels) == parts.residual


@given(predictions())
def test_bounds(case):
    probs, labels = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics.FlooredProbabilityWarning)
        assert 0 <= metrics.nll(probs, labels) <= 708.4
    assert 0 <= metrics.accuracy(probs, labels) <= 1
    assert 0 <= metrics.brier(probs, labels) <= 2


@pytest.mark.parametrize("n_bins", [1, 2, 3, 7, 10, 15, 20, 49, 100])
def test_bins_are_left_open_at_every_edge(n_bins):
    edges = bin_edges(n_bins)
    inner = edges[1:-1]
    assert bin_index(np.array([0.0, 5e-324, 1.0, 1 + 1e-9]), n_bins).tolist() == [
        0,
        0,
        n_bins - 1,
        n_bins - 1,
    ]
    assert bin_index(edges[1:], n_bins).tolist() == list(range(n_bins))
    assert bin_index(np.nextafter(inner, 2), n_bins).tolist() == list(range(1, n_bins))
    assert bin_index(np.nextafter(inner, 0), n_bins).tolist() == list(range(n_bins - 1))
    for dtype in (np.float32, np.float64):
        limit = first_bin_limit(n_bins, np.dtype(dtype))
        above = np.nextafter(limit, dtype(2))
        assert float(limit) <= 1 / n_bins < float(above)


@pytest.mark.parametrize("n_bins", [1, 3, 10, 15, 17, 100, 1000])
def test_float32_values_fall_in_the_same_bins_as_in_float64(n_bins):
    near = bin_edges(n_bins).astype(np.float32)
    values = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near[:-1], np.float32(2))])
    values = np.concatenate([values, np.random.default_rng(0).random(1000, dtype=np.float32)])
    expected = np.maximum(np.searchsorted(bin_edges(n_bins), values.astype(np.float64), side="left") - 1, 0)
    assert np.array_equal(bin_index(values, n_bins), expected)
    assert np.array_equal(bin_index(values.astype(np.float64), n_bins), expected)


def test_memory_order_and_half_precision_do_not_matter():
    probs, labels = softmax_sample(300, 7, seed=2)
    assert metrics.brier(np.asfortranarray(probs), labels) == metrics.brier(probs, labels)
    assert metrics.accuracy(probs[::-1], labels[::-1]) == metrics.accuracy(probs, labels)
    half = probs.astype(np.float16)
    expected = np.sum((half.astype(np.float64) - np.eye(7)[labels]) ** 2) / 300
    assert metrics.brier(half, labels) == pytest.approx(expected, abs=1e-12)
    assert metrics.ece_classwise(probs.astype(">f8"), labels) == metrics.ece_classwise(probs, labels)


@pytest.mark.parametrize("name", [n for n, m in metrics.METRICS.items() if m.needs == ("probs", "labels")])
def test_rejects_bad_arguments(name):
    function = metrics.METRICS[name].function
    good = np.full((4, 2), 0.5)
    with pytest.raises(InputError, match=r"probs row 3 sums to 1\.7 .*pass probabilities, not logits"):
        function(np.array([[0.5, 0.5]] * 3 + [[0.9, 0.8]]), [0, 1, 0, 1])
    with pytest.raises(InputError, match="labels row 2 is 2; with 2 classes"):
        function(good, [0, 1, 2, 0])
    with pytest.raises(InputError, match="labels has 3 rows but probs has 4"):
        function(good, [0, 1, 1])
    with pytest.raises(InputError, match="probs is empty"):
        function(np.empty((0, 2)), [])
