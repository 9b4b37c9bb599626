"""Metrics of a cell from its stored arrays alone; nothing is trained or predicted, and torch is not needed."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping

import numpy as np

from volta.bench.eval_set import TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP, VAL, EvalSet
from volta.bench.temperature import tempered_probs
from volta.core.types import Array
from volta.methods.scores import one_minus_max
from volta.metrics import METRICS, FlooredProbabilityWarning, nll_floored_rows, report

Values = dict[str, float]


def metrics_of(arrays: Mapping[str, Array], near: Collection[str]) -> tuple[dict[EvalSet, Values], dict[EvalSet, int]]:
    """Return metrics by set, and how many rows of each set had their true-class probability floored in NLL.

    ``near`` names the OOD sets that are near; the means over those and over all others are sets of their own. The test
    rows are also scored after one temperature and by 1 − max p, as far as a metric can differ there.
    """
    metrics: dict[EvalSet, Values] = {}
    floored: dict[EvalSet, int] = {}
    by_set: dict[EvalSet, dict[str, Array]] = {}
    for key, values in arrays.items():
        name, _, kind = key.rpartition("/")
        if name != VAL:
            by_set.setdefault(EvalSet.parse(name), {})[kind] = values
    ood_scores = {eval_set.name: part["ood_score"] for eval_set, part in by_set.items() if eval_set.kind == "ood"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlooredProbabilityWarning)
        for eval_set, part in by_set.items():
            if "probs" not in part:
                continue
            labels = part["labels"].astype(np.int64)
            found = report(
                part["probs"],
                labels,
                part["uncertainty"],
                ood=ood_scores if eval_set == TEST else {},
                id_ood_score=part.get("ood_score"),
                sets=part.get("sets"),
                near=[name for name in near if name in ood_scores] if eval_set == TEST else None,
            )
            metrics[eval_set] = found.pop("test")
            if eval_set == TEST:
                metrics |= _variants(part, labels, tempered_probs(arrays))
            metrics |= {EvalSet.parse(name): values for name, values in found.items()}
            floored[eval_set] = nll_floored_rows(part["probs"], labels)
    return metrics, {eval_set: count for eval_set, count in floored.items() if count}


def _variants(part: Mapping[str, Array], labels: Array, tempered: Array | None) -> dict[EvalSet, Values]:
    read_as = {TEST_AFTER_TEMPERATURE: tempered, TEST_BY_MSP: part["probs"]}
    return {variant: _only(variant, probs, labels) for variant, probs in read_as.items() if probs is not None}


def _only(variant: EvalSet, probs: Array, labels: Array) -> Values:
    names = [name for name, metric in METRICS.items() if str(variant) in metric.variants]
    return report(probs, labels, one_minus_max(probs), only=names)["test"]
