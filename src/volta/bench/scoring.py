"""Metrics of a cell from its stored arrays alone; nothing is trained or predicted, and torch is not needed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from volta.bench.eval_set import TEST, EvalSet
from volta.core.types import Array
from volta.metrics import FlooredProbabilityWarning, nll_floored_rows, report


def metrics_of(arrays: Mapping[str, Array]) -> tuple[dict[EvalSet, dict[str, float]], dict[EvalSet, int]]:
    """Return metrics by set, and how many rows of each set had their true-class probability floored in NLL."""
    metrics: dict[EvalSet, dict[str, float]] = {}
    floored: dict[EvalSet, int] = {}
    by_set: dict[EvalSet, dict[str, Array]] = {}
    for key, values in arrays.items():
        name, _, kind = key.rpartition("/")
        by_set.setdefault(EvalSet.parse(name), {})[kind] = values
    ood_scores = {eval_set.name: part["ood_score"] for eval_set, part in by_set.items() if eval_set.kind == "ood"}
    for eval_set, part in by_set.items():
        if "probs" not in part:
            continue
        labels = part["labels"].astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlooredProbabilityWarning)
            found = report(
                part["probs"],
                labels,
                part["uncertainty"],
                ood=ood_scores if eval_set == TEST else {},
                id_ood_score=part.get("ood_score"),
                sets=part.get("sets"),
            )
        metrics[eval_set] = found.pop("test")
        metrics |= {EvalSet.parse(name): values for name, values in found.items()}
        floored[eval_set] = nll_floored_rows(part["probs"], labels)
    return metrics, {eval_set: count for eval_set, count in floored.items() if count}
