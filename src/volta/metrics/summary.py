"""Every metric of one prediction in one call."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, check_same_length, check_scores, check_sets, checked_row_chunks
from volta.core.errors import InputError
from volta.metrics import calibration, conformal, selective
from volta.metrics.binning import N_BINS
from volta.metrics.brierscore import decompose
from volta.metrics.classbins import ClassBinCounter, ClassBins
from volta.metrics.detection import detection_of
from volta.metrics.rows import RowStatistics, empty_rows, fill_rows, paired
from volta.metrics.scoring import nll_of


def report(
    probs: ArrayLike,
    labels: ArrayLike,
    uncertainty: ArrayLike,
    ood: Mapping[str, ArrayLike] | None = None,
    id_ood_score: ArrayLike | None = None,
    sets: ArrayLike | None = None,
) -> dict[str, dict[str, float]]:
    """Compute every metric of predictions, sharing one pass over `probs` and one sort of each score.

    Returns {"test": {metric: value}, "ood:NAME": {metric: value}, …}, the names being those of `METRICS`.

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
    members = None if sets is None else _checked_sets(sets, array)
    ood_scores = {name: check_scores(values, f"ood[{name!r}]") for name, values in (ood or {}).items()}
    rows, classes = _scan(array, checked)
    correct = rows.correct
    test = {
        "accuracy": float(np.mean(correct)),
        "nll": nll_of(rows.true_prob),
        **_probability_metrics(rows, classes),
    }
    # The per-row floats are not needed any more, and the sorts below set the peak of memory.
    del rows, classes
    ordered = np.sort(scores)
    test |= _selective_metrics(selective.steps_of(ordered, scores, correct))
    if members is not None:
        test["coverage"] = conformal.coverage(members, checked)
        test["set_size"] = conformal.set_size(members)
        test["empty_sets"] = conformal.empty_sets(members)
    result = {"test": test}
    if ood_scores:
        id_ordered = ordered if id_ood_score is None else np.sort(id_scores)
        for name, values in ood_scores.items():
            result[f"ood:{name}"] = detection_of(id_ordered, np.sort(values))
    return result


def _scan(array: Floats, labels: NDArray[np.intp]) -> tuple[RowStatistics, ClassBins]:
    rows, counter = empty_rows(array), ClassBinCounter(array)
    for part, chunk in checked_row_chunks(array):
        fill_rows(rows, part, chunk, labels[part])
        counter.add(chunk, labels[part])
    return rows, counter.result()


def _checked_sets(sets: ArrayLike, probs: Floats) -> NDArray[np.bool_]:
    members = check_sets(sets)
    check_same_length(probs=probs, sets=members)
    if members.shape[1] != probs.shape[1]:
        raise InputError(f"sets has {members.shape[1]} classes but probs has {probs.shape[1]}; pass one column a class")
    return members


def _probability_metrics(rows: RowStatistics, classes: ClassBins) -> dict[str, float]:
    parts = decompose(classes)
    bins = calibration.bins_of(rows, N_BINS)
    confidence: NDArray[np.floating] = np.sort(rows.confidence)
    return {
        "brier": classes.squared_error / classes.n_samples,
        "brier_reliability": parts.reliability,
        "brier_resolution": parts.resolution,
        "brier_uncertainty": parts.uncertainty,
        "brier_residual": parts.residual,
        "ece": calibration.ece_of(bins),
        "mce": calibration.mce_of(bins),
        "ece_equal_mass": calibration.equal_mass_of(confidence, np.sort(rows.confidence[~rows.correct])),
        "ece_classwise": calibration.classwise_of(classes),
    }


def _selective_metrics(steps: selective.RiskSteps) -> dict[str, float]:
    area = selective.aurc_of(steps)
    return {
        "aurc": area,
        "eaurc": selective.eaurc_of(steps),
        "eaurc_paper": selective.eaurc_paper_of(steps),
        "selective_auc": 1 - area,
        "risk_at_80": selective.risk_at_80_of(steps),
        "coverage_at_5": selective.coverage_at_5_of(steps),
    }
