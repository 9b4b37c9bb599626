"""Every metric of one prediction in one call."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_same_length, check_scores, checked_row_chunks
from volta.metrics import calibration, conformal, selective
from volta.metrics.binning import N_BINS
from volta.metrics.brierscore import decompose
from volta.metrics.classbins import ClassBinCounter, ClassBins
from volta.metrics.detection import detection_of
from volta.metrics.rows import Rows, empty_rows, fill_rows, paired
from volta.metrics.scoring import nll_of


def report(  # noqa: PLR0917
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
    ood_scores = {name: check_scores(values, f"ood[{name!r}]") for name, values in (ood or {}).items()}
    rows, classes = empty_rows(array), ClassBinCounter(array)
    for part, chunk in checked_row_chunks(array):
        fill_rows(rows, part, chunk, checked[part])
        classes.add(chunk, checked[part])

    ordered = np.sort(scores)
    test = {
        "accuracy": float(np.mean(rows.correct)),
        "nll": nll_of(rows.true_prob),
        **_probability_metrics(rows, classes.result()),
        **_selective_metrics(selective.steps_of(ordered, scores, rows.correct)),
    }
    if sets is not None:
        test["coverage"] = conformal.coverage(sets, checked)
        test["set_size"] = conformal.set_size(sets, checked)
        test["empty_sets"] = conformal.empty_sets(sets, checked)
    result = {"test": test}
    if ood_scores:
        id_ordered = ordered if id_ood_score is None else np.sort(id_scores)
        for name, values in ood_scores.items():
            result[f"ood:{name}"] = detection_of(id_ordered, np.sort(values))
    return result


def _probability_metrics(rows: Rows, classes: ClassBins) -> dict[str, float]:
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
