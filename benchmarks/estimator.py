"""The classifier's speed beside scikit-learn's, in one run: import, an epoch of training, a decision of one row.

Run with: python benchmarks/estimator.py [--rows N] [--columns N] [--repeats N]
One thread each. Seconds of import are processor time in a new process; an epoch is the time of a fit less that of a fit
half as long, divided by the epochs between; latencies are medians over calls, after a warm-up.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from latency import quantiles_ms, session_of
from volta import VoltaClassifier

WIDTHS = (256, 128, 64, 128)
"""Hidden widths of the tabular encoder: what MLPClassifier gets too."""

WITHOUT_PANDAS = "import sys; sys.modules['pandas'] = None; "
"""As where volta-uq alone is installed: scikit-learn imports pandas, which it does not need, wherever it finds it."""

BATCH = 1024
EPOCHS = 8


def import_seconds(statement: str) -> float:
    """Return the least processor time of three new processes that run ``statement``, after one that compiles it.

    An installed package is compiled; in a source folder, or where Python is told to write no bytecode, it may not be.
    """
    code = f"import time; started = time.process_time(); {statement}; print(time.process_time() - started)"
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as compiled:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = compiled
        runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=env) for _ in range(4)]
    return min(float(run.stdout) for run in runs[1:])


def epoch_seconds(fit: Callable[[int], object]) -> float:
    """Return processor seconds per epoch: ``fit(n)`` trains for n epochs."""
    fit(1)  # The first fit of a process imports what training needs.
    spent = []
    for n_epochs in (EPOCHS // 2, EPOCHS):
        started = time.process_time()
        fit(n_epochs)
        spent.append(time.process_time() - started)
    return (spent[1] - spent[0]) / (EPOCHS - EPOCHS // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    for statement in ("import sklearn.base", "from volta import VoltaClassifier"):
        alone, whole = import_seconds(WITHOUT_PANDAS + statement), import_seconds(statement)
        print(f"{statement}: {alone:.2f} s of processor time, {whole:.2f} s with all that is installed", flush=True)
    print(f"import torch: {import_seconds('import torch'):.2f} s of processor time", flush=True)

    random = np.random.default_rng(0)
    labels = random.integers(10, size=options.rows)
    rows = random.normal(size=(options.rows, options.columns)) + random.normal(size=(10, options.columns))[labels]

    def fit_volta(n_epochs: int) -> VoltaClassifier:
        return VoltaClassifier(max_epochs=n_epochs).fit(rows, labels)

    def fit_mlp(n_epochs: int) -> MLPClassifier:
        return MLPClassifier(WIDTHS, batch_size=BATCH, max_iter=n_epochs, tol=0.0, random_state=0).fit(rows, labels)

    with threadpool_limits(1), tempfile.TemporaryDirectory() as place:
        ours, theirs = epoch_seconds(fit_volta), epoch_seconds(fit_mlp)
        shape = f"{options.rows:,} × {options.columns}, hidden {WIDTHS}, batches of {BATCH}"
        print(f"an epoch, {shape}: VoltaClassifier {ours:.2f} s, MLPClassifier {theirs:.2f} s, {ours / theirs:.2f}×")
        few = slice(0, 5000)
        classifier = VoltaClassifier(max_epochs=2).fit(rows[few], labels[few])
        network = MLPClassifier(WIDTHS, batch_size=BATCH, max_iter=2).fit(rows[few], labels[few])
        regression = LogisticRegression(max_iter=20).fit(rows[few], labels[few])
        calls: dict[str, Callable[[np.ndarray], object]] = {
            "VoltaClassifier.decide": classifier.decide,
            "VoltaClassifier.predict_proba": classifier.predict_proba,
            "the ONNX graph in ONNX Runtime": session_of(classifier, Path(place)),
            "MLPClassifier.predict_proba": network.predict_proba,
            "LogisticRegression.predict_proba": regression.predict_proba,
        }
        for name, call in calls.items():
            median, _ = quantiles_ms(call, rows, options.repeats)
            print(f"one row, {name}: median {median:.3f} ms of {options.repeats} calls")


if __name__ == "__main__":
    main()
