"""Records and stores made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.records import make_manifest, make_record
from volta.bench.cell_metrics import EvalSet
from volta.bench.records import Cell, CellRecord
from volta.bench.store import RunStore
from volta.stats.bootstrap import Bootstrap
from volta.stats.results import Results, group_records


def record(
    method: str,
    seed: int,
    metrics: dict[str, dict[str, float]],
    *,
    task: str = "digits",
    protocol: str = "fair",
    origin: str | None = None,
    near: tuple[str, ...] = (),
) -> CellRecord:
    own = origin or ("volta" if method == "volta" else "ablation" if method.startswith("volta-") else "paper")
    cell = Cell(task, protocol, method, seed, "0123456789abcdef")
    near_ood = tuple(EvalSet(f"ood:{name}") for name in near)
    return make_record(cell, metrics, title=method.upper(), origin=own, near_ood=near_ood)


def table(values: dict[str, dict[str, list[float]]], **keywords: Any) -> Results:
    """Make a table from method → metric → per-seed values; AUROC goes to ood:near."""
    records = []
    for method, metrics in values.items():
        for index in range(max(len(column) for column in metrics.values())):
            sets: dict[str, dict[str, float]] = {}
            for metric, column in metrics.items():
                if index < len(column):
                    sets.setdefault("ood:near" if metric == "auroc" else "test", {})[metric] = column[index]
            records.append(record(method, index, sets, **keywords))
    return group_records(records)[0]


def five(accuracy: list[float], ece: list[float], **others: list[float]) -> dict[str, list[float]]:
    """Fill the five tested metrics from accuracy and ECE."""
    filled = {
        "accuracy": accuracy,
        "ece": ece,
        "brier": [2 * (1 - value) for value in accuracy],
        "nll": [3 * (1 - value) for value in accuracy],
        "auroc": accuracy,
        "aurc": [(1 - value) ** 2 for value in accuracy],
    }
    return filled | others


def predictions(generator: np.random.Generator, labels: np.ndarray, skill: float, n_classes: int = 4) -> dict[str, Any]:
    logits = generator.normal(size=(len(labels), n_classes))
    logits[np.arange(len(labels)), labels] += skill
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    outside = generator.normal(size=(150, n_classes))
    outside = np.exp(outside) / np.exp(outside).sum(axis=1, keepdims=True)
    uncertainty = 1 - probs.max(axis=1)
    return {
        "test/labels": labels,
        "test/probs": probs,
        "test/uncertainty": uncertainty,
        "test/ood_score": uncertainty,
        "ood:near/ood_score": 1 - outside.max(axis=1),
    }


def make_store(folder: Path, skills: dict[str, float], seeds: tuple[int, ...] = (42, 123, 456)) -> RunStore:
    """Write a run folder with one cell a method and seed, metrics computed from the stored arrays."""
    from volta.metrics import report

    store = RunStore(folder)
    store.create()
    labels = np.random.default_rng(0).integers(0, 4, 200)
    cells = []
    for method, skill in skills.items():
        for seed in seeds:
            generator = np.random.default_rng([seed, int(100 * skill)])
            arrays = predictions(generator, labels, skill + generator.normal() / 10)
            metrics = report(
                arrays["test/probs"],
                labels,
                arrays["test/uncertainty"],
                ood={"near": arrays["ood:near/ood_score"]},
                id_ood_score=arrays["test/ood_score"],
            )
            metrics["shift:blur-1"] = metrics["test"]
            one = record(method, seed, metrics, near=("near",))
            store.write_cell(one, arrays)
            cells.append(one.cell)
    store.write_manifest(make_manifest(cells))
    return store


def interval_of(found: Bootstrap, *of: str) -> tuple[float, float] | None:
    """Return the interval of the difference of two methods: metric, set, first, second."""
    rows = found.row_spread(*of)
    return None if rows is None else rows.interval
