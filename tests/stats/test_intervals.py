import numpy as np
import pytest

from volta.stats.bootstrap import draw_counts, hierarchical_interval, shared_row_variance, unpaired_row_variance


def test_counts_are_resamples_of_the_same_size():
    counts = draw_counts(50, 9, np.random.default_rng(0))
    assert counts.shape == (50, 9)
    assert (counts.sum(axis=0) == 50).all()
    assert draw_counts(5, 20_000, np.random.default_rng(1)).var() == pytest.approx(1 - 1 / 5, abs=0.02)


def test_shared_row_variance_takes_only_what_seeds_have_in_common():
    generator = np.random.default_rng(2)
    common, own = generator.normal(0, 3, 20_000), generator.normal(0, 4, (5, 20_000))
    assert shared_row_variance(common + own) == pytest.approx(9, rel=0.05)
    assert shared_row_variance(own) < 0.3
    assert shared_row_variance((common + own)[:1]) == pytest.approx(25, rel=0.05)


def test_hierarchical_interval_covers_seeds_and_rows():
    # Rows that say nothing: the interval is Student's over seeds. Seeds that agree: it is that of the rows.
    observed = np.array([0.1, 0.3, 0.2, 0.45, 0.15, 0.25, 0.35, 0.2])
    low, high = hierarchical_interval(observed, np.repeat(observed[:, None], 4000, axis=1))
    half = 2.3646 * observed.std(ddof=1) / np.sqrt(8)
    assert (high - low) / 2 == pytest.approx(half, rel=0.08)
    rows = np.random.default_rng(0).normal(0, 0.05, 4000)
    low, high = hierarchical_interval(np.full(3, 0.2), 0.2 + np.repeat(rows[None], 3, axis=0))
    assert (low, high) == pytest.approx((0.2 - 1.96 * 0.05, 0.2 + 1.96 * 0.05), abs=0.006)


def test_means_over_seeds_of_their_own_share_the_rows_luck():
    generator = np.random.default_rng(0)
    rows, own = generator.normal(size=4000), generator.normal(size=(2, 5, 4000))
    # Both react to rows alike: their difference varies by nothing that all seeds share.
    assert unpaired_row_variance(rows + own[0], rows + own[1]) == pytest.approx(0.0, abs=0.05)
    # Each reacts in its own way, all of its seeds alike: the variances add up.
    other = generator.normal(size=4000)
    assert unpaired_row_variance(rows + own[0], 2.0 * other + own[1]) == pytest.approx(5.0, rel=0.1)
