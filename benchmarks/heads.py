"""Heads on frozen features: accuracy, NLL, ECE, AURC, near and far AUROC of methods, on every stored task in one run.

    VOLTA_DATA=DIR python benchmarks/heads.py [--tasks cifar10,digits] [--methods volta,knn] [--seeds 3] [--table FILE]
    VOLTA_DATA=DIR python benchmarks/heads.py --held-out [--fashion-mnist FOLDER]
    python benchmarks/heads.py --print

Rows of the table file are not measured again, but for methods named with --again; new ones are added as each task ends,
with commit and processor. Methods that share a network train it once. Tasks whose files are not there are named and
left out. `--held-out` runs the tasks of docs/volta-plus.md on which nothing was chosen; Fashion-MNIST comes from the
files of Debian's package dataset-fashion-mnist. All that the table file holds is printed in the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import volta
from head_table import METHODS, STORED, add, missing, read_table, tables_of, write_table
from head_tasks import clinc150, held_out
from volta import Task
from volta.bench.store import RunStore
from volta.core.errors import MissingDataError
from volta.core.seeding import first_seeds
from volta.data import find_task
from volta.data.task import data_root

Makers = dict[str, Callable[[], str | Task]]


def stored(data: Path) -> Makers:
    """Return the tasks whose features are stored, by name."""

    def package_task(name: str) -> str:
        definition = find_task(name)
        if definition.features is not None and not definition.features.is_there(data):
            raise MissingDataError(f"{name} has no features in {data}; set VOLTA_DATA")
        return name

    found: Makers = {name: lambda name=name: package_task(name) for name in STORED}
    return found | {"clinc150": lambda: clinc150(data)}


def there(wanted: list[str], known: Makers) -> Iterator[tuple[str, str | Task]]:
    for name in wanted:
        if name not in known:
            raise SystemExit(f"there is no task {name!r}; the tasks are: {', '.join(known)}")
        try:
            yield name, known[name]()
        except MissingDataError as error:
            print(f"left out: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=None, help="names, separated by commas; all unless given")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--again", default="", help="methods to measure although the table file has them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/heads"), help="run folders: networks and predictions")
    parser.add_argument("--table", type=Path, default=Path("heads.csv"), help="table file")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--fashion-mnist", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--print", action="store_true", help="measure nothing, print the table file")
    options = parser.parse_args()
    table = read_table(options.table)
    if not options.print:
        data, seeds, again = data_root(None), first_seeds(options.seeds), options.again.split(",")
        known = held_out(data, options.fashion_mnist) if options.held_out else stored(data)
        for name, task in there(options.tasks.split(",") if options.tasks else list(known), known):
            methods = missing(table, name, options.methods.split(","), seeds, again)
            if methods:
                volta.benchmark(task, methods, seeds, out=options.out / name, executor="local", threads=1)
                table = add(table, RunStore(options.out / name).records(), name, methods, seeds)
                write_table(options.table, table)
    print("", *tables_of(table), sep="\n")


if __name__ == "__main__":
    main()
