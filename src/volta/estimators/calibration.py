"""What is fitted on calibration rows, and the OOD score that they calibrate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array, Prediction
from volta.decisions import (
    InputGuard,
    OodTest,
    Policy,
    ScoreCombination,
    SetPredictor,
    fit_combination,
    fit_coverage,
    fit_guard,
    fit_ood,
    fit_policy,
    fit_thresholds,
)
from volta.decisions.set_scores import SCORE_NAMES, Floats, ScoreName, SetScore
from volta.decisions.sets import Conditional
from volta.estimators.scaling import Scaler, row_parts


class TooFewRowsWarning(UserWarning):
    """There are too few calibration rows for what is asked; the message says what is done instead."""


@dataclass(frozen=True, eq=False)
class OodScore:
    """One OOD score a row from the method's own and the input guard's two; see `fit_combination` for how.

    The guard's range and distance are ranked each by itself: data with wild values in single columns would otherwise
    hide rows whose columns do not go together.
    ``guard`` saw training rows and ``combination`` validation rows, never calibration rows.
    """

    scaler: Scaler
    guard: InputGuard
    combination: ScoreCombination

    def of(self, rows: Array, prediction: Prediction) -> Floats:
        """Return (n,) scores of rows (n, d) in the user's units, higher = more OOD."""
        return self.combination.score(prediction.ood_score, *guard_scores(self.guard, self.scaler, rows))


def fit_ood_score(scaler: Scaler, train: Array, val: Array, val_prediction: Prediction) -> OodScore:
    """Fit the guard on scaled training rows and the combination on validation rows in the user's units."""
    guard = fit_guard(train)
    combination = fit_combination(val_prediction.ood_score, *guard_scores(guard, scaler, val))
    return OodScore(scaler, guard, combination)


def guard_scores(guard: InputGuard, scaler: Scaler, rows: Array) -> tuple[Floats, Floats]:
    """Return the guard's two scores of rows in the user's units."""
    furthest, distance = np.empty(len(rows)), np.empty(len(rows))
    for part in row_parts(rows):
        furthest[part], distance[part] = guard.parts(scaler.exact(rows[part]))
    return furthest, distance


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known of n calibration rows, each array (n,), and of validation rows where a policy needs other rows.

    ``labels`` and ``predicted`` are class numbers; ``true_scores`` holds, for each score of prediction sets, how badly
    a row's own class fits it; ``reference`` is the uncertainty of validation rows.
    """

    n_classes: int
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    true_scores: dict[str, Floats]
    uncertainty: Floats
    ood: Floats
    reference: Floats

    def sets(self, alpha: float, score: ScoreName, conditional: Conditional, allow_empty: bool) -> SetPredictor:
        """Calibrate prediction sets; warn where there are too few rows for ``alpha``."""
        chosen = SetScore(score)
        thresholds = fit_thresholds(
            self.true_scores[score], self.labels, self.n_classes, alpha=alpha, conditional=conditional
        )
        warn_if(thresholds.note)
        return SetPredictor(chosen, thresholds, randomised=False, allow_empty=allow_empty)

    def policy(self, max_error: float | None, coverage: float | None, confidence: float) -> Policy:
        """Find the policy with at most ``max_error`` among answered rows, or the one that answers ``coverage``."""
        if (max_error is None) == (coverage is None):
            raise InputError(
                f"max_error is {max_error} and coverage {coverage}; pass one of them, e.g. fit_policy(max_error=0.02)"
            )
        if coverage is not None:
            return fit_coverage(self.uncertainty, coverage=coverage, confidence=confidence)
        correct = self.predicted == self.labels
        bound = 0.02 if max_error is None else max_error
        return fit_policy(self.uncertainty, correct, max_error=bound, confidence=confidence, reference=self.reference)

    def ood_test(self, conditional: Conditional = "none") -> OodTest:
        """Calibrate OOD p-values, over all rows or within each predicted class."""
        if conditional == "none":
            return fit_ood(self.ood)
        if conditional == "class":
            return fit_ood(self.ood, groups=self.predicted, n_groups=self.n_classes)
        raise InputError(f"conditional is {conditional!r}; pass none or class")


def calibrate(prediction: Prediction, labels: NDArray[np.int64], ood: Floats, reference: Floats) -> Calibration:
    """Keep what later calls need of the calibration rows' predictions."""
    rows = np.arange(len(labels))
    return Calibration(
        n_classes=prediction.probs.shape[1],
        labels=labels,
        predicted=prediction.labels,
        true_scores={name: SetScore(name).of(prediction.probs, None)[rows, labels] for name in SCORE_NAMES},
        uncertainty=prediction.uncertainty,
        ood=ood,
        reference=reference,
    )


def warn_if(note: str) -> None:
    """Say that there are too few calibration rows, where there are."""
    if note:
        warnings.warn(note, TooFewRowsWarning, stacklevel=4)


CALIBRATION_TYPES: tuple[type, ...] = (Calibration, OodScore, Scaler, InputGuard, ScoreCombination)
"""The dataclasses that a saved classifier may hold besides its method's."""
