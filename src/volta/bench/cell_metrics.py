"""Metrics of a cell from its stored arrays alone."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.methods.scores import one_minus_max, softmax
from volta.methods.temperature import CalibrationWarning, fit_temperature
from volta.metrics import METRICS, FlooredProbabilityWarning, nll_floored_rows, report

Kind: TypeAlias = Literal["test", "ood", "shift", "near", "far"]
Variant: TypeAlias = Literal["", "T", "msp"]


class EvalSet(str):
    """The name of a set that metrics are computed on, with its parts.

    Either the test set, an OOD set, the test set under a shift, or the mean over all near or all far OOD sets:
    ``test``, ``ood:NAME``, ``shift:NAME-SEVERITY`` (``shift:NAME`` for a shift without a severity), ``near:`` and
    ``far:``. The test set has two variants: ``test+T``, after one temperature fitted to the method's own validation
    predictions, and ``test+msp``, with 1 − max p in place of the method's own uncertainty.

    >>> blur = EvalSet("shift:blur-3")
    >>> blur.kind, blur.name, blur.severity
    ('shift', 'blur', 3)
    """

    kind: Kind
    name: str
    severity: int | None
    variant: Variant

    def __new__(cls, text: str) -> EvalSet:  # noqa: D102
        kind, _, name = text.partition(":")
        severity, variant = None, ""
        if text in ("test", "test+T", "test+msp"):
            kind, _, variant = text.partition("+")
        elif kind == "shift" and name:
            stem, _, tail = name.rpartition("-")
            # Only a severity as it would be written back: "fog-03" is a name, so that no two names are one set.
            if stem and tail.isdecimal() and str(int(tail)) == tail:
                name, severity = stem, int(tail)
        elif not (kind == "ood" and name) and text not in ("near:", "far:"):
            raise InputError(
                f"{text!r} names no set; expected test, test+T, test+msp, near:, far:, ood:NAME, shift:NAME-SEVERITY "
                "or shift:NAME"
            )
        eval_set = super().__new__(cls, text)
        eval_set.kind, eval_set.variant = cast(Kind, kind), cast(Variant, variant)
        eval_set.name, eval_set.severity = name, severity
        return eval_set


VAL = "val"
"""The stored name of the validation rows; predictions on them are kept, but no metric is taken on them."""

TEST = EvalSet("test")
TEST_AFTER_TEMPERATURE = EvalSet("test+T")
TEST_BY_MSP = EvalSet("test+msp")
NEAR, FAR = EvalSet("near:"), EvalSet("far:")
VAL_PROBS, TEST_PROBS = f"{VAL}/probs", f"{TEST}/probs"


def tempered_probs(arrays: Mapping[str, Array]) -> NDArray[np.float64] | None:
    """Return the test probabilities p^(1/T), renormalised, with the T that minimises NLL on the validation rows.

    Where no finite T > 0 is best (every validation row right, say), T is 1. None where no validation predictions are
    stored, as in runs of an earlier version.
    """
    if VAL_PROBS not in arrays or TEST_PROBS not in arrays:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        beta = fit_temperature(_log(arrays[VAL_PROBS]), arrays[f"{VAL}/labels"].astype(np.int64))
    return softmax(_log(arrays[TEST_PROBS]), beta)


def _log(probs: Array) -> NDArray[np.float64]:
    floored = np.maximum(probs, np.finfo(np.float64).tiny)
    return np.asarray(np.log(floored), dtype=np.float64)


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
            by_set.setdefault(EvalSet(name), {})[kind] = values
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
            metrics |= {EvalSet(name): values for name, values in found.items()}
            floored[eval_set] = nll_floored_rows(part["probs"], labels)
    return metrics, {eval_set: count for eval_set, count in floored.items() if count}


def _variants(part: Mapping[str, Array], labels: Array, tempered: Array | None) -> dict[EvalSet, Values]:
    read_as = {TEST_AFTER_TEMPERATURE: tempered, TEST_BY_MSP: part["probs"]}
    return {variant: _only(variant, probs, labels) for variant, probs in read_as.items() if probs is not None}


def _only(variant: EvalSet, probs: Array, labels: Array) -> Values:
    names = [name for name, metric in METRICS.items() if variant in metric.variants]
    return report(probs, labels, one_minus_max(probs), only=names)["test"]
