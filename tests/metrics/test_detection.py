import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from volta import metrics
from volta.core.errors import InputError
from volta.metrics.ood import SortedScores
from volta.metrics.table import OOD

from . import reference
from .strategies import scores

NAMES = [n for n, m in metrics.METRICS.items() if m.needs == OOD]
# Its value is of distances between scores, not of their order alone.
BY_ORDER = [n for n in NAMES if n != "autc"]


def test_hand_computed():
    id_scores, ood_scores = [0.1, 0.4, 0.4], [0.4, 0.9]
    assert metrics.auroc(id_scores, ood_scores) == pytest.approx((1 + 2 * 0.5 + 3) / 6)
    assert metrics.aupr_out(id_scores, ood_scores) == pytest.approx(0.5 * 1 + 0.5 * 2 / 4)
    assert metrics.aupr_in(id_scores, ood_scores) == pytest.approx(1 / 3 * 1 + 2 / 3 * 3 / 4)
    assert metrics.fpr95(id_scores, ood_scores) == pytest.approx(2 / 3)
    assert metrics.fpr95_id(id_scores, ood_scores) == pytest.approx(1 / 2)
    # Scaled: 0, 3/8, 3/8 against 3/8, 1.
    assert metrics.autc(id_scores, ood_scores) == pytest.approx((1 / 4 + 1 - 11 / 16) / 2)


@pytest.mark.parametrize("decimals", [1, 2, 12])
@pytest.mark.parametrize(("n_id", "n_ood"), [(1000, 1000), (2000, 37), (13, 900)])
def test_agrees_with_scikit_learn(decimals, n_id, n_ood):
    rng = np.random.default_rng(n_ood)
    id_scores = rng.standard_normal(n_id).round(decimals)
    ood_scores = (rng.standard_normal(n_ood) + 0.7).round(decimals)
    is_ood = np.repeat([0, 1], [n_id, n_ood])
    both = np.concatenate([id_scores, ood_scores])
    assert metrics.auroc(id_scores, ood_scores) == pytest.approx(roc_auc_score(is_ood, both), abs=1e-12)
    expected = average_precision_score(is_ood, both)
    assert metrics.aupr_out(id_scores, ood_scores) == pytest.approx(expected, abs=1e-12)
    expected = average_precision_score(1 - is_ood, -both)
    assert metrics.aupr_in(id_scores, ood_scores) == pytest.approx(expected, abs=1e-12)
    fpr, tpr, threshold = sklearn_roc_curve(is_ood, both, drop_intermediate=False)
    curve = metrics.roc_curve(id_scores, ood_scores)
    assert curve.fpr == pytest.approx(fpr, abs=1e-12)
    assert curve.tpr == pytest.approx(tpr, abs=1e-12)
    assert curve.threshold == pytest.approx(threshold)


@given(scores(), scores())
def test_agrees_with_the_definitions(id_scores, ood_scores):
    expected = {
        "auroc": reference.auroc(id_scores, ood_scores),
        "aupr_out": reference.average_precision(id_scores, ood_scores),
        "aupr_in": reference.average_precision(-ood_scores, -id_scores),
        "fpr95": reference.fpr95(id_scores, ood_scores),
        "fpr95_id": reference.fpr95(-ood_scores, -id_scores),
        "autc": reference.autc(id_scores, ood_scores),
    }
    assert list(expected) == NAMES
    for name, value in expected.items():
        assert getattr(metrics, name)(id_scores, ood_scores) == pytest.approx(value, abs=1e-12), name
    merged = SortedScores(np.sort(id_scores), np.sort(ood_scores))
    together = {name: metrics.METRICS[name].shared(merged) for name in NAMES}
    assert together == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_ood", [*range(1, 45), 100, 10_000])
def test_fpr95_rank_is_exact(n_ood):
    ood_scores = np.arange(n_ood, dtype=float)
    need = next(k for k in range(n_ood + 1) if 100 * k >= 95 * n_ood)
    id_scores = np.arange(-0.5, n_ood)
    assert metrics.fpr95(id_scores, ood_scores) == np.mean(id_scores >= n_ood - need)


@given(scores(), scores(), st.randoms(use_true_random=False))
def test_order_of_rows_monotone_maps_and_repeats_do_not_matter(id_scores, ood_scores, random):
    ranks = np.unique(np.concatenate([id_scores, ood_scores]), return_inverse=True)[1] ** 3.0
    order = list(range(len(id_scores)))
    random.shuffle(order)
    for name in NAMES:
        function = getattr(metrics, name)
        value = function(id_scores, ood_scores)
        assert 0 <= value <= 1
        assert function(id_scores[order], ood_scores) == value, name
        if name in BY_ORDER:
            assert function(ranks[: len(id_scores)], ranks[len(id_scores) :]) == value, name
        if name not in {"fpr95", "fpr95_id"}:
            repeated = function(np.repeat(id_scores, 2), np.repeat(ood_scores, 2))
            assert repeated == pytest.approx(value, abs=1e-12), name


@given(scores(), scores())
def test_swapping_and_negating_keeps_auroc(id_scores, ood_scores):
    value = metrics.auroc(id_scores, ood_scores)
    assert metrics.auroc(-ood_scores, -id_scores) == pytest.approx(value, abs=1e-12)
    assert metrics.auroc(ood_scores, id_scores) == pytest.approx(1 - value, abs=1e-12)
    curve = metrics.roc_curve(id_scores, ood_scores)
    area = np.sum(np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1]) / 2)
    assert area == pytest.approx(value, abs=1e-12)


@given(scores(), scores(), st.sampled_from([0.25, 2.0, 1024.0]), st.integers(-8, 8))
def test_autc_has_no_unit_and_swaps_to_its_complement(id_scores, ood_scores, scale, shift):
    # Differences far below the shift would be lost in it.
    id_scores, ood_scores = np.round(id_scores, 6), np.round(ood_scores, 6)
    value = metrics.autc(id_scores, ood_scores)
    moved = metrics.autc(scale * id_scores + shift, scale * ood_scores + shift)
    assert moved == pytest.approx(value, abs=1e-9)
    assert metrics.autc(ood_scores, id_scores) == pytest.approx(1 - value, abs=1e-12)
    assert metrics.autc(-ood_scores, -id_scores) == pytest.approx(value, abs=1e-12)


def test_autc_tells_apart_what_auroc_does_not():
    assert metrics.autc([0.0, 0.0], [1.0, 1.0]) == 0.0
    assert metrics.autc([1.0, 1.0], [0.0, 0.0]) == 1.0
    close = [0.0, 0.49], [0.5, 1.0]
    assert metrics.auroc(*close) == 1.0
    assert metrics.autc(*close) == pytest.approx((0.245 + 1 - 0.75) / 2)


def test_autc_beside_infinite_scores_is_the_limit_of_large_ones():
    far = 1e12
    for id_scores, ood_scores in (
        ([0.0, 3.0], [1.0, np.inf]),
        ([-np.inf, 3.0], [1.0, 2.0]),
        ([-np.inf, 3.0], [1.0, np.inf]),
    ):
        limit = metrics.autc(np.clip(id_scores, -far, far), np.clip(ood_scores, -far, far))
        assert metrics.autc(id_scores, ood_scores) == pytest.approx(limit, abs=1e-11)
    assert metrics.autc([np.inf], [np.inf]) == 0.5
    assert metrics.autc([-1.7e308], [1.7e308]) == 0.0


def test_constant_scores_are_chance():
    assert metrics.autc(np.ones(30), np.ones(10)) == 0.5
    assert metrics.auroc(np.ones(30), np.ones(10)) == 0.5
    assert metrics.aupr_out(np.ones(30), np.ones(10)) == 0.25
    assert metrics.fpr95(np.ones(30), np.ones(10)) == 1.0


@pytest.mark.parametrize("name", [*NAMES, "roc_curve"])
def test_rejects_bad_arguments(name):
    function = getattr(metrics, name)
    with pytest.raises(InputError, match="ood_scores row 2 is NaN"):
        function([0.1], [0.1, 0.2, np.nan])
    with pytest.raises(InputError, match="id_scores is empty"):
        function([], [0.1])
    with pytest.raises(InputError, match=r"ood_scores has shape \(1, 2\)"):
        function([0.1], [[0.1, 0.2]])


def test_autc_of_the_smallest_numbers():
    assert metrics.autc([5e-324], [0.0]) == 1.0
    assert metrics.autc([0.0], [5e-324]) == 0.0
    assert metrics.autc([-1.5e308, 1.5e308], [1.5e308]) == 0.25
