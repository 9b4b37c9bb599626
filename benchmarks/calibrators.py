"""Calibrators beside other packages on the same arrays; writes ``tests/methods/peer_calibrators.json``.

    pip install --no-deps --target PEERS betacal venn-abers splinecalib probmetrics pytorch-minimize tqdm numba llvmlite
    PYTHONPATH=PEERS python benchmarks/calibrators.py

Ours get logits; theirs get the probabilities that ours start from, after one temperature where ours have one. Ridges of
ours, which theirs do not have, are off.
"""

from __future__ import annotations

import importlib.metadata
import json
import warnings
from pathlib import Path

import numpy as np

from volta.methods import calibrators
from volta.methods.scores import softmax

N_FIT, N_NEW = 1500, 60
OUT = Path(__file__).parents[1] / "tests/methods/peer_calibrators.json"


def sample(n_rows: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident logits with a bias, and labels."""
    random = np.random.default_rng(seed)
    true = random.normal(size=(n_rows, n_classes)) * 2.0
    labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
    return 2.0 * true + np.arange(n_classes)[::-1], labels


def main() -> None:
    """Fit all, print how far ours lie from theirs, and write theirs."""
    warnings.simplefilter("ignore")
    from betacal import BetaCalibration
    from probmetrics.calibrators import BinaryLogisticCalibrator
    from splinecalib import SplineCalib
    from venn_abers import VennAbers, VennAbersCalibrator

    logits, labels = sample(N_FIT, 2, 0)
    new = sample(N_NEW, 2, 1)[0]
    fitted = calibrators.beta(logits, labels, ridge=0.0)
    tempered, of_new = (softmax(rows, fitted.beta) for rows in (logits, new))
    mixed, of_new = ((1.0 - fitted.uniform) * probs + fitted.uniform / 2.0 for probs in (tempered, of_new))
    theirs = {
        "beta": BetaCalibration("abm").fit(mixed[:, 1], labels).predict(of_new[:, 1]),
        "quadratic": BinaryLogisticCalibrator("quadratic").fit(mixed, labels).predict_proba(of_new)[:, 1],
    }
    ours = {
        "beta": fitted.probs(new)[:, 1],
        "quadratic": calibrators.quadratic(logits, labels, ridge=0.0).probs(new)[:, 1],
        "spline": calibrators.spline(logits, labels).probs(new)[:, 1],
        "venn_abers": calibrators.venn_abers(logits, labels).probs(new)[:, 1],
    }
    spline = SplineCalib()
    spline.fit(mixed[:, 1], labels)
    theirs["spline"] = spline.calibrate(of_new[:, 1])
    binary = VennAbers()
    binary.fit(softmax(logits), labels)
    theirs["venn_abers"] = binary.predict_proba(softmax(new))[0][:, 1]

    logits, labels = sample(N_FIT, 4, 2)
    new = sample(N_NEW, 4, 3)[0]
    ours["venn_abers_4"] = calibrators.venn_abers(logits, labels).probs(new)
    theirs["venn_abers_4"] = VennAbersCalibrator().predict_proba(
        p_cal=softmax(logits), y_cal=labels, p_test=softmax(new), va_type="one_vs_all"
    )
    for name, probs in theirs.items():
        print(f"{name}: {np.abs(probs - ours[name]).max():.2e} apart at most, n = {len(probs)}")
    # It draws knots, and fits to four fifths of the rows: near ours, not equal.
    del theirs["spline"]
    versions = {name: importlib.metadata.version(name) for name in ("betacal", "probmetrics", "splinecalib")}
    stored = {"versions": versions, "probs": {name: np.round(probs, 7).tolist() for name, probs in theirs.items()}}
    OUT.write_text(json.dumps(stored, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
