"""Metrics of a cell from its stored arrays alone; nothing is trained or predicted, and torch is not needed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from volta.bench.cells import COST_METRICS, Cell
from volta.bench.store import RunStore
from volta.core.types import Array
from volta.metrics import FlooredProbabilityWarning, nll_floored_rows, report

Metrics = dict[str, dict[str, float]]


def metrics_of(arrays: dict[str, Array]) -> tuple[Metrics, dict[str, int]]:
    """Return metrics by set name, and how many rows of each set had their true-class probability floored in NLL."""
    metrics: Metrics = {}
    floored: dict[str, int] = {}
    ood_scores = {
        key.removeprefix("ood:").removesuffix("/ood_score"): scores
        for key, scores in arrays.items()
        if key.startswith("ood:")
    }
    for name in [key.removesuffix("/probs") for key in arrays if key.endswith("/probs")]:
        part = {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")}
        labels = part["labels"].astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlooredProbabilityWarning)
            values = report(
                part["probs"],
                labels,
                part["uncertainty"],
                ood=ood_scores if name == "test" else {},
                id_ood_score=part.get("ood_score"),
                sets=part.get("sets"),
            )
        metrics[name] = values.pop("test")
        metrics |= values
        floored[name] = nll_floored_rows(part["probs"], labels)
    return metrics, {name: count for name, count in floored.items() if count}


def recompute(store: RunStore) -> list[Cell]:
    """Compute the metrics of every finished cell again from its predictions; return the cells whose values changed.

    What was measured while the cell ran (latency, size, memory, training time) is kept.
    """
    changed = []
    for cell in store.cells():
        if not store.is_done(cell):
            continue
        record = store.read_record(cell)
        metrics, floored = metrics_of(store.read_arrays(cell))
        metrics["test"] |= _measured(record)
        if metrics != record["metrics"] or floored != record["floored_rows"]:
            store.replace_record(cell, {**record, "metrics": metrics, "floored_rows": floored})
            changed.append(cell)
    return changed


def _measured(record: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record["metrics"]["test"].items() if name in COST_METRICS}
