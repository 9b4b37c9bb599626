from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError, StoreError
from volta.decisions import Monitor, drift_in_order
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


def autocorrelated(rng, n_streams, n, rho):
    rows = rng.normal(size=(n_streams, n))
    for place in range(1, n):
        rows[:, place] = rho * rows[:, place - 1] + np.sqrt(1 - rho**2) * rows[:, place]
    return rows


def alarms(rng, streams, block):
    return sum(Monitor(rng.normal(size=200), alpha=0.1, rng=rng, block=block).update(row).alarm for row in streams)


def test_blocks_of_a_correlated_stream():
    rng = np.random.default_rng(0)
    streams = autocorrelated(rng, 100, 600, 0.6)
    assert alarms(rng, streams, 1) > 50
    assert alarms(rng, streams, 15) <= binomial_range(100, 0.1, tail=1e-4)[1]
    repeated = rng.normal(size=(100, 100)).repeat(5, axis=1)
    assert alarms(rng, repeated, 1) > 90
    assert alarms(rng, repeated, 5) <= binomial_range(100, 0.1, tail=1e-4)[1]


@given(st.integers(0, 1000), st.integers(2, 7), st.lists(st.integers(1, 20), min_size=1, max_size=9))
def test_a_block_bets_on_every_bth_row_however_rows_are_batched(seed, block, sizes):
    rng = np.random.default_rng(seed)
    calibration, stream = rng.normal(size=30), rng.normal(2.0, size=sum(sizes))
    batched = Monitor(calibration, alpha=0.2, rng=np.random.default_rng(seed), block=block)
    for part in np.split(stream, np.cumsum(sizes)[:-1]):
        state = batched.update(part)
    thinned = Monitor(calibration, alpha=0.2, rng=np.random.default_rng(seed)).update(stream[::block])
    assert state.log_martingale == pytest.approx(thinned.log_martingale, rel=1e-12, abs=1e-12)
    assert state.n == len(stream)
    assert state.alarm_at == (None if thinned.alarm_at is None else block * thinned.alarm_at)
    assert state.overall.n == len(stream)


def test_threads_lose_no_row():
    monitor = Monitor(np.arange(50.0), rng=np.random.default_rng(0))
    rows = np.random.default_rng(1).normal(size=(8, 500))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda own: [monitor.update([value]) for value in own], rows))
    assert monitor.state.n == monitor.state.overall.n == 4000
    # All rows are ranked among one another: the scores are those of calibration and stream together.
    whole = Monitor(np.arange(50.0), rng=np.random.default_rng(0))
    whole.update(rows.ravel())
    assert np.array_equal(monitor._scores, whole._scores)


@pytest.mark.parametrize("n_before", [0, 7, 300])
@pytest.mark.parametrize("block", [1, 4])
def test_a_saved_monitor_goes_on(tmp_path, n_before, block):
    rng = np.random.default_rng(0)
    stream = np.append(rng.normal(size=250), rng.normal(3.0, size=200))
    kept = Monitor(rng.normal(size=100), rng=np.random.default_rng(1), block=block)
    if n_before:
        kept.update(stream[:n_before])
    kept.save(tmp_path / "monitor")
    read = Monitor.load(tmp_path / "monitor")
    assert repr(read.state) == repr(kept.state)
    assert kept.update(stream[n_before:]) == read.update(stream[n_before:])
    assert read.state.alarm


def test_other_files_are_no_monitors(tmp_path):
    path = tmp_path / "monitor"
    Monitor([1.0, 2.0], rng=np.random.default_rng(0)).save(path)
    changed = bytearray(path.read_bytes())
    changed[-3] ^= 1
    path.write_bytes(changed)
    with pytest.raises(StoreError, match="checksum"):
        Monitor.load(path)
    with pytest.raises(InputError, match="rng draws by Philox, which is not saved"):
        Monitor([1.0], rng=np.random.Generator(np.random.Philox(0))).save(path)


def test_change_in_the_order_of_rows():
    rng, alpha, n_draws = np.random.default_rng(0), 0.1, 150
    calm = rng.normal(size=(n_draws, 300))
    found = sum(drift_in_order(row, alpha=alpha, rng=rng).alarm for row in calm)
    assert found <= binomial_range(n_draws, alpha, tail=1e-4)[1]
    assert sum(drift_in_order(row + np.linspace(0, 2, 300), alpha=alpha, rng=rng).alarm for row in calm) == n_draws


def test_a_change_in_one_of_several_columns_is_seen():
    rng, n_draws = np.random.default_rng(0), 100
    found = [drift_in_order(rng.normal(size=(200, 5)), alpha=0.1, rng=rng).alarm for _ in range(n_draws)]
    assert sum(found) <= binomial_range(n_draws, 0.1, tail=1e-4)[1]
    rows = rng.normal(size=(300, 5))
    rows[:, 3] += np.linspace(0, 2, 300)
    assert drift_in_order(rows, alpha=0.001, rng=rng).alarm


def test_rows_sorted_by_class_are_no_drift():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 200)
    scores = rng.normal(size=600) + 3 * labels
    assert drift_in_order(scores, rng=rng).alarm
    calm = drift_in_order(scores, groups=labels, rng=rng)
    assert (calm.alarm, calm.note) == (False, "")
    risen = drift_in_order(scores + np.tile(np.linspace(0, 3, 200), 3), groups=labels, rng=rng)
    assert risen.pvalue <= 0.01
    assert f"seen at row {risen.alarm_at} of 600" in risen.note
    with pytest.raises(InputError, match="groups has 2 rows but scores has 1"):
        drift_in_order([0.1], groups=[0, 1], rng=rng)
