import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volta.core.errors import InputError
from volta.decisions import Monitor
from volta.decisions.monitor import betting_functions, online_pvalues


class NoDraws:
    """A generator whose U is 1, so that a p-value counts what is larger or equal."""

    def random(self, size):
        return np.zeros(size)


@given(st.integers(0, 10_000), st.integers(1, 40), st.lists(st.integers(1, 1500), min_size=1, max_size=4))
def test_pvalues_are_the_definition(seed, n_before, batches):
    rng = np.random.default_rng(seed)
    stream = rng.integers(0, 9, n_before + sum(batches)).astype(float)
    earlier, found = np.sort(stream[:n_before]), []
    for part in np.split(stream[n_before:], np.cumsum(batches)[:-1]):
        pvalues, earlier = online_pvalues(earlier, part, NoDraws())
        found.append(pvalues)
    rows = range(n_before, len(stream))
    expected = [(np.count_nonzero(stream[:row] >= stream[row]) + 1) / (row + 1) for row in rows]
    assert np.concatenate(found).tolist() == expected
    assert np.array_equal(earlier, np.sort(stream))


def test_bets_are_densities():
    # p = v⁸ tames the powers at 0: ∫ f(p) dp = ∫ f(v⁸) 8 v⁷ dv.
    v = (np.arange(10_000) + 0.5) / 10_000
    bets = betting_functions(v**8)
    assert (bets > 0).all()
    np.testing.assert_allclose((bets * 8 * v[:, None] ** 7).mean(axis=0), 1, atol=1e-6)
    assert (betting_functions(np.array([1.0, 1e-9])) > 0).all()


def test_martingale_by_hand():
    """M after one row, and after two: every bet from the first row, every bet from the second, and what is kept."""
    monitor = Monitor([0.0], rng=np.random.default_rng(0))
    p, _ = online_pvalues(np.zeros(1), np.array([1.0, 2.0]), np.random.default_rng(0))
    first, second = betting_functions(p)
    state = monitor.update([1.0])
    assert np.exp(state.log_martingale) == pytest.approx(0.5 * first.mean() + 0.5)
    kept = 0.5 / (1 + np.log(2))
    state = monitor.update([2.0])
    expected = 0.5 * (first * second).mean() + (0.5 - kept) * second.mean() + kept
    assert np.exp(state.log_martingale) == pytest.approx(expected)


@given(st.integers(0, 1000), st.integers(1, 99))
def test_batches_do_not_matter(seed, cut):
    rng = np.random.default_rng(seed)
    calibration, stream = rng.integers(0, 20, 30).astype(float), rng.integers(0, 30, 100).astype(float)
    whole, parts = (Monitor(calibration, alpha=0.1, rng=np.random.default_rng(seed)) for _ in range(2))
    one = whole.update(stream)
    parts.update(stream[:cut])
    two = parts.update(stream[cut:])
    assert one.log_martingale == pytest.approx(two.log_martingale, rel=1e-12, abs=1e-12)
    assert (one.alarm, one.alarm_at, one.n) == (two.alarm, two.alarm_at, two.n)
    assert one.overall.mean_pvalue == pytest.approx(two.overall.mean_pvalue)
    assert two.recent.n == 100 - cut


@pytest.mark.parametrize(("mean", "spread"), [(2.0, 1.0), (-2.0, 1.0), (0.0, 3.0), (0.0, 0.2)])
@pytest.mark.parametrize("n_before", [0, 3000])
def test_changes_are_seen_early_and_late(mean, spread, n_before):
    rng = np.random.default_rng(2)
    monitor = Monitor(rng.normal(size=500), alpha=0.01, rng=rng)
    if n_before:
        assert not monitor.update(rng.normal(size=n_before)).alarm
    state = monitor.update(rng.normal(mean, spread, size=400))
    assert state.alarm
    assert n_before <= state.alarm_at < n_before + 200
    assert state.pvalue <= 0.01


def test_alarm_stays_and_drift_is_plain():
    rng = np.random.default_rng(0)
    monitor = Monitor(rng.normal(size=999), rng=rng)
    calm = monitor.update(rng.normal(size=2000))
    assert not calm.alarm
    assert calm.alarm_at is None
    assert 0.45 < calm.overall.mean_pvalue < 0.55
    assert 0.02 < calm.overall.share_beyond < 0.09
    changed = monitor.update(rng.normal(3.0, size=100))
    assert changed.recent.share_beyond > 0.8
    later = monitor.update(rng.normal(size=10))
    assert later.alarm
    assert later.alarm_at == changed.alarm_at
    assert later.log_peak >= changed.log_martingale


def test_a_single_calibration_row_and_equal_scores():
    monitor = Monitor([1.0], alpha=0.5, rng=np.random.default_rng(0))
    state = monitor.update(np.ones(500))
    assert np.isfinite(state.log_martingale)
    assert state.overall.mean_pvalue == 1.0


def test_many_rows_at_once():
    rng = np.random.default_rng(0)
    state = Monitor(rng.normal(size=100), rng=rng).update(rng.normal(size=100_000))
    assert state.n == 100_000
    assert not state.alarm


def test_rejects_bad_arguments():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="calibration is empty"):
        Monitor([], rng=rng)
    with pytest.raises(InputError, match="alpha is 1"):
        Monitor([0.1], alpha=1, rng=rng)
    with pytest.raises(InputError, match="scores row 1 is NaN"):
        Monitor([0.1], rng=rng).update([0.1, np.nan])
