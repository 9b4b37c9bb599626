import numpy as np
import pytest
from scipy import special

from volta.methods.scores import (
    energy,
    entropy,
    log_sum_exp,
    one_minus_max,
    one_minus_max_softmax,
    set_sizes,
    softmax,
    softmax_and_doubt,
    softmax_and_energy,
)

SHAPES = [(70_000, 3), (2, 70_000), (3, 1), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_scores_are_scipys_over_every_piece(shape, scale):
    logits = 5.0 * np.random.default_rng(0).normal(size=shape)
    probs = special.softmax(scale * logits, axis=1)
    np.testing.assert_allclose(softmax(logits, scale), probs, rtol=1e-12)
    np.testing.assert_allclose(entropy(probs), special.entr(probs).sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one_minus_max_softmax(logits, scale), 1.0 - probs.max(axis=1, initial=0.0), atol=1e-12)
    expected = special.logsumexp(logits, axis=1) if len(logits) else np.empty(0)
    np.testing.assert_allclose(log_sum_exp(logits), expected, rtol=1e-12)
    np.testing.assert_array_equal(energy(logits), -log_sum_exp(logits))


def test_other_layouts_and_precisions():
    logits = np.random.default_rng(0).normal(size=(5, 30_000)).astype(np.float32).T
    np.testing.assert_allclose(softmax(logits), special.softmax(logits.astype(np.float64), axis=1), rtol=1e-12)
    np.testing.assert_allclose(one_minus_max_softmax(logits), 1.0 - softmax(logits).max(axis=1), rtol=1e-6)


def test_a_certain_row_keeps_a_small_doubt():
    np.testing.assert_allclose(one_minus_max_softmax(np.array([[60.0, 0.0]])), [np.exp(-60.0)], rtol=1e-12)
    np.testing.assert_array_equal(entropy(np.array([[1.0, 0.0]])), [0.0])


@pytest.mark.parametrize("shape", SHAPES)
def test_one_pass_gives_what_two_give(shape):
    logits = 5.0 * np.random.default_rng(0).normal(size=shape)
    probs, free_energy = softmax_and_energy(logits)
    np.testing.assert_array_equal(probs, softmax(logits))
    np.testing.assert_array_equal(free_energy, energy(logits))
    probs, doubt = softmax_and_doubt(logits)
    np.testing.assert_array_equal(probs, softmax(logits))
    np.testing.assert_array_equal(doubt, one_minus_max_softmax(logits))


@pytest.mark.parametrize("n_classes", [1, 2, 9, 64, 65, 1000])
def test_a_row_is_scored_alike_alone_and_among_others(n_classes):
    logits = 4.0 * np.random.default_rng(0).normal(size=(50, n_classes))
    together = [*softmax_and_energy(logits), *softmax_and_doubt(logits)]
    for row in (0, 7, 49):
        alone = [*softmax_and_energy(logits[row : row + 1]), *softmax_and_doubt(logits[row : row + 1])]
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], many[row])


def test_tied_classes_share_the_rest():
    _, doubt = softmax_and_doubt(np.array([[3.0, 3.0, 3.0, 3.0], [60.0, 60.0, 0.0, 0.0]]))
    np.testing.assert_allclose(doubt, [0.75, 0.5], rtol=1e-15)


def test_sizes_of_sets():
    assert set_sizes(np.array([[True, False, True], [False, False, False]])).tolist() == [2, 0]


def test_one_minus_max_keeps_its_digits_near_certainty():
    gaps = np.linspace(0.0, 300.0, 1000)
    logits = np.stack([gaps, np.zeros(1000), np.full(1000, -1.0)], axis=1)
    np.testing.assert_allclose(one_minus_max(softmax(logits)), one_minus_max_softmax(logits), rtol=1e-9)
    rounded = np.array([[1.0, 0.0], [0.4, 0.6]], dtype=np.float32)
    np.testing.assert_allclose(one_minus_max(rounded), [0.0, 0.4], atol=1e-7)
