"""The table file of `benchmarks/heads.py`: a row per task, method, seed, set and metric; and how it is printed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

from volta.bench.records import CellRecord
from volta.core.files import write_text

METHODS = ("volta", "temperature", "ensemble", "energy", "knn", "vim", "volta_plus")
STORED = ("cifar10", "cifar100", "tinyimagenet", "clinc150", "digits")
FIELDS = ("task", "method", "seed", "set", "metric", "value", "commit", "processor")
MEASURES = {
    "accuracy": ("accuracy", "test", True),
    "NLL": ("nll", "test", False),
    "ECE": ("ece", "test", False),
    "AURC": ("aurc", "test", False),
    "near AUROC": ("auroc", "near:", True),
    "far AUROC": ("auroc", "far:", True),
}
EXPECTED_HIGH = ("ece_expected_high", "test")
COMPARED = ("knn", "vim", "volta_plus")
DECIMALS = {"NLL": 3, "ECE": 4, "near AUROC": 3, "far AUROC": 3}
Rows = list[dict[str, str]]
Values = dict[tuple[str, str], list[float]]
"""(task, method) → a value a seed."""


def read_table(path: Path) -> Rows:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, table: Rows) -> None:
    lines = [FIELDS, *(tuple(row[field] for field in FIELDS) for row in table)]
    write_text(path, "".join(",".join(line) + "\n" for line in lines))


def missing(table: Rows, task: str, methods: list[str], seeds: Sequence[int], again: list[str]) -> list[str]:
    """Return the methods of which the table lacks a seed on the task, and those that are to be measured again."""
    known = {(row["method"], int(row["seed"])) for row in table if row["task"] == task}
    return [one for one in methods if one in again or not {(one, seed) for seed in seeds} <= known]


def add(table: Rows, records: Iterable[CellRecord], task: str, methods: list[str], seeds: Sequence[int]) -> Rows:
    """Return the table with the records' values in place of what it had of the same task, methods and seeds."""
    wanted = {(metric, where) for metric, where, _ in MEASURES.values()} | {EXPECTED_HIGH}
    new = [
        {
            "task": task,
            "method": record.cell.method,
            "seed": str(record.cell.seed),
            "set": str(where),
            "metric": metric,
            "value": f"{value:.6g}",
            "commit": (record.environment.commit or "")[:7],
            "processor": record.environment.cpu.replace(",", " "),
        }
        for record in records
        if (record.cell.task, record.cell.method in methods, record.cell.seed in seeds) == (task, True, True)
        for where, values in record.metrics.items()
        for metric, value in values.items()
        if (metric, str(where)) in wanted or (metric == "auroc" and str(where).startswith("ood:"))
    ]
    replaced = {(row["task"], row["method"], row["seed"]) for row in new}
    kept = [row for row in table if (row["task"], row["method"], row["seed"]) not in replaced]
    return sorted(kept + new, key=lambda row: tuple(row[field] for field in FIELDS[:5]))


def values_of(table: Rows, metric: str, where: str) -> Values:
    found: Values = {}
    for row in table:
        if (row["metric"], row["set"]) == (metric, where):
            found.setdefault((row["task"], row["method"]), []).append(float(row["value"]))
    return found


def tables_of(table: Rows) -> list[str]:
    """Return a Markdown table for each measure, stored tasks on top, one of each OOD set, and a line about the runs."""
    names = dict.fromkeys(row["task"] for row in table)
    tasks = [*(task for task in STORED if task in names), *(task for task in names if task not in STORED)]
    return [*(_measure(table, title, tasks) for title in MEASURES), _ood_sets(table, tasks), _made(table, tasks)]


def _measure(table: Rows, title: str, tasks: list[str]) -> str:
    metric, where, higher = MEASURES[title]
    values, expected = values_of(table, metric, where), values_of(table, *EXPECTED_HIGH)
    head = [f"`{method}`" for method in METHODS]
    lines = []
    for task in (task for task in tasks if any(task == of for of, _ in values)):
        found = {method: values.get((task, method), []) for method in METHODS}
        cells = shown(found, higher=higher, decimals=DECIMALS.get(title, 4))
        if title == "ECE":
            cells.append(f"{mean(expected[task, 'volta_plus']):.4f}" if (task, "volta_plus") in expected else "–")
        lines.append([task, *cells])
    lines.append(_means(values, higher=higher, decimals=DECIMALS.get(title, 4)) + [""] * (title == "ECE"))
    return markdown([title, *head, *(["`volta_plus` by chance, at most"] if title == "ECE" else [])], lines)


def _means(values: Values, *, higher: bool, decimals: int) -> list[str]:
    """Return the line of means over the tasks that every method has, each task counting alike."""
    tasks = {task for task, _ in values}
    shared = [task for task in tasks if all((task, method) in values for method in METHODS)]
    found = {method: [mean(mean(values[task, method]) for task in shared)] for method in METHODS} if shared else {}
    return [f"*mean of {len(shared)}*", *shown(found, higher=higher, decimals=decimals)]


def _ood_sets(table: Rows, tasks: list[str]) -> str:
    """Return how volta_plus stands to the better of knn and vim on each OOD set."""
    lines = []
    for task in tasks:
        for where in dict.fromkeys(
            row["set"] for row in table if row["task"] == task and row["set"].startswith("ood:")
        ):
            values = values_of(table, "auroc", where)
            means = [mean(values[task, name]) for name in COMPARED if (task, name) in values]
            if len(means) == len(COMPARED):
                figures = [f"{one:.3f}" for one in means]
                lines.append([f"{task} / {where.removeprefix('ood:')}", *figures, f"{means[-1] - max(means[:2]):+.3f}"])
    return markdown(["known / OOD, AUROC", *(f"`{name}`" for name in COMPARED), "less the better of both"], lines)


def _made(table: Rows, tasks: list[str]) -> str:
    seeds: dict[int, list[str]] = {}
    for task in tasks:
        seeds.setdefault(len({row["seed"] for row in table if row["task"] == task}), []).append(task)
    counts = "; ".join(f"n = {n} seed{'s' if n > 1 else ''}: {', '.join(of)}" for n, of in sorted(seeds.items()))
    commits = ", ".join(sorted({row["commit"] for row in table}))
    return f"{counts}. Commits {commits}; {'; '.join(sorted({row['processor'] for row in table}))}, one thread.\n"


def markdown(head: list[str], lines: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines])


def shown(values: dict[str, list[float]], *, higher: bool, decimals: int) -> list[str]:
    """Return means, with deviations where there are several seeds; the best mean is bold where there are others."""
    means = {method: mean(found) for method, found in values.items() if found}
    best = (max if higher else min)(means.values()) if len(means) > 1 else None
    cells = []
    for method, found in values.items():
        text = f"{means[method]:.{decimals}f}" if found else "–"
        text += f" ± {stdev(found):.{decimals}f}" if len(found) > 1 else ""
        cells.append(f"**{text}**" if found and means[method] == best else text)
    return cells
