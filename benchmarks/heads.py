"""Heads on frozen features: accuracy, NLL, ECE, AURC, near and far AUROC of methods, on every stored task in one run.

    VOLTA_DATA=DIR python benchmarks/heads.py [--tasks cifar10,digits] [--methods volta,knn] [--seeds 3] [--out DIR]
    VOLTA_DATA=DIR python benchmarks/heads.py --held-out [--fashion-mnist FOLDER]

Tasks whose files are not there are named and left out. Results are kept in the run folder, and what is there with the
same data and code is not run again. `--held-out` runs the tasks of docs/volta-plus.md on which nothing was chosen;
Fashion-MNIST comes from the files of Debian's package dataset-fashion-mnist.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev

import volta
from head_tasks import clinc150, held_out
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


def print_sets(run: volta.Run, task: str) -> None:
    """Print the mean AUROC of each OOD set, and by how much volta_plus is above the better of knn and vim."""
    values: dict[str, dict[str, list[float]]] = {}
    for row in run.results().where(task=task, metric="auroc"):
        if row["set"].startswith("ood:"):
            values.setdefault(row["set"].removeprefix("ood:"), {}).setdefault(row["method"], []).append(row["value"])
    compared = {"volta_plus", "knn", "vim"} <= set(run.methods)
    head = [*(f"`{method}`" for method in run.methods), *(["less the better of `knn` and `vim`"] if compared else [])]
    print(f"\n| {task}, AUROC of | {' | '.join(head)} |\n|---|{'---|' * len(head)}")
    for name, found in values.items():
        means = {method: mean(found[method]) for method in run.methods}
        cells = [f"{means[method]:.4f}" for method in run.methods]
        if compared:
            cells.append(f"{means['volta_plus'] - max(means['knn'], means['vim']):+.4f}")
        print(f"| {name} | {' | '.join(cells)} |")


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
        print_sets(run, task)


if __name__ == "__main__":
    main()
