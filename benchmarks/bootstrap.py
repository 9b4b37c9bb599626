"""Time the paired bootstrap: methods × rows × 5 metrics × resamples, on synthetic predictions.

Run with: python benchmarks/bootstrap.py [--methods 10] [--seeds 1] [--rows 10000] [--resamples 1000]
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import numpy as np

from volta.stats.bootstrap import paired_bootstrap
from volta.stats.weighted import RowScores, row_scores


def make_model(labels: np.ndarray, n_classes: int, skill: float, generator: np.random.Generator) -> RowScores:
    logits = generator.normal(size=(len(labels), n_classes))
    logits[np.arange(len(labels)), labels] += skill
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    outside = np.exp(generator.normal(size=(len(labels), n_classes)))
    outside /= outside.sum(axis=1, keepdims=True)
    return row_scores(probs, labels, 1 - probs.max(axis=1), {"ood:near": 1 - outside.max(axis=1)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1, help="models a method")
    parser.add_argument("--rows", type=int, default=10_000, help="test rows, and as many OOD rows")
    parser.add_argument("--resamples", type=int, default=1_000)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, arguments.rows)
    models = {
        f"method {index}": [make_model(labels, 10, 2 + 0.1 * index, generator) for _ in range(arguments.seeds)]
        for index in range(arguments.methods)
    }
    start, cpu_start = time.perf_counter(), time.process_time()
    bootstrap = paired_bootstrap(models, arguments.resamples)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    print(
        f"{arguments.methods} methods x {arguments.seeds} seed(s) x {arguments.rows} rows x 5 metrics x "
        f"{arguments.resamples} resamples: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU (one run; "
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__})"
    )
    first, *_, last = models
    for metric, eval_set in bootstrap.observed:
        rows = bootstrap.row_spread(metric, eval_set, last, first)
        if rows is not None and rows.interval is not None:
            low, high = rows.interval
            print(f"  {metric:8s} on {eval_set:8s}: {last} - {first} in [{low:.5f}, {high:.5f}]")


if __name__ == "__main__":
    main()
