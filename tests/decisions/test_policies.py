import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.decisions.exact import binomial_range
from tests.decisions.three_classes import draw_rows, fit_discriminants, judge, out_of_fold
from volta.core.errors import InputError
from volta.decisions import Policy, fit_coverage, fit_group_policies, fit_policy, rows_needed
from volta.decisions.policies import _largest_passing


def slow_search(scores, correct, starts, max_error, delta):
    """Walk through every threshold, one after another, as the docstring of fit_policy says."""
    share = dict.fromkeys(starts, 0.0)
    for start, part in zip(starts, (0.5, 0.25, 0.25), strict=True):
        share[start] += delta * part
    level, alive, best = 0.0, False, None
    for t in sorted({*starts, *scores.tolist()}):
        answered = scores <= t
        if t in share:
            level = (level if alive else 0.0) + share[t]
            alive = True
        alive = alive and stats.binom.cdf(np.sum(~correct[answered]), np.sum(answered), max_error) <= level
        if alive:
            best = t
    return best


@given(st.integers(0, 10_000), st.integers(1, 120), st.booleans())
def test_agrees_with_a_walk_through_every_threshold(seed, n, tied):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, n) / 12 if tied else rng.random(n)
    correct = rng.random(n) > 0.4 * scores
    starts = [*np.sort(rng.integers(0, 12, 2) / 12).tolist(), np.inf]
    threshold, n_answered, n_errors = _largest_passing(scores, correct, starts, 0.2, 0.2)
    assert threshold == slow_search(scores, correct, starts, 0.2, 0.2)
    if threshold is not None:
        assert n_answered == np.sum(scores <= threshold)
        assert n_errors == np.sum(~correct[scores <= threshold])


def test_no_error_at_all_answers_everything():
    policy = fit_policy(np.arange(200.0), np.ones(200, dtype=bool))
    assert policy.exists
    assert policy.threshold == np.inf
    assert (policy.coverage, policy.coverage_low, policy.coverage_high) == (1.0, 1.0, 1.0)
    assert policy.answers([1e9]).all()


def test_too_few_rows_are_named():
    policy = fit_policy([0.1], [True])
    assert not policy.exists
    assert policy.coverage == 0
    assert policy.note == "max_error=0.02 needs at least 149 calibration samples; got 1"
    assert not policy.answers([-np.inf, 0.0]).any()


def test_hopeless_error_is_named():
    policy = fit_policy(np.arange(500.0), np.arange(500) % 2 == 0, max_error=0.02)
    assert not policy.exists
    assert "no threshold shows an error of at most 0.02 with confidence 0.95 on 500" in policy.note


def test_all_equal_uncertainties_answer_all_or_none():
    correct = np.ones(300, dtype=bool)
    assert fit_policy(np.zeros(300), correct).threshold == np.inf
    correct[:50] = False
    assert not fit_policy(np.zeros(300), correct).exists


def test_reference_rows_set_the_start_points():
    uncertainty = np.linspace(0, 1, 1000)
    correct = uncertainty < 0.8
    policy = fit_policy(uncertainty, correct, reference=np.linspace(0, 1, 400))
    assert policy.n == 1000
    assert 0.78 < policy.coverage < 0.83
    assert policy.coverage_low < policy.coverage < policy.coverage_high
    blind = fit_policy(uncertainty, correct, reference=[5.0])
    assert not blind.exists


def test_rows_set_aside_come_from_the_generator():
    rng = np.random.default_rng(0)
    uncertainty = rng.random(1000)
    correct = rng.random(1000) > 0.08 * uncertainty
    one, same, other = (
        fit_policy(uncertainty, correct, max_error=0.05, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert one == same
    assert one.n == other.n == 950
    assert one.exists
    assert other.exists


@pytest.mark.parametrize(
    ("error", "confidence", "least"),
    [(0.1, 0.271, 3), (0.3, 0.51, 2), (0.3, 0.657, 3), (0.5, 0.875, 3), (0.2, 0.488, 3)],
)
def test_a_bound_that_is_just_reached_is_reached(error, confidence, least):
    assert rows_needed(error, confidence) == least
    found = fit_policy(np.zeros(least), np.ones(least, dtype=bool), max_error=error, confidence=confidence)
    assert found.exists


def test_levels_closest_to_0_and_1_are_levels():
    assert rows_needed(0.02, 1 - 1e-12) == 1368
    assert rows_needed(1e-12, 0.95) == pytest.approx(2.9957e12, rel=1e-4)
    rows = np.arange(20.0)
    assert not fit_policy(rows, rows >= 0, max_error=0.1, confidence=1 - 1e-12).exists
    assert fit_coverage(rows, coverage=1 - 1e-12).threshold == np.inf


def test_rows_needed_is_the_least():
    for error, confidence in [(0.02, 0.95), (0.1, 0.9), (0.3, 0.99)]:
        m = rows_needed(error, confidence)
        assert (1 - error) ** m <= 1 - confidence < (1 - error) ** (m - 1)


def test_coverage_target_by_hand():
    policy = fit_coverage(np.arange(19.0), coverage=0.9)
    assert policy.threshold == 17.0
    assert policy.coverage == 18 / 20
    assert policy.n_answered == 18
    assert (policy.coverage_low, policy.coverage_high) == pytest.approx(tuple(stats.beta(18, 2).ppf([0.025, 0.975])))


def test_coverage_target_with_too_few_rows():
    policy = fit_coverage([0.4], coverage=0.9)
    assert policy.threshold == np.inf
    assert (
        policy.note
        == "1 calibration samples are too few for coverage = 0.9, which needs at least 9: every row is answered"
    )
    assert fit_coverage([1.0, 1.0, 1.0], coverage=0.5).answers([1.0, 1.1]).tolist() == [True, False]


def test_policy_is_a_value():
    policy = fit_coverage([0.1, 0.2, 0.3], coverage=0.5)
    assert isinstance(policy, Policy)
    assert policy == fit_coverage([0.3, 0.2, 0.1], coverage=0.5)


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="uncertainty row 0 is NaN"):
        fit_policy([np.nan], [True])
    with pytest.raises(InputError, match="correct has 2 rows but uncertainty has 1"):
        fit_policy([0.1], [True, False])
    with pytest.raises(InputError, match="max_error is 0"):
        fit_policy([0.1], [True], max_error=0)
    with pytest.raises(InputError, match="confidence is 95"):
        fit_policy([0.1], [True], confidence=95)
    with pytest.raises(InputError, match="reference row 1 is NaN"):
        fit_policy([0.1], [True], reference=[0.1, np.nan])
    with pytest.raises(InputError, match="coverage is 1"):
        fit_coverage([0.1], coverage=1)


def test_rows_that_tie_with_the_threshold_are_counted_as_answered():
    policy = fit_coverage(np.repeat([0.0, 1.0], [80, 19]), coverage=0.9)
    assert policy.n_answered == 99
    assert policy.coverage == 99 / 100
    assert policy.coverage_high == 1.0
    some = fit_coverage(np.repeat([0.0, 1.0, 2.0], [50, 40, 9]), coverage=0.6)
    assert (some.n_answered, some.coverage) == (90, 0.9)
    assert some.coverage_low < 0.9 < some.coverage_high < 1.0


def test_labelled_reference_rows_give_one_start_point_with_all_of_delta():
    reference, uncertainty = np.linspace(0, 1, 240), np.linspace(0, 1, 160)
    known, correct = reference < 0.65, uncertainty < 0.65
    # With all of δ one error among 104 samples is few enough, and at the 75 % quantile there are too many.
    correct[10] = False
    found = fit_policy(uncertainty, correct, max_error=0.05, reference=reference, reference_correct=known)
    assert found.exists
    assert found.n == 160
    assert (found.n_answered, found.n_errors) == (104, 1)
    assert not fit_policy(uncertainty, correct, max_error=0.05, reference=reference).exists
    # Labels of rows that calibrate too would choose where the calibration samples are right by chance.
    folds = {"max_error": 0.05, "reference": reference, "cross_fitted": True}
    assert fit_policy(uncertainty, correct, reference_correct=known, **folds) == fit_policy(
        uncertainty, correct, **folds
    )
    with pytest.raises(InputError, match="reference_correct is set without reference"):
        fit_policy(uncertainty, correct, reference_correct=known)
    with pytest.raises(InputError, match="reference_correct has 239 rows but reference has 240"):
        fit_policy(uncertainty, correct, reference=reference, reference_correct=known[1:])


@pytest.mark.parametrize("wrong", [lambda u: np.full(len(u), 0.105), lambda u: np.where(u < 0.5, 0.17, 0.03)])
def test_labelled_reference_rows_keep_the_guarantee(wrong):
    """The error is above 10 % everywhere below 0.5, or everywhere."""
    rng, broken = np.random.default_rng(1), 0
    for _ in range(300):
        reference, uncertainty = rng.random(100), rng.random(150)
        known, correct = (rng.random(len(u)) > wrong(u) for u in (reference, uncertainty))
        found = fit_policy(
            uncertainty, correct, max_error=0.1, confidence=0.9, reference=reference, reference_correct=known
        )
        t = min(found.threshold, 1.0)
        broken += found.exists and np.mean(wrong(np.linspace(0, t, 1001))) > 0.1
    assert 0 < broken <= binomial_range(300, 0.1, tail=1e-4)[1]


def test_a_policy_at_400_rows():
    """A tenth wrong, three classes: a policy with error ≤ 5 % at 90 % exists in most draws, and hardly ever lies.

    Split: 240 rows train, their out-of-fold losses set the start, 160 rows prove. Cross: out-of-fold losses of all.
    """
    rng, n_draws = np.random.default_rng(0), 120
    new = draw_rows(20_000, rng)
    exists, broken, coverage = np.zeros(2), np.zeros(2), np.zeros(3)
    for _ in range(n_draws):
        rows, labels = draw_rows(400, rng)
        known = out_of_fold(rows[:240], labels[:240], rng)
        model, whole = fit_discriminants(rows[:240], labels[:240]), fit_discriminants(rows, labels)
        split = fit_policy(
            *judge(model, rows[240:], labels[240:]),
            max_error=0.05,
            confidence=0.9,
            reference=known[0],
            reference_correct=known[1],
        )
        cross = fit_policy(*out_of_fold(rows, labels, rng), max_error=0.05, confidence=0.9, cross_fitted=True, rng=rng)
        for place, (policy, answering) in enumerate([(split, model), (cross, whole)]):
            uncertainty, correct = judge(answering, *new)
            answered = policy.answers(uncertainty)
            exists[place] += policy.exists
            broken[place] += answered.any() and np.mean(~correct[answered]) > 0.05
            coverage[place] += answered.mean() / n_draws
        wrong = np.cumsum(~correct[np.argsort(uncertainty)]) / np.arange(1, len(correct) + 1)
        coverage[2] += np.flatnonzero(wrong <= 0.05)[-1] / len(correct) / n_draws
    assert (exists / n_draws >= [0.5, 0.8]).all()
    assert (broken <= binomial_range(n_draws, 0.1, tail=1e-4)[1]).all()
    assert (coverage[:2] >= [0.45 * coverage[2], 0.7 * coverage[2]]).all()


def test_what_a_policy_says_of_itself():
    right = np.ones(200, dtype=bool)
    split, cross = (fit_policy(np.arange(200.0), right, cross_fitted=cross) for cross in (False, True))
    assert split.statement == (
        "with probability 0.95 over calibration draws at most 2 % of answered samples are wrong, for i.i.d. samples"
    )
    assert cross.statement.endswith("; measured, not proven")
    assert fit_policy([0.1], [True]).statement == f"no sample is answered: {fit_policy([0.1], [True]).note}"
    assert fit_coverage([0.1], coverage=0.5).statement == "nothing is guaranteed of the error among answered samples"


def test_policies_of_groups_are_those_of_their_rows():
    rng = np.random.default_rng(0)
    uncertainty, groups = rng.random(900), rng.integers(3, size=900)
    correct = rng.random(900) > 0.1 * uncertainty
    found = fit_group_policies(uncertainty, correct, groups, n_groups=4, max_error=0.1, together=True)
    draws = np.random.default_rng(0)
    for group in range(3):
        own = groups == group
        alone = fit_policy(uncertainty[own], correct[own], max_error=0.1, confidence=1 - 0.05 / 4, rng=draws)
        assert found.policies[group] == alone
        assert alone.exists
        assert np.array_equal(found.answers(uncertainty[own], groups[own]), alone.answers(uncertainty[own]))
    assert not found.answers([-np.inf], [3]).any()
    assert found.note(["a", "b", "c", "malignant"]) == (
        "groups malignant are never answered: max_error=0.1 needs at least 42 calibration samples; got 0"
    )


def test_groups_have_errors_of_their_own():
    rng = np.random.default_rng(0)
    uncertainty = rng.random(1000)
    correct, groups = uncertainty < 0.8, rng.integers(2, size=1000)
    found = fit_group_policies(uncertainty, correct, groups, n_groups=2, max_error=[0.3, 0.02])
    assert [policy.max_error for policy in found.policies] == [0.3, 0.02]
    assert found.policies[0].threshold > found.policies[1].threshold
    assert found.note() == ""
    with pytest.raises(InputError, match="max_error has 3 numbers; pass one, or one for each of the 2 groups"):
        fit_group_policies(uncertainty, correct, groups, n_groups=2, max_error=[0.3, 0.02, 0.1])


def test_precision_of_each_predicted_class():
    """Of the samples answered as class k at most ε_k are wrong, in at least nine draws of ten, for each class."""
    rng, asked, n_draws = np.random.default_rng(0), np.array([0.02, 0.05, 0.1]), 100
    broken, exists = np.zeros(3), np.zeros(3)
    for _ in range(n_draws):
        predicted, uncertainty = rng.integers(3, size=1200), rng.random(1200)
        correct = rng.random(1200) > uncertainty**3 * 6 * asked[predicted]
        found = fit_group_policies(uncertainty, correct, predicted, n_groups=3, max_error=asked, confidence=0.9)
        for k, policy in enumerate(found.policies):
            exists[k] += policy.exists
            # Given u ≤ t the error is 3 ε t³ / 2.
            broken[k] += policy.exists and 1.5 * min(policy.threshold, 1.0) ** 3 > 1
    assert (broken <= binomial_range(n_draws, 0.1, tail=1e-4)[1]).all()
    assert (exists > 30).all()


def test_a_learner_for_which_out_of_fold_losses_are_not_enough():
    """Two folds, two models of equal risk; each fold picks the model that suits folds like itself.

    The bound on i.i.d. losses is then passed too often, though each fold's losses are i.i.d. given its model: why
    policies from out-of-fold losses are said to be measured, not proven.
    """
    rng, n_draws = np.random.default_rng(0), 400
    passed = np.zeros(2)
    for _ in range(n_draws):
        side = rng.random((2, 200)) < 0.5
        suits = side.mean(axis=1) <= 0.5
        wrong = [side[fold] if suits[1 - fold] else ~side[fold] for fold in range(2)]
        for place, losses in enumerate([np.concatenate(wrong), rng.random(400) < 0.5]):
            found = fit_policy(np.zeros(400), ~losses, max_error=0.5, confidence=0.9, reference=[np.inf])
            passed[place] += found.exists
    high = binomial_range(n_draws, 0.1, tail=1e-3)[1]
    assert passed[1] <= high < passed[0]
