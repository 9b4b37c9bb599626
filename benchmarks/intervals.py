"""How often 95 % bootstrap intervals of ECE hold the truth, on simulated test sets whose true ECE is known.

Run with: python benchmarks/intervals.py [--sets N] [--resamples N]
A row has two classes and a confidence from 0.65 to 0.95; it is right with its confidence less a gap, so that the gap is
the true ECE. First `volta.metrics.ece_interval` on 5,000 rows, then the paired bootstrap of the difference between a
model with gap 0.16 and one with gap 0; each beside the percentile interval.
"""

from __future__ import annotations

import argparse

import numpy as np

from volta import metrics
from volta.stats.bootstrap import paired_bootstrap
from volta.stats.rowscores import row_scores

GAPS = (0.12, 0.04, 0.008)
SIZES = (400, 2_000, 10_000)
TAILS = [0.025, 0.975]


def simulated(n_rows: int, gap: float, random: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Return the probabilities of a model that is right about ``labels`` with its confidence less ``gap``."""
    confidence = random.uniform(0.65, 0.95, size=n_rows)
    right = random.random(n_rows) < confidence - gap
    said = np.where(right, labels, 1 - labels)
    probs = np.empty((n_rows, 2))
    probs[np.arange(n_rows), said] = confidence
    probs[np.arange(n_rows), 1 - said] = 1.0 - confidence
    return probs


def resampled_ece(probs: np.ndarray, labels: np.ndarray, n_resamples: int, random: np.random.Generator) -> np.ndarray:
    """Return the ECE of rows drawn with replacement."""
    draws = (random.integers(len(labels), size=len(labels)) for _ in range(n_resamples))
    return np.array([metrics.ece(probs[rows], labels[rows]) for rows in draws])


def one_model(n_sets: int, n_resamples: int, n_rows: int = 5_000) -> None:
    print(f"ece_interval, {n_rows:,} rows, {n_sets} sets, {n_resamples} resamples")
    for gap in GAPS:
        basic = percentile = 0
        for index in range(n_sets):
            random = np.random.default_rng((index, 1))
            labels = random.integers(2, size=n_rows)
            probs = simulated(n_rows, gap, random, labels)
            interval = metrics.ece_interval(probs, labels, n_resamples=n_resamples, seed=index)
            low, high = np.quantile(resampled_ece(probs, labels, n_resamples, random), TAILS)
            basic += interval.low <= gap <= interval.high
            percentile += low <= gap <= high
        print(f"  true ECE {gap}: basic {basic / n_sets:.0%}, percentile {percentile / n_sets:.0%}", flush=True)


def two_models(n_sets: int, n_resamples: int) -> None:
    print(f"difference of ECE between gaps of 0.16 and 0, {n_sets} sets, {n_resamples} resamples")
    for n_rows in SIZES:
        basic = percentile = 0
        for index in range(n_sets):
            random = np.random.default_rng((index, 2))
            labels = random.integers(2, size=n_rows)
            models = {
                name: [row_scores(simulated(n_rows, gap, random, labels), labels, None, {})]
                for name, gap in (("off", 0.16), ("good", 0.0))
            }
            found = paired_bootstrap(models, n_resamples, seed=index)
            interval = found.difference("ece", "test", "off", "good")
            assert interval is not None
            draws = found.resampled["ece", "test"]
            low, high = np.quantile(draws["off"] - draws["good"], TAILS)
            basic += interval[0] <= 0.16 <= interval[1]
            percentile += low <= 0.16 <= high
        print(f"  {n_rows:>6,} rows: basic {basic / n_sets:.0%}, percentile {percentile / n_sets:.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=512)
    options = parser.parse_args()
    one_model(options.sets, options.resamples)
    two_models(options.sets, options.resamples)


if __name__ == "__main__":
    main()
