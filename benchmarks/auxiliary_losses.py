"""Does an auxiliary loss help VOLTA at any weight? Each alone on top of `volta`, its weight chosen on validation rows.

    VOLTA_DATA=DIR python benchmarks/auxiliary_losses.py --task cifar10 --seeds 3 --out runs/cifar10-auxiliary

Every loss of the ablation runs with every weight of the grid. The weight with the lowest NLL of validation rows, mean
over seeds, is chosen; test rows take no part. Each weight is then compared with `volta`: paired over seeds and test
rows, with Holm's correction over the chosen four. The run folder resumes; --table adds the rows to a CSV file.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import fmean

import numpy as np

import volta
from volta.bench.cell_metrics import VAL
from volta.bench.store import RunStore
from volta.stats.bootstrap import bootstrap_tables
from volta.stats.comparisons import PairTest, compare_pair, verdict_on
from volta.stats.results import load_tables
from volta.stats.tests import MARGINS, holm

LOSSES = ("margin", "reconstruction", "diversity", "contrastive")
WEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0)
METRICS = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("brier", "test"), ("auroc", "near:"))
COLUMNS = (
    *("task", "loss", "weight", "chosen", "n", "val_nll", "metric", "set", "volta", "mean", "gain"),
    *("low", "high", "margin", "p_holm", "verdict"),
)


def name_of(loss: str, weight: float) -> str:
    return f"volta({loss}={weight!r})"


def val_nll(store: RunStore) -> dict[str, float]:
    """Return every method's NLL of validation rows, mean over seeds."""
    found: dict[str, list[float]] = {}
    for cell in (cell for cell in store.cells() if store.is_done(cell)):
        arrays = store.read_arrays(cell, (f"{VAL}/probs", f"{VAL}/labels"))
        probs, labels = arrays[f"{VAL}/probs"], arrays[f"{VAL}/labels"]
        found.setdefault(cell.method, []).append(float(-np.log(probs[np.arange(len(labels)), labels]).mean()))
    return {method: fmean(values) for method, values in found.items()}


def rows_of(store: RunStore, weights: tuple[float, ...]) -> list[dict[str, object]]:
    """Return a row for each loss, weight and metric, with verdicts on the chosen weights."""
    (table,) = load_tables(store)
    source = bootstrap_tables(store, [table], 1000)[table.task, table.protocol]
    nll = val_nll(store)
    chosen = {loss: min(weights, key=lambda weight: nll[name_of(loss, weight)]) for loss in LOSSES}
    rows: list[dict[str, object]] = []
    for metric, where in METRICS:
        tests = {
            (loss, weight): compare_pair(table, name_of(loss, weight), "volta", metric, where, source)
            for loss in LOSSES
            for weight in weights
        }
        taken = [(loss, chosen[loss]) for loss in LOSSES]
        p_holm = dict(zip(taken, holm([tests[key].p for key in taken]), strict=True))
        p_same = dict(zip(taken, holm([tests[key].p_equivalent for key in taken]), strict=True))
        for key, test in tests.items():
            verdict = verdict_on(test, p_holm[key], p_same[key]) if key in taken else ""
            rows.append(row_of(table.task, key, nll, test, p_holm.get(key), verdict))
    return rows


def row_of(
    task: str, key: tuple[str, float], nll: dict[str, float], test: PairTest, p_holm: float | None, verdict: str
) -> dict[str, object]:
    low, high = (None, None) if test.gain is None else test.gain.interval(0.05)
    gain = None if test.gain is None else test.gain.value
    means = [None if sample is None else sample.mean for sample in (test.second_sample, test.first_sample)]
    values = (
        *(task, *key, "yes" if verdict else "", test.n, nll[name_of(*key)], test.metric, test.set, *means, gain),
        *(low, high, MARGINS[test.metric], p_holm, verdict),
    )
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weights", default=",".join(map(str, WEIGHTS)))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks-of", type=Path)
    parser.add_argument("--table", type=Path, help="CSV file that the rows are added to")
    arguments = parser.parse_args()
    weights = tuple(float(part) for part in arguments.weights.split(","))
    grid = [name_of(loss, weight) for loss in LOSSES for weight in weights]
    volta.benchmark(
        arguments.task,
        ["volta", *grid],
        arguments.seeds,
        out=arguments.out,
        shifts="none",
        networks_of=arguments.networks_of,
    )
    rows = rows_of(RunStore(arguments.out), weights)
    for row in rows:
        if row["chosen"]:
            print(*(f"{value:.4f}" if isinstance(value, float) else value for value in row.values()))
    if arguments.table:
        with arguments.table.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
