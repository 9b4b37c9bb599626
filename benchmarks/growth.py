"""How cost grows: an epoch of VOLTA, its predictions and the full metric report, over rows and over classes.

Run with: python benchmarks/growth.py [--rows 100000,500000,2000000] [--classes 10,100,1000,10000]
Rows grow at 64 features and 10 classes; classes grow at 10,000 rows of 512 features. Linear growth in rows shows as a
constant time a row. Over classes the cost is a fixed part and a part a class; in brackets is the time added for each
further class, constant where growth is linear. One process, all cores, one run of each after a small warm-up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from volta import metrics
from volta.core.types import EncoderKind, FitData, Split
from volta.methods.volta import Volta
from volta.networks.modules import Encoder, Prototypes
from volta.networks.objectives import CrossEntropy
from volta.networks.recipe import Budget
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import VISION_RECIPE, Trainer
from volta.networks.training import train

CLASS_ROWS = 10_000
STEPS = ("epoch", "predict", "metrics")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def random_data(n_rows: int, n_features: int, n_classes: int, encoder: EncoderKind) -> FitData:
    random = np.random.default_rng(0)

    def split(size: int) -> Split:
        return Split(
            random.standard_normal((size, n_features), dtype=np.float32), random.integers(n_classes, size=size)
        )

    return FitData(split(n_rows), split(1000), split(1000), n_classes=n_classes, encoder=encoder)


def epoch_seconds(data: FitData) -> float:
    """Seconds of one epoch: of two less of one, so that set-up does not count."""
    spec = NetworkSpec(Encoder(), Prototypes(), data.input_shape, data.n_classes)

    def run(epochs: int) -> float:
        recipe = replace(VISION_RECIPE, max_epochs=epochs, patience=None)
        return train(spec.build(0), data, recipe, CrossEntropy(), seed=0, device=torch.device("cpu")).seconds

    return run(2) - run(1)


def measure(n_rows: int, n_features: int, n_classes: int) -> dict[str, float]:
    data = random_data(n_rows, n_features, n_classes, "vision")
    few = replace(data, train=data.train.take(np.arange(min(n_rows, 5000))))
    method = Volta().fit(few, Trainer(seed=0, budget=Budget(max_epochs=1)))
    prediction = method.predict(data.train.inputs)
    return {
        "epoch": epoch_seconds(data),
        "predict": timed(lambda: method.predict(data.train.inputs)),
        "metrics": timed(lambda: metrics.report(prediction.probs, data.train.labels, prediction.uncertainty)),
    }


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=numbers, default=[100_000, 500_000, 2_000_000])
    parser.add_argument("--classes", type=numbers, default=[10, 100, 1000, 10_000])
    options = parser.parse_args()
    measure(5000, 64, 10)
    print("rows (64 features, 10 classes): µs a row, and over the smallest size")
    first: dict[str, float] = {}
    for n_rows in options.rows:
        per_row = {step: 1e6 * seconds / n_rows for step, seconds in measure(n_rows, 64, 10).items()}
        first = first or per_row
        words = [f"{step} {per_row[step]:.2f} ({per_row[step] / first[step]:.2f}×)" for step in STEPS]
        print(f"  {n_rows:>9,}: {', '.join(words)}", flush=True)
    print(f"classes ({CLASS_ROWS:,} rows, 512 features): seconds, and ms added a further class")
    before: tuple[int, dict[str, float]] | None = None
    for n_classes in options.classes:
        seconds = measure(CLASS_ROWS, 512, n_classes)
        words = [f"{step} {seconds[step]:.2f}" for step in STEPS]
        if before is not None:
            added = {step: 1e3 * (seconds[step] - before[1][step]) / (n_classes - before[0]) for step in STEPS}
            words = [f"{word} (+{added[step]:.3f})" for word, step in zip(words, STEPS, strict=True)]
        print(f"  {n_classes:>9,}: {', '.join(words)}", flush=True)
        before = (n_classes, seconds)


if __name__ == "__main__":
    main()
