"""Every metric of one prediction in one call."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, check_same_length, check_scores, check_sets
from volta.core.errors import InputError
from volta.core.types import Array
from volta.metrics.detection import SortedScores
from volta.metrics.metric import OOD, PROBS, SELECTIVE
from volta.metrics.rows import paired
from volta.metrics.scan import ProbabilityScan, scan_probabilities
from volta.metrics.selective import RiskSteps, steps_of
from volta.metrics.table import METRICS


def report(
    probs: ArrayLike,
    labels: ArrayLike,
    uncertainty: ArrayLike,
    ood: Mapping[str, ArrayLike] | None = None,
    id_ood_score: ArrayLike | None = None,
    sets: ArrayLike | None = None,
) -> dict[str, dict[str, float]]:
    """Compute every metric of predictions, sharing one pass over `probs` and one sort of each score.

    Returns {"test": {metric: value}, "ood:NAME": {metric: value}, …}, the names and their order being those of
    `METRICS`. A metric with a `shared` form is computed from that pass or those sorts, any other by its function.

    probs: (n_samples, n_classes); labels: (n_samples,); uncertainty: (n_samples,), higher = less certain.
    ood: name → scores of the rows of that OOD set, (n_ood,), higher = more OOD.
    id_ood_score: the same score for the test rows, (n_samples,); `uncertainty` if not given.
    sets: (n_samples, n_classes) booleans; without them the conformal metrics are left out.
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
    scan = scan_probabilities(array, checked)
    arguments["correct"] = correct = scan.rows.correct
    test = _shared_values(PROBS, scan)
    # The per-row floats are not needed any more, and the sorts below set the peak of memory.
    del scan
    ordered = np.sort(scores)
    test |= _shared_values(SELECTIVE, steps_of(ordered, scores, correct))
    test |= _plain_values(arguments)
    result = {"test": _in_order(test)}
    if ood_scores:
        id_ordered = ordered if id_ood_score is None else np.sort(id_scores)
        for name, values in ood_scores.items():
            found = _shared_values(OOD, SortedScores(id_ordered, np.sort(values)))
            found |= _plain_values(arguments | {"ood_scores": values})
            result[f"ood:{name}"] = _in_order(found)
    return result


def _shared_values(needs: tuple[str, ...], source: ProbabilityScan | RiskSteps | SortedScores) -> dict[str, float]:
    values = {}
    # A loop and not a comprehension, whose frame a warning about floored rows would have to know of.
    for name, metric in METRICS.items():
        if metric.shared is not None and metric.needs == needs:
            values[name] = metric.shared(source)
    return values


def _plain_values(arguments: Mapping[str, Array]) -> dict[str, float]:
    return {
        name: float(metric.function(*(arguments[need] for need in metric.needs)))
        for name, metric in METRICS.items()
        if metric.shared is None
        and metric.function is not None
        and metric.on_ood_sets == ("ood_scores" in arguments)
        and all(need in arguments for need in metric.needs)
    }


def _in_order(values: Mapping[str, float]) -> dict[str, float]:
    return {name: values[name] for name in METRICS if name in values}


def _checked_sets(sets: ArrayLike, probs: Floats) -> NDArray[np.bool_]:
    members = check_sets(sets)
    check_same_length(probs=probs, sets=members)
    if members.shape[1] != probs.shape[1]:
        raise InputError(f"sets has {members.shape[1]} classes but probs has {probs.shape[1]}; pass one column a class")
    return members
