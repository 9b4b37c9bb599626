"""Many rows are resampled column by column: the same counts of draws, the same scores, the same answer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.stats.builders import interval_of
from volta.stats import bootstrap
from volta.stats.bootstrap import draw_counts, paired_bootstrap
from volta.stats.weighted import WeightedScorer, row_scores


def models(n_rows: int, n_ood: int, decimals: int):
    """Return two models whose scores tie where they are rounded."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, n_rows)
    found = {}
    for name, skill in (("a", 2.0), ("b", 1.0)):
        powers = np.exp(rng.normal(size=(n_rows, 3)) + skill * np.eye(3)[labels])
        probs = powers / powers.sum(axis=1, keepdims=True)
        doubt = np.round(1 - probs.max(axis=1), decimals)
        found[name, 0] = row_scores(probs, labels, doubt, {"ood:x": np.round(rng.random(n_ood), decimals)}, doubt)
    return found


@pytest.mark.parametrize("decimals", [2, 12])
def test_scores_of_bytes_are_scores_of_floats(decimals):
    scorer = WeightedScorer(models(301, 77, decimals))
    rng = np.random.default_rng(1)
    inside, outside = (rng.multinomial(n, np.full(n, 1 / n), 5).astype(np.uint8).T for n in (301, 77))
    by_column = scorer.score(inside, {"ood:x": outside})
    as_floats = [np.ascontiguousarray(counts, dtype=np.float32) for counts in (inside, outside)]
    by_row = scorer.score(as_floats[0], {"ood:x": as_floats[1]})
    assert by_column.keys() == by_row.keys()
    for key, found in by_column.items():
        for model, values in found.items():
            assert values == pytest.approx(by_row[key][model], rel=1e-12)


def test_a_resample_of_many_rows_has_as_many_rows(monkeypatch):
    monkeypatch.setattr(bootstrap, "_MANY_ROWS", 100)
    counts = draw_counts(5_000, 3, np.random.default_rng(0))
    assert counts.shape == (5_000, 3)
    assert counts.dtype == np.uint8
    assert counts.sum(axis=0).tolist() == [5_000] * 3
    # Each row is drawn a Poisson-like number of times: mean 1, variance 1 − 1/n.
    assert counts.var(axis=0) == pytest.approx(np.ones(3), abs=0.1)


def test_intervals_of_many_rows_are_those_of_few(monkeypatch):
    scored = {"a": [models(400, 80, 12)["a", 0]], "b": [models(400, 80, 12)["b", 0]]}
    usual = paired_bootstrap(scored, 600)
    monkeypatch.setattr(bootstrap, "_MANY_ROWS", 10)
    many = paired_bootstrap(scored, 600)
    assert not np.array_equal(many.row_draws("ece", "test", "a", [0]), usual.row_draws("ece", "test", "a", [0]))
    for metric, eval_set in (("accuracy", "test"), ("aurc", "test"), ("ece", "test"), ("auroc", "ood:x")):
        low, high = interval_of(usual, metric, eval_set, "a", "b")
        again = interval_of(many, metric, eval_set, "a", "b")
        assert again == pytest.approx((low, high), abs=0.15 * (high - low))
    assert paired_bootstrap(scored, 30, n_threads=1).resampled["ece", "test"]["a"][0] == pytest.approx(
        paired_bootstrap(scored, 30, n_threads=2).resampled["ece", "test"]["a"][0], abs=0
    )
