"""All metrics of one set of predictions in one call."""

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, check_same_length, check_scores, check_sets
from volta.core.errors import InputError
from volta.core.types import Array
from volta.metrics.bins import paired, scan_rows
from volta.metrics.ood import JointScores, SortedScores
from volta.metrics.selective import RiskSteps, steps_of
from volta.metrics.table import (
    CONFIDENCE,
    JOINT,
    METRICS,
    OOD,
    PROBS,
    SELECTIVE,
    Metric,
    ProbabilityScan,
    scan_probabilities,
)


def report(
    probs: ArrayLike,
    labels: ArrayLike,
    uncertainty: ArrayLike,
    ood: Mapping[str, ArrayLike] | None = None,
    id_ood_score: ArrayLike | None = None,
    sets: ArrayLike | None = None,
    *,
    near: Collection[str] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, dict[str, float]]:
    """Compute every metric of predictions, sharing one pass over `probs` and one sort of each score.

    Returns {"test": {metric: value}, "ood:NAME": {metric: value}, …}, the names and their order being those of
    `METRICS`. A metric with a `shared` form is computed from that pass or those sorts, any other by its function.
    With `near`, also "near:" and "far:": the mean of each metric over the OOD sets of that kind, if there are any.

    probs: (n_samples, n_classes); labels: (n_samples,); uncertainty: (n_samples,), higher = less certain.
    ood: name → scores of the rows of that OOD set, (n_ood,), higher = more OOD.
    id_ood_score: the same score for the test rows, (n_samples,); `uncertainty` if not given.
    sets: (n_samples, n_classes) booleans; without them the conformal metrics are left out.
    near: names of the OOD sets that are near; all others are far.
    only: names of the metrics to compute, instead of all.

    >>> probs = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
    >>> result = report(probs, [0, 1, 1], [0.1, 0.3, 0.4], ood={"svhn": [0.2, 0.6], "noise": [0.8]}, near=["svhn"])
    >>> list(result)
    ['test', 'ood:svhn', 'ood:noise', 'near:', 'far:']
    >>> round(result["test"]["brier"], 4), round(result["near:"]["auroc"], 4), result["far:"]["auroc"]
    (0.3067, 0.6667, 1.0)
    >>> report(probs, [0, 1, 1], [0.1, 0.3, 0.4], only=["aurc"])
    {'test': {'aurc': 0.1111111111111111}}
    """
    array, checked = paired(probs, labels)
    scores = check_scores(uncertainty, "uncertainty")
    check_same_length(probs=array, uncertainty=scores)
    id_scores = scores
    if id_ood_score is not None:
        id_scores = check_scores(id_ood_score, "id_ood_score")
        check_same_length(probs=array, id_ood_score=id_scores)
    arguments: dict[str, Array] = {"probs": array, "labels": checked, "uncertainty": scores, "id_scores": id_scores}
    if sets is not None:
        arguments["sets"] = _checked_sets(sets, array)
    ood_scores = {name: check_scores(values, f"ood[{name!r}]") for name, values in (ood or {}).items()}
    _check_names(near or (), ood_scores, "near", "OOD sets")
    _check_names(only or (), METRICS, "only", "metrics")
    wanted = [metric for name, metric in METRICS.items() if only is None or name in only]
    shared = {metric.needs for metric in wanted if metric.shared is not None}
    test: dict[str, float] = {}
    if shared & {PROBS, CONFIDENCE}:
        scan = scan_probabilities(array, checked)
        arguments["correct"] = correct = scan.rows.correct
        test |= _shared_values(wanted, PROBS, scan) | _shared_values(wanted, CONFIDENCE, scan)
        # The per-row floats are not needed any more, and the sorts below set the peak of memory.
        del scan
    else:
        arguments["correct"] = correct = scan_rows(array, checked).correct
    ordered = np.sort(scores)
    steps = steps_of(ordered, scores, correct)
    test |= _shared_values(wanted, SELECTIVE, steps)
    test |= _plain_values(wanted, arguments)
    result = {"test": _in_order(test)}
    if ood_scores:
        if id_ood_score is None:
            # Without the sums that the selective metrics have left in them.
            steps = RiskSteps(steps.ends, steps.errors)
        else:
            ordered = np.sort(id_scores)
            steps = steps_of(ordered, id_scores, correct)
        for name, values in ood_scores.items():
            merged = SortedScores(ordered, np.sort(values))
            found = _shared_values(wanted, OOD, merged) | _shared_values(wanted, JOINT, JointScores(steps, merged))
            found |= _plain_values(wanted, arguments | {"ood_scores": values})
            result[f"ood:{name}"] = _in_order(found)
    return result if near is None else result | _means(result, ood_scores, near)


def _means(
    result: Mapping[str, Mapping[str, float]], names: Iterable[str], near: Collection[str]
) -> dict[str, dict[str, float]]:
    """Return the mean of each metric over the near and over the far OOD sets, where there are any."""
    kinds: dict[str, list[Mapping[str, float]]] = {"near:": [], "far:": []}
    for name in names:
        kinds["near:" if name in near else "far:"].append(result[f"ood:{name}"])
    return {
        kind: {metric: math.fsum(values[metric] for values in found) / len(found) for metric in found[0]}
        for kind, found in kinds.items()
        if found
    }


def _shared_values(
    wanted: Iterable[Metric], needs: tuple[str, ...], source: ProbabilityScan | RiskSteps | SortedScores | JointScores
) -> dict[str, float]:
    values = {}
    # A loop and not a comprehension, whose frame a warning about floored rows would have to know of.
    for metric in wanted:
        if metric.shared is not None and metric.needs == needs:
            values[metric.name] = metric.shared(source)
    return values


def _plain_values(wanted: Iterable[Metric], arguments: Mapping[str, Array]) -> dict[str, float]:
    values = {
        metric.name: float(metric.function(*(arguments[need] for need in metric.needs)))
        for metric in wanted
        if metric.shared is None
        and metric.function is not None
        and metric.on_ood_sets == ("ood_scores" in arguments)
        and all(need in arguments for need in metric.needs)
    }
    for name, value in values.items():
        if not math.isfinite(value):
            raise InputError(f"the metric {name} gave {value}; it has to give a finite number")
    return values


def _in_order(values: Mapping[str, float]) -> dict[str, float]:
    return {name: values[name] for name in METRICS if name in values}


def _check_names(names: Collection[str], known: Collection[str], argument: str, what: str) -> None:
    if isinstance(names, str):
        raise InputError(f"{argument} is the string {names!r}; pass a list of names, [{names!r}]")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"{argument} holds {unknown[0]!r}; the {what} are: {', '.join(known) or 'none'}")


def _checked_sets(sets: ArrayLike, probs: Floats) -> NDArray[np.bool_]:
    members = check_sets(sets)
    check_same_length(probs=probs, sets=members)
    if members.shape[1] != probs.shape[1]:
        raise InputError(f"sets has {members.shape[1]} classes but probs has {probs.shape[1]}; pass one column a class")
    return members
