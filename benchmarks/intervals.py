"""How often 95 % bootstrap intervals of ECE hold the truth, on simulated test sets whose true ECE is known.

Run with: python benchmarks/intervals.py [--sets N] [--resamples N]
A row has two classes and a confidence from 0.65 to 0.95; it is right with its confidence less a gap, so that the gap is
the true ECE. First `volta.metrics.ece_interval` on 5,000 rows, then the paired bootstrap of the difference between a
model with gap 0.16 and one with gap 0; each beside the percentile interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np

from volta import metrics
from volta.stats.bootstrap import paired_bootstrap
from volta.stats.weighted import row_scores

ROWS = 5_000
GAPS = (0.12, 0.04, 0.008)
WIDE_GAP = 0.16
SIZES = (400, 2_000, 10_000)
TAILS = [0.025, 0.975]
Interval = tuple[float, float]


def simulated(n_rows: int, gap: float, random: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Return the probabilities of a model that is right about ``labels`` with its confidence less ``gap``."""
    confidence = random.uniform(0.65, 0.95, size=n_rows)
    right = random.random(n_rows) < confidence - gap
    said = np.where(right, labels, 1 - labels)
    probs = np.empty((n_rows, 2))
    probs[np.arange(n_rows), said] = confidence
    probs[np.arange(n_rows), 1 - said] = 1.0 - confidence
    return probs


def shares_that_hold(truth: float, n_sets: int, intervals: Callable[[int], tuple[Interval, Interval]]) -> str:
    """Return how many of the sets' basic and percentile intervals hold the truth."""
    pairs = [intervals(index) for index in range(n_sets)]
    basic, percentile = (np.mean([low <= truth <= high for low, high in kind]) for kind in zip(*pairs, strict=True))
    return f"basic {basic:.0%}, percentile {percentile:.0%}"


def one_model(gap: float, n_rows: int, n_resamples: int, index: int) -> tuple[Interval, Interval]:
    """Return the basic interval of one model's ECE by ``ece_interval``, and a percentile interval."""
    random = np.random.default_rng((index, 1))
    labels = random.integers(2, size=n_rows)
    probs = simulated(n_rows, gap, random, labels)
    interval = metrics.ece_interval(probs, labels, n_resamples=n_resamples, seed=index)
    draws = paired_bootstrap({"one": [row_scores(probs, labels)]}, n_resamples, seed=index).resampled["ece", "test"]
    low, high = np.quantile(draws["one"][0], TAILS)
    return (interval.low, interval.high), (low, high)


def two_models(gap: float, n_rows: int, n_resamples: int, index: int) -> tuple[Interval, Interval]:
    """Return the basic and the percentile interval of the difference between a model with ``gap`` and one without."""
    random = np.random.default_rng((index, 2))
    labels = random.integers(2, size=n_rows)
    models = {
        name: [row_scores(simulated(n_rows, own, random, labels), labels)]
        for name, own in (("off", gap), ("good", 0.0))
    }
    found = paired_bootstrap(models, n_resamples, seed=index)
    spread = found.row_spread("ece", "test", "off", "good")
    assert spread is not None
    assert spread.interval is not None
    interval = spread.interval
    draws = found.resampled["ece", "test"]
    low, high = np.quantile(draws["off"][0] - draws["good"][0], TAILS)
    return interval, (low, high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=512)
    options = parser.parse_args()
    words = f"{options.sets} sets, {options.resamples} resamples"
    print(f"ece_interval, {ROWS:,} rows, {words}")
    for gap in GAPS:
        held = shares_that_hold(gap, options.sets, partial(one_model, gap, ROWS, options.resamples))
        print(f"  true ECE {gap}: {held}", flush=True)
    print(f"difference of ECE between gaps of {WIDE_GAP} and 0, {words}")
    for n_rows in SIZES:
        held = shares_that_hold(WIDE_GAP, options.sets, partial(two_models, WIDE_GAP, n_rows, options.resamples))
        print(f"  {n_rows:>6,} rows: {held}", flush=True)


if __name__ == "__main__":
    main()
