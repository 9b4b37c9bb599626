import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from volta.core.errors import InputError
from volta.decisions import benjamini_hochberg, bonferroni, conformal_pvalues, fit_ood

SCORES = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.sampled_from([np.inf, -np.inf])), min_size=1, max_size=20
).map(np.array)


@given(SCORES, SCORES)
def test_pvalues_are_the_definition(calibration, scores):
    expected = [(1 + np.count_nonzero(calibration >= s)) / (len(calibration) + 1) for s in scores]
    assert conformal_pvalues(calibration, scores).tolist() == expected


@given(SCORES, SCORES, st.integers(0, 99))
def test_smoothed_pvalues_lie_within_the_tie(calibration, scores, seed):
    found = conformal_pvalues(calibration, scores, rng=np.random.default_rng(seed))
    above = [np.count_nonzero(calibration > s) / (len(calibration) + 1) for s in scores]
    assert (found <= conformal_pvalues(calibration, scores)).all()
    assert (found > above).all()


def test_all_equal_scores():
    assert conformal_pvalues(np.ones(5), np.ones(2)).tolist() == [1.0, 1.0]
    smoothed = conformal_pvalues(np.ones(5), np.ones(4000), rng=np.random.default_rng(0))
    assert stats.kstest(smoothed, "uniform").pvalue > 1e-4


def test_one_calibration_row_cannot_flag():
    test = fit_ood([0.5])
    assert test.pvalues([9.0]).tolist() == [0.5]
    assert not test.flags([9.0], fpr=0.05).any()
    assert test.false_alarm_rate(0.05).tolist() == [0.0]
    assert "1 calibration samples are too few for fpr = 0.05, which needs 19" in test.note(0.05)
    assert fit_ood(np.arange(19)).note(0.05) == ""


def test_flag_at_the_exact_rank():
    test = fit_ood(np.arange(99.0))
    assert test.flags([94.5, 93.5], fpr=0.05).tolist() == [True, False]
    assert test.flags([89.5], fpr=1 - 0.9).all()
    assert test.false_alarm_rate(0.05) == pytest.approx(0.05)


def test_groups_are_ranked_among_themselves():
    scores, groups = np.array([1.0, 2.0, 10.0, 20.0, 30.0]), np.array([0, 0, 2, 2, 2])
    test = fit_ood(scores, groups=groups, n_groups=4)
    found = test.pvalues([5.0, 5.0, 5.0, 15.0], groups=[0, 1, 2, 2])
    assert found.tolist() == [1 / 3, 1.0, 1.0, 3 / 4]
    assert test.note(0.3) == "groups 0, 1, 3 have fewer than the 3 calibration rows that fpr = 0.3 needs: no flag there"
    np.testing.assert_allclose(test.false_alarm_rate(0.5), [1 / 3, 0, 2 / 4, 0])


def test_benjamini_hochberg_agrees_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pvalues = rng.random(30) ** 3
        adjusted = stats.false_discovery_control(pvalues)
        assert (benjamini_hochberg(pvalues, 0.1) == (adjusted <= 0.1)).all()


def test_benjamini_hochberg_edges():
    assert benjamini_hochberg([0.1], 0.1).all()
    assert not benjamini_hochberg([0.11], 0.1).any()
    assert benjamini_hochberg([0.1, 0.1, 0.1], 0.1).all()
    assert benjamini_hochberg([1 / 10, 2 / 10], 1 - 0.8).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.5))
def test_discoveries_are_the_smallest(pvalues, fdr):
    flags = benjamini_hochberg(pvalues, fdr)
    values = np.array(pvalues)
    if flags.any() and not flags.all():
        assert values[flags].max() < values[~flags].min()


def test_bonferroni():
    assert bonferroni([[0.01, 0.02, 0.9]]).tolist() == [0.03]
    assert bonferroni([[0.9, 0.7]]).tolist() == [1.0]


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="calibration row 0 is NaN"):
        conformal_pvalues([np.nan], [0.0])
    with pytest.raises(InputError, match="scores is empty"):
        conformal_pvalues([0.1], [])
    with pytest.raises(InputError, match="fpr is 0"):
        fit_ood([0.1]).flags([0.1], fpr=0)
    with pytest.raises(InputError, match="groups is missing, and calibration was grouped"):
        fit_ood([0.1], groups=[0]).pvalues([0.1])
    with pytest.raises(InputError, match="groups is set, but calibration was not grouped"):
        fit_ood([0.1]).pvalues([0.1], groups=[0])
    with pytest.raises(InputError, match="groups row 0 is 1"):
        fit_ood([0.1], groups=[0]).pvalues([0.1], groups=[1])
    with pytest.raises(InputError, match="groups has 2 rows but scores has 1"):
        fit_ood([0.1], groups=[0, 0])
    with pytest.raises(InputError, match=r"pvalues row 1 holds 1\.5"):
        benjamini_hochberg([0.1, 1.5])
    with pytest.raises(InputError, match="pvalues row 0 holds nan"):
        bonferroni([[np.nan, 0.1]])
    with pytest.raises(InputError, match=r"pvalues has shape \(2,\)"):
        bonferroni([0.1, 0.2])


def test_tensors_are_taken_off_their_graph():
    torch = pytest.importorskip("torch")
    flagged = benjamini_hochberg(torch.tensor([0.001, 0.9], requires_grad=True), 0.05)
    assert flagged.tolist() == [True, False]
    scores, groups = torch.tensor([0.1, 0.2, 0.3], requires_grad=True), torch.tensor([0, 1, 0])
    assert [len(part) for part in fit_ood(scores, groups=groups).scores] == [2, 1]
