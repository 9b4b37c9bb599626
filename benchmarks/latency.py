"""Latency of one row: VOLTA's decisions through ONNX Runtime, its prediction in PyTorch, and logistic regression.

Run with: python benchmarks/latency.py [--features N] [--classes N] [--repeats N] [--encoder tabular|vision]
Prints the median and 95th percentile over the repeats, one thread each, after a warm-up of 100 rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from volta import VoltaClassifier

WARM_UP = 100


def quantiles_ms(call: Callable[[np.ndarray], object], rows: np.ndarray, repeats: int) -> tuple[float, float]:
    """Return the median and the 95th percentile of single-row calls, in milliseconds."""
    times = []
    for index in range(WARM_UP + repeats):
        row = rows[index % len(rows)][None]
        started = time.perf_counter()
        call(row)
        times.append(1e3 * (time.perf_counter() - started))
    median, late = np.quantile(times[WARM_UP:], [0.5, 0.95])
    return float(median), float(late)


def session_of(classifier: VoltaClassifier, folder: Path) -> Callable[[np.ndarray], object]:
    path = folder / "volta.onnx"
    classifier.to_onnx(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda row: session.run(None, {"inputs": row.astype(np.float64)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--encoder", choices=("tabular", "vision"), default="vision")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, options.features)).astype(np.float32)
    labels = random.integers(options.classes, size=len(rows))
    torch.set_num_threads(1)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as place:
        classifier = VoltaClassifier(encoder=options.encoder, max_epochs=1).fit(rows, labels)
        peer = LogisticRegression(max_iter=5, tol=1.0).fit(rows, labels)
        calls = {
            "ONNX Runtime": session_of(classifier, Path(place)),
            "VoltaClassifier.predict_full": classifier.predict_full,
            "scikit-learn LogisticRegression.predict_proba": peer.predict_proba,
        }
        print(f"one row of {options.features} features, {options.classes} classes, n = {options.repeats} calls")
        base, _ = quantiles_ms(calls["ONNX Runtime"], rows, options.repeats)
        for name, call in calls.items():
            median, late = quantiles_ms(call, rows, options.repeats)
            print(f"{name}: median {median:.3f} ms, p95 {late:.3f} ms, {median / base:.1f}× ONNX Runtime")


if __name__ == "__main__":
    main()
