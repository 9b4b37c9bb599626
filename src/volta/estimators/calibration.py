"""What is fitted on calibration rows, and the OOD score that they calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_fraction
from volta.core.errors import InputError, VoltaWarning
from volta.core.quantile import conformal_quantile
from volta.core.scaling import Scaler, row_parts
from volta.core.types import Array, Prediction
from volta.core.user_warning import warn_user
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
from volta.estimators.prediction import settled_scores

if TYPE_CHECKING:
    from volta.networks.outputs import Outputs

ABSURD = 1e6
"""A row of which a column is so many standard deviations out of range is OOD whatever its p-value, unless validation
rows are as far out: then such values, say for what is missing, belong to the data."""
SET_ALPHAS = (0.2, 0.1, 0.05, 0.01)
"""For these the mean size of sets on calibration rows is kept."""


class TooFewRowsWarning(VoltaWarning):
    """There are too few calibration rows for what is asked; the message says what is done instead."""


@dataclass(frozen=True, eq=False)
class Novelty:
    """The OOD score of each row, which is calibrated, and whether the row is beyond `absurd_beyond`."""

    scores: Floats
    absurd: NDArray[np.bool_]


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

    def of(self, rows: Array, prediction: Prediction, exact: Floats | None = None) -> Novelty:
        """Return (n,) scores of rows (n, d) in the user's units, higher = more OOD; ``exact``: as in `predict_rows`."""
        scores = np.empty((3, len(rows)))
        scores[0] = prediction.ood_score
        scores[1:] = guard_scores(self.guard, self.scaler, rows, exact)
        return Novelty(self.combination.unchecked_score(scores), scores[1] > absurd_beyond(self.combination))


@dataclass(frozen=True, eq=False)
class FeatureOodScore:
    """The OOD score of a network's outputs: the method's and the guard's of penultimate vectors, if any, joined."""

    guard: InputGuard | None
    combination: ScoreCombination

    def of(self, outputs: Outputs, prediction: Prediction) -> Novelty:
        """Return (n,) scores, higher = more OOD."""
        scores = output_scores(self.guard, outputs, prediction)
        absurd = np.zeros(len(prediction), dtype=np.bool_)
        if self.guard is not None:
            absurd = scores[1] > absurd_beyond(self.combination)
        return Novelty(self.combination.score(*scores), absurd)


def absurd_beyond(combination: ScoreCombination) -> float:
    """Return how far out of range a row must be to be OOD whatever its p-value: twice as far as any validation row."""
    return max(ABSURD, 2.0 * float(combination.reference[1][-1]))


def output_scores(guard: InputGuard | None, outputs: Outputs, prediction: Prediction) -> tuple[Floats, ...]:
    """Return the method's score and, where there is a guard, its two."""
    if guard is None:
        return (prediction.ood_score,)
    return (prediction.ood_score, *map(settled_scores, guard.parts(outputs.need_features())))


def fit_ood_score(scaler: Scaler, train: Array, val: Array, val_prediction: Prediction) -> OodScore:
    """Fit the guard on scaled training rows and the combination on validation rows in the user's units."""
    guard = fit_guard(train)
    combination = fit_combination(val_prediction.ood_score, *guard_scores(guard, scaler, val))
    return OodScore(scaler, guard, combination)


def guard_scores(guard: InputGuard, scaler: Scaler, rows: Array, exact: Floats | None = None) -> Floats:
    """Return the guard's two scores (2, n) of rows in the user's units."""
    scores = np.empty((2, len(rows)))
    if exact is not None:
        scores[0], scores[1] = guard.unchecked_parts(exact)
        return settled_scores(scores)
    for part in row_parts(rows):
        scores[0, part], scores[1, part] = guard.unchecked_parts(scaler.exact(rows[part]))
    return settled_scores(scores)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known of n calibration rows, each array (n,), and of validation rows where a policy needs other rows.

    ``labels`` and ``predicted`` are class numbers, ``confidence`` the probability of the latter; ``true_scores`` holds,
    for each score of prediction sets, how badly a row's own class fits it, and ``set_sizes`` the mean size of sets at
    each of ``SET_ALPHAS``; ``reference`` is the uncertainty of validation rows; ``true_probs`` are the probabilities of
    the rows' own classes, with all their digits (None in files of earlier versions).
    """

    n_classes: int
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: Floats
    true_scores: dict[str, Floats]
    set_sizes: dict[str, tuple[float, ...]]
    uncertainty: Floats
    ood: Floats
    reference: Floats
    true_probs: Floats | None = None

    def sets(
        self,
        alpha: float,
        score: ScoreName,
        conditional: Conditional,
        allow_empty: bool,
        names: Sequence[Any] | None = None,
    ) -> SetPredictor:
        """Calibrate prediction sets, once for the same request; warn where there are too few rows for ``alpha``.

        names: what the warning calls the classes, their numbers unless set.
        """
        if score not in self.true_scores:
            raise InputError(f"score is {score!r}; pass one of {', '.join(self.true_scores)}")
        alpha = check_fraction(alpha, "alpha")
        request = (alpha, score, conditional, allow_empty)
        if request not in self._sets:
            thresholds = fit_thresholds(
                self.true_scores[score], self.labels, self.n_classes, alpha=alpha, conditional=conditional
            )
            self._sets[request] = SetPredictor(SetScore(score), thresholds, randomised=False, allow_empty=allow_empty)
        warn_if(self._sets[request].thresholds.note_of(range(self.n_classes) if names is None else names))
        return self._sets[request]

    def policy(self, max_error: float | None, coverage: float | None, confidence: float) -> Policy:
        """Find the policy with at most ``max_error`` among answered rows, or the one that answers ``coverage``."""
        if coverage is None and max_error is not None:
            correct = self.predicted == self.labels
            return fit_policy(
                self.uncertainty, correct, max_error=max_error, confidence=confidence, reference=self.reference
            )
        if coverage is not None and max_error is None:
            return fit_coverage(self.uncertainty, coverage=coverage, confidence=confidence)
        raise InputError(
            f"max_error is {max_error} and coverage {coverage}; pass one of them, e.g. fit_policy(max_error=0.02)"
        )

    def ood_test(self, conditional: Conditional = "none") -> OodTest:
        """Calibrate OOD p-values, over all rows or within each predicted class."""
        if conditional == "none":
            return self._plain_test
        if conditional == "class":
            return fit_ood(self.ood, groups=self.predicted, n_groups=self.n_classes)
        raise InputError(f"conditional is {conditional!r}; pass none or class")

    @cached_property
    def _plain_test(self) -> OodTest:
        return fit_ood(self.ood)

    @cached_property
    def _sets(self) -> dict[tuple[Any, ...], SetPredictor]:
        return {}


def calibrate(prediction: Prediction, labels: NDArray[np.int64], ood: Floats, reference: Floats) -> Calibration:
    """Keep what later calls need of the calibration rows' predictions."""
    rows = np.arange(len(labels))
    scores = {name: SetScore(name).of(prediction.probs, None) for name in SCORE_NAMES}
    own: dict[str, Floats] = {name: values[rows, labels] for name, values in scores.items()}
    return Calibration(
        n_classes=prediction.probs.shape[1],
        labels=labels,
        predicted=prediction.labels,
        confidence=prediction.probs.max(axis=1).astype(np.float64),
        true_scores=own,
        set_sizes={
            name: tuple(float((values <= conformal_quantile(own[name], alpha)).sum(1).mean()) for alpha in SET_ALPHAS)
            for name, values in scores.items()
        },
        uncertainty=prediction.uncertainty,
        ood=ood,
        reference=reference,
        true_probs=prediction.probs[rows, labels].astype(np.float64),
    )


def warn_if(note: str) -> None:
    """Say that there are too few calibration rows, where there are."""
    if note:
        warn_user(note, TooFewRowsWarning)


CALIBRATION_TYPES: tuple[type, ...] = (Calibration, OodScore, FeatureOodScore, Scaler, InputGuard, ScoreCombination)
"""The dataclasses that a saved classifier may hold besides its method's."""
