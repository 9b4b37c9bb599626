import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from volta.core.errors import InputError
from volta.decisions import Policy, fit_coverage, fit_policy, rows_needed
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
        == "1 calibration rows are too few for coverage = 0.9, which needs at least 9: every row is answered"
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
