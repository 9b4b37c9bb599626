from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.decisions import AdaptiveLevel, GuaranteeWatch


@given(st.integers(0, 1000), st.floats(0.01, 0.5), st.floats(0.005, 0.3))
def test_the_long_run_rate_holds_on_any_stream(seed, alpha, step):
    """p-values of a stream whose laws change all the time, an adversary's among them."""
    rng = np.random.default_rng(seed)
    adaptive = AdaptiveLevel(alpha, step=step)
    for place in range(400):
        pvalue = [rng.random(), rng.random() ** 4, adaptive.level - 1e-3][place // 50 % 3]
        adaptive.update([bool(np.clip(pvalue, 1e-9, 1.0) > adaptive.level)])
        assert abs(adaptive.n_missed / adaptive.n - alpha) <= adaptive.bound + 1e-9
    assert adaptive.bound == pytest.approx((max(alpha, 1 - alpha) + step) / (step * 400))


def test_the_level_falls_where_sets_miss():
    adaptive = AdaptiveLevel(0.1, step=0.05)
    assert adaptive.update([False]) == pytest.approx(0.1 - 0.05 * 0.9)
    assert adaptive.update([True]) == pytest.approx(0.1 - 0.05 * 0.8)
    assert AdaptiveLevel(0.1, step=0.05).update([False, True]) == pytest.approx(adaptive.level)
    with pytest.raises(InputError, match="step is 0"):
        AdaptiveLevel(0.1, step=0.0)


def test_threads_lose_no_label():
    adaptive, watch = AdaptiveLevel(), GuaranteeWatch()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: (adaptive.update([True]), watch.update([True])), range(160)))
    assert adaptive.n == watch.state.n == 160


def test_wrong_verdicts_are_rare():
    """At the error asked for, exactly, either verdict is wrong."""
    rng, error, n_draws, alpha = np.random.default_rng(0), 0.05, 150, 0.2
    found = [GuaranteeWatch(error, alpha=alpha).update(rng.random(1500) > error) for _ in range(n_draws)]
    for wrong in ("broken", "holds"):
        assert sum(state.verdict == wrong for state in found) <= binomial_range(n_draws, alpha / 2, tail=1e-4)[1]
    outside = sum(not state.low <= error <= state.high for state in found)
    assert outside <= binomial_range(n_draws, alpha, tail=1e-4)[1]


def test_verdicts_come_where_they_should():
    rng = np.random.default_rng(0)
    good = [GuaranteeWatch(0.02).update(rng.random(3000) > 0.005) for _ in range(50)]
    assert sum(state.verdict == "holds" for state in good) >= 48
    bad = [GuaranteeWatch(0.02).update(rng.random(1000) > 0.06) for _ in range(50)]
    assert sum(state.verdict == "broken" for state in bad) >= 48
    late = GuaranteeWatch(0.02)
    assert late.update(rng.random(5000) > 0.005).verdict == "holds"
    broken = late.update(rng.random(400) > 0.2)
    assert broken.verdict == "broken"
    assert 5000 < broken.decided_at < 5200
    assert late.update(np.ones(5000, dtype=bool)).verdict == "broken"


@given(st.integers(0, 1000), st.integers(1, 199))
def test_batches_do_not_matter(seed, cut):
    correct = np.random.default_rng(seed).random(200) > 0.1
    whole, parts = GuaranteeWatch(0.05, alpha=0.3), GuaranteeWatch(0.05, alpha=0.3)
    one = whole.update(correct)
    parts.update(correct[:cut])
    two = parts.update(correct[cut:])
    assert (one.n, one.n_errors, one.verdict, one.decided_at) == (two.n, two.n_errors, two.verdict, two.decided_at)
    assert two.low >= one.low
    assert two.high <= one.high


def test_interval_shrinks_to_the_error():
    rng, watch = np.random.default_rng(0), GuaranteeWatch(0.1)
    assert (watch.state.low, watch.state.high) == (0.0, 1.0)
    widths = []
    for _ in range(4):
        state = watch.update(rng.random(2500) > 0.04)
        widths.append(state.high - state.low)
    assert widths == sorted(widths, reverse=True)
    assert 0.02 < state.low < 0.04 < state.high < 0.06
