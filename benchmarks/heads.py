"""Heads on frozen features: accuracy, NLL, ECE, AURC, near and far AUROC of methods, on every stored task in one run.

    VOLTA_DATA=DIR python benchmarks/heads.py [--tasks cifar10,digits] [--methods volta,knn] [--seeds 3] [--out DIR]
    VOLTA_DATA=DIR python benchmarks/heads.py --held-out [--fashion-mnist FOLDER]

Tasks whose files are not there are named and left out. Results are kept in the run folder, and what is there with the
same data and code is not run again. `--held-out` runs the tasks of docs/volta-plus.md on which nothing was chosen;
Fashion-MNIST comes from the files of Debian's package dataset-fashion-mnist.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from sklearn import datasets

import volta
from volta import Task
from volta.core.errors import MissingDataError
from volta.data import find_task
from volta.data.options import data_root

METHODS = "volta,temperature,ensemble,energy,knn,vim,volta_plus"
COLUMNS = {
    "accuracy": ("test", True),
    "nll": ("test", False),
    "ece": ("test", False),
    "aurc": ("test", False),
    "near AUROC": ("near:", True),
    "far AUROC": ("far:", True),
}
STORED = ("cifar10", "cifar100", "tinyimagenet", "clinc150", "digits")
FASHION_ROWS = 20_000
Rows = tuple[np.ndarray, np.ndarray]


def read(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of stored features, as float32."""
    path = folder / "features" / f"{name}.npz"
    if not path.exists():
        raise MissingDataError(f"{path} is not there; point VOLTA_DATA at the folder that has features/{name}.npz")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key].astype(np.float32) if key.endswith("_x") else file[key] for key in file.files}


def clinc150(folder: Path) -> Task:
    """Sentence vectors of 150 intents; near OOD: real questions that belong to none."""
    rows, outside = read(folder, "clinc150"), read(folder, "clinc150-ood")
    parts = {part: (rows[f"{part}_x"], rows[f"{part}_y"]) for part in ("train", "val", "test")}
    return Task.from_arrays(**parts, ood={"oos": outside["oos_x"]}, near=["oos"], name="clinc150")


def cifar100_part(folder: Path, name: str, n_known: int) -> Task:
    """The first classes of CIFAR-100 as known ones; near OOD: test rows of the others."""
    rows, far = read(folder, "cifar100"), read(folder, "cifar100-ood")
    known, test_known = rows["train_y"] < n_known, rows["test_y"] < n_known
    return Task.from_arrays(
        (rows["train_x"][known], rows["train_y"][known]),
        (rows["test_x"][test_known], rows["test_y"][test_known]),
        ood={"other_classes": rows["test_x"][~test_known], "svhn": far["svhn_x"]},
        near=["other_classes"],
        name=name,
        encoder="vision",
    )


def idx(path: Path, header: int) -> np.ndarray:
    if not path.exists():
        raise MissingDataError(f"{path} is not there; name its folder with --fashion-mnist")
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


def fashion_mnist(folder: Path) -> Task:
    """Pixels of classes 0-7; near OOD: bags and ankle boots; far OOD: uniform noise."""
    parts: dict[str, Rows] = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = idx(folder / f"{prefix}-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32)
        parts[part] = images, idx(folder / f"{prefix}-labels-idx1-ubyte.gz", 8).astype(np.int64)
    images, labels = (values[:FASHION_ROWS] for values in parts["train"])
    known, test_known = labels < 8, parts["test"][1] < 8
    noise = np.random.default_rng(17).uniform(0.0, 255.0, (2000, 784)).astype(np.float32)
    return Task.from_arrays(
        (images[known], labels[known]),
        (parts["test"][0][test_known], parts["test"][1][test_known]),
        ood={"classes_8_9": parts["test"][0][~test_known], "uniform_noise": noise},
        near=["classes_8_9"],
        name="fashion_mnist",
    )


def moved(rows: np.ndarray) -> np.ndarray:
    """Return rows that lie ten standard deviations away in every column."""
    return rows + 10.0 * rows.std(axis=0)


def wine() -> Task:
    rows, labels = datasets.load_wine(return_X_y=True)
    known = labels < 2
    ood = {"class_2": rows[~known], "moved": moved(rows[known])}
    return Task.from_arrays((rows[known], labels[known]), ood=ood, near=["class_2"], name="wine")


def breast_cancer() -> Task:
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    shuffled = np.random.default_rng(17).permuted(rows, axis=0)
    return Task.from_arrays((rows, labels), ood={"moved": moved(rows), "shuffled": shuffled}, name="breast_cancer")


def synthetic() -> Task:
    rows, labels = datasets.make_classification(
        10_000, 40, n_informative=20, n_classes=12, n_clusters_per_class=2, random_state=17
    )
    known = labels < 10
    ood = {"classes_10_11": rows[~known], "moved": moved(rows[known])}
    return Task.from_arrays((rows[known], labels[known]), ood=ood, near=["classes_10_11"], name="synthetic")


def held_out(data: Path, fashion: Path) -> dict[str, Callable[[], Task]]:
    """Return the tasks that nothing was chosen on, by name."""
    return {
        "cifar100_half": lambda: cifar100_part(data, "cifar100_half", 50),
        "cifar100_first20": lambda: cifar100_part(data, "cifar100_first20", 20),
        "fashion_mnist": lambda: fashion_mnist(fashion),
        "wine": wine,
        "breast_cancer": breast_cancer,
        "synthetic": synthetic,
    }


def stored(data: Path) -> dict[str, Callable[[], str | Task]]:
    """Return the tasks whose features are stored, by name."""

    def package_task(name: str) -> str:
        definition = find_task(name)
        if definition.features is not None and not definition.features.is_there(data):
            raise MissingDataError(f"{name} has no features in {data}; set VOLTA_DATA")
        return name

    found: dict[str, Callable[[], str | Task]] = {name: lambda name=name: package_task(name) for name in STORED}
    return found | {"clinc150": lambda: clinc150(data)}


def there(wanted: list[str], known: dict[str, Callable[[], str | Task]]) -> Iterator[str | Task]:
    for name in wanted:
        if name not in known:
            raise SystemExit(f"there is no task {name!r}; the tasks are: {', '.join(known)}")
        try:
            yield known[name]()
        except MissingDataError as error:
            print(f"left out: {error}")


def print_table(run: volta.Run, task: str) -> None:
    """Print mean ± standard deviation over seeds, a line a method; the best mean of each column is bold."""
    results = run.results().where(task=task)
    values: dict[tuple[str, str], list[float]] = {}
    for column, (part, _) in COLUMNS.items():
        metric = "auroc" if column.endswith("AUROC") else column
        for row in results.where(set=part, metric=metric):
            values.setdefault((row["method"], column), []).append(row["value"])
    print(f"\n{task}, n = {len(run.seeds)} seeds\n\n| method | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    best = {
        column: (max if higher else min)(
            (mean(found) for (_, name), found in values.items() if name == column), default=None
        )
        for column, (_, higher) in COLUMNS.items()
    }
    for method in run.methods:
        cells = [cell(values.get((method, column), []), best[column]) for column in COLUMNS]
        print(f"| `{method}` | {' | '.join(cells)} |")


def cell(found: list[float], best: float | None) -> str:
    if not found:
        return "–"
    text = f"{mean(found):.4f}" + (f" ± {stdev(found):.4f}" if len(found) > 1 else "")
    return f"**{text}**" if mean(found) == best else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=None, help="names, separated by commas; all unless given")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--fashion-mnist", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    options = parser.parse_args()
    data = data_root(None)
    known = held_out(data, options.fashion_mnist) if options.held_out else stored(data)
    tasks = list(there(options.tasks.split(",") if options.tasks else list(known), known))
    out = options.out or Path("runs") / ("heads-held-out" if options.held_out else "heads")
    run = volta.benchmark(tasks, options.methods, options.seeds, out=out, executor="local", threads=1)
    for task in run.tasks:
        print_table(run, task)


if __name__ == "__main__":
    main()
