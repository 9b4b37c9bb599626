from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volta import metrics
from volta.core.errors import InputError
from volta.metrics import ood
from volta.metrics.selective import harmonic_between
from volta.metrics.table import JOINT

from . import reference
from .strategies import scores, selections

NAMES = [n for n, m in metrics.METRICS.items() if m.needs == JOINT]


def test_hand_computed():
    id_scores, correct, ood_scores = [0.1, 0.2, 0.4, 0.6], [True, False, True, True], [0.3, 0.9]
    # In order of score: right, wrong, OOD, right, right, OOD.
    assert metrics.scod_aurc(id_scores, correct, ood_scores) == pytest.approx(
        (0 + 1 / 2 + 2 / 3 + 2 / 4 + 2 / 5 + 3 / 6) / 6, abs=1e-15
    )
    assert metrics.scod_augrc(id_scores, correct, ood_scores) == pytest.approx(
        (0 + 0.5 + 1.5 + 2 + 2 + 2.5) / 36, abs=1e-15
    )
    assert metrics.oscr(id_scores, correct, ood_scores) == (1 + 0.5 + 0.5) / 4


def test_the_three_share_what_they_need():
    assert NAMES == ["oscr", "scod_aurc", "scod_augrc"]


@given(selections(), scores())
def test_agrees_with_the_definitions(case, ood_scores):
    id_scores, correct = case
    rows = reference.joined(id_scores, correct, ood_scores)
    expected = {
        "oscr": reference.oscr(id_scores, correct, ood_scores),
        "scod_aurc": float(reference.aurc(*rows)),
        "scod_augrc": float(reference.augrc(*rows)),
    }
    joint = ood.joint_scores(id_scores, correct, ood_scores)
    for name, value in expected.items():
        assert getattr(metrics, name)(id_scores, correct, ood_scores) == pytest.approx(value, abs=1e-12), name
        assert metrics.METRICS[name].shared(joint) == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("decimals", [2, 12])
@pytest.mark.parametrize("n_ood", [40, 300_000])
def test_many_chunks_are_one_selection_of_the_rows_together(n_ood, decimals):
    rng = np.random.default_rng(0)
    id_scores = rng.standard_normal(200_000).round(decimals)
    correct = rng.random(200_000) < 0.8
    ood_scores = (rng.standard_normal(n_ood) + 1).round(decimals)
    rows = reference.joined(id_scores, correct, ood_scores)
    assert metrics.scod_aurc(id_scores, correct, ood_scores) == pytest.approx(metrics.aurc(*rows), abs=1e-12)
    assert metrics.scod_augrc(id_scores, correct, ood_scores) == pytest.approx(metrics.augrc(*rows), abs=1e-15)
    right = metrics.auroc(id_scores[correct], ood_scores) * correct.mean()
    assert metrics.oscr(id_scores, correct, ood_scores) == pytest.approx(right, abs=1e-14)


@given(selections(), scores(), st.randoms(use_true_random=False))
def test_order_of_rows_and_monotone_maps_do_not_matter(case, ood_scores, random):
    id_scores, correct = case
    order = list(range(len(correct)))
    random.shuffle(order)
    ranks = np.unique(np.concatenate([id_scores, ood_scores]), return_inverse=True)[1] ** 3.0
    for name in NAMES:
        function = getattr(metrics, name)
        value = function(id_scores, correct, ood_scores)
        assert function(id_scores[order], correct[order], ood_scores[::-1]) == value, name
        assert function(ranks[: len(correct)], correct, ranks[len(correct) :]) == value, name


@given(selections(), scores())
def test_bounds(case, ood_scores):
    id_scores, correct = case
    accuracy = float(np.mean(correct))
    failures = 1 - accuracy * len(correct) / (len(correct) + len(ood_scores))
    assert 0 <= metrics.oscr(id_scores, correct, ood_scores) <= accuracy
    assert 0 <= metrics.scod_aurc(id_scores, correct, ood_scores) <= 1
    augrc = metrics.scod_augrc(id_scores, correct, ood_scores)
    assert failures**2 / 2 - 1e-12 <= augrc <= failures - failures**2 / 2 + 1e-12


@given(scores(), scores())
def test_with_every_class_right_the_rate_is_the_auroc_and_with_none_it_is_nothing(id_scores, ood_scores):
    right = np.ones(len(id_scores), dtype=bool)
    expected = metrics.auroc(id_scores, ood_scores)
    assert metrics.oscr(id_scores, right, ood_scores) == pytest.approx(expected, abs=1e-12)
    assert metrics.oscr(id_scores, ~right, ood_scores) == 0.0
    assert metrics.scod_aurc(id_scores, ~right, ood_scores) == 1.0
    assert metrics.scod_augrc(id_scores, ~right, ood_scores) == 0.5


def test_the_mixture_is_the_rows_as_they_come():
    id_scores, correct = [0.1, 0.2], [True, True]
    few = metrics.scod_aurc(id_scores, correct, [0.3])
    many = metrics.scod_aurc(id_scores, correct, [0.3] * 10)
    assert few == pytest.approx(1 / 3 / 3)
    assert many > few


@pytest.mark.parametrize("start", [0, 1, 5, 63, 64, 65, 500])
@pytest.mark.parametrize("length", [0, 1, 2, 63, 64, 1000])
def test_harmonic_sums(start, length):
    expected = float(sum((Fraction(1, i) for i in range(start + 1, start + length + 1)), Fraction(0)))
    found = harmonic_between(np.array([start]), np.array([start + length]))
    assert found[0] == pytest.approx(expected, rel=2e-15, abs=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_rejects_bad_arguments(name):
    function = getattr(metrics, name)
    with pytest.raises(InputError, match="id_scores row 1 is NaN"):
        function([0.1, np.nan], [True, False], [0.1])
    with pytest.raises(InputError, match="correct has 1 rows but id_scores has 2"):
        function([0.1, 0.2], [True], [0.1])
    with pytest.raises(InputError, match="correct row 0 holds a value other than 0 and 1"):
        function([0.1, 0.2], [2, 0], [0.1])
    with pytest.raises(InputError, match="ood_scores is empty"):
        function([0.1, 0.2], [True, False], [])
