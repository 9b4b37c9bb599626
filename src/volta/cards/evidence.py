"""What a card's figures rest on: the calibration rows that the model keeps, or labelled rows given now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.data.formats.feature_tables import FeatureChunk, FeatureTable
from volta.data.formats.table import labels_like
from volta.decisions import SetPredictor, fit_thresholds
from volta.decisions.set_scores import Floats, SetScore
from volta.estimators.calibration import SET_ALPHAS
from volta.estimators.classifier import VoltaClassifier
from volta.metrics.rows import RowStatistics

FPRS = (0.01, 0.05, 0.1)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows that a model was judged on, each array (n,).

    ``source`` says in words which rows; ``set_sizes`` are mean sizes at ``SET_ALPHAS``, ``set_coverage`` the share of
    sets with the true class and ``flagged`` the share of rows flagged at ``FPRS``, both None for calibration rows, of
    which they are chosen to hold.
    """

    source: str
    rows: RowStatistics
    uncertainty: Floats
    set_sizes: tuple[float, ...]
    set_coverage: tuple[float, ...] | None
    flagged: tuple[float, ...] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.correct)


def calibration_evidence(classifier: VoltaClassifier) -> Evidence:
    """Return what the model keeps of its calibration rows, which it was neither trained nor tempered on."""
    kept = classifier.calibration_
    true_probs = 1.0 - kept.true_scores["lac"] if kept.true_probs is None else kept.true_probs
    rows = RowStatistics(kept.confidence, kept.predicted == kept.labels, true_probs)
    source = f"the {len(kept.labels)} calibration rows, which were not used to train the model"
    return Evidence(source, rows, kept.uncertainty, kept.set_sizes[classifier.set_score_], None, None)


def row_evidence(classifier: VoltaClassifier, table: FeatureTable, advance: Callable[[int, float], None]) -> Evidence:
    """Judge the rows of a labelled table, chunk by chunk."""
    pieces: list[RowStatistics] = []
    uncertainty: list[Floats] = []
    pvalues: list[Floats] = []
    absurd: list[NDArray[np.bool_]] = []
    sizes, hits = np.zeros(len(SET_ALPHAS)), np.zeros(len(SET_ALPHAS))
    predictors = [_sets(classifier, alpha) for alpha in SET_ALPHAS]
    test = classifier.calibration_.ood_test()
    for part in table.chunks():
        labels = _numbers(classifier, table, part)
        judged = classifier._judge(part.rows)
        probs, each = judged.prediction.probs, np.arange(len(labels))
        predicted = judged.prediction.labels
        pieces.append(RowStatistics(probs[each, predicted], predicted == labels, probs[each, labels]))
        uncertainty.append(judged.prediction.uncertainty)
        pvalues.append(test.pvalues(judged.ood))
        absurd.append(judged.novelty.absurd)
        for place, predictor in enumerate(predictors):
            sets = predictor.predict(probs)
            sizes[place] += sets.sum()
            hits[place] += sets[each, labels].sum()
        advance(len(labels), part.chunk.done)
    rows = RowStatistics(
        np.concatenate([piece.confidence for piece in pieces]),
        np.concatenate([piece.correct for piece in pieces]),
        np.concatenate([piece.true_prob for piece in pieces]),
    )
    n_rows, unusual, far = len(rows.correct), np.concatenate(pvalues), np.concatenate(absurd)
    return Evidence(
        source=f"the {n_rows} labelled rows of {table.table.path.name}",
        rows=rows,
        uncertainty=np.concatenate(uncertainty),
        set_sizes=tuple((sizes / n_rows).tolist()),
        set_coverage=tuple((hits / n_rows).tolist()),
        flagged=tuple(float(np.mean((unusual <= fpr) | far)) for fpr in FPRS),
    )


def _sets(classifier: VoltaClassifier, alpha: float) -> SetPredictor:
    kept, score = classifier.calibration_, classifier.set_score_
    thresholds = fit_thresholds(kept.true_scores[score], kept.labels, kept.n_classes, alpha=alpha)
    return SetPredictor(SetScore(score), thresholds, randomised=False, allow_empty=True)


def _numbers(classifier: VoltaClassifier, table: FeatureTable, part: FeatureChunk) -> NDArray[np.int64]:
    name = table.label or ""
    given = labels_like(np.asarray(part.labels), classifier.classes_, f"{table.table.path} column {name!r}")
    unknown = ~np.isin(given, classifier.classes_)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{part.chunk.where(row, name)} is {str(given[row])!r}, a class that the model does not know")
    return np.searchsorted(classifier.classes_, given).astype(np.int64)
