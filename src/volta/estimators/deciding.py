"""The decision layer of every classifier: calibration, prediction sets, abstention, OOD flags, monitor.

Matrix products round differently for one row and for many, in the last bits. Decisions compare scores with those of
calibration samples, and equal samples must get equal scores, or ties are lost and guarantees with them. So scores are
rounded. Methods that sample (`mc_dropout`, `volta` with passes) are the exception: they draw by a row's position.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_fraction, check_prediction
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.quantile import conformal_quantile
from volta.core.scaling import Scaler, row_parts
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.decisions import (
    Decisions,
    Monitor,
    MonitorState,
    OodTest,
    Policy,
    RangeCheck,
    ScoreCombination,
    SetPredictor,
    benjamini_hochberg,
    fit_combination,
    fit_coverage,
    fit_ood,
    fit_policy,
    fit_range_check,
    fit_thresholds,
)
from volta.decisions.conformal import SCORE_NAMES, Conditional, Floats, ScoreName, SetScore
from volta.decisions.decide import ACTIONS, unchecked_decisions
from volta.decisions.ood import discovery_note
from volta.estimators.inputs import UnfittedClassifierError
from volta.networks.outputs import Outputs

if TYPE_CHECKING:
    from volta.methods.base import Method, PostHoc


Flags: TypeAlias = NDArray[np.bool_]

BLOCK_ROWS = 32
_DROPPED_BITS = 20
_DECIMALS = 12
_LARGEST = 1e290


def predict_rows(
    method: Method, scaler: Scaler, rows: Array, n_classes: int, exact: Floats | None = None
) -> Prediction:
    """Scale and predict rows (n, d) in float64; ``exact`` is ``scaler.exact(rows)`` where it is known.

    A method that computes in single precision gets whole blocks: the last row is repeated and its results are cut off.
    """
    limit = scaler.limit
    scaled = scaler.apply(rows, np.float64) if exact is None else np.minimum(np.maximum(exact, -limit), limit)
    if not method.single_precision:
        return settled(check_prediction(method.title, method._predict, scaled, n_classes))
    return settled(check_prediction(method.title, method._predict, _in_blocks(scaled), n_classes), len(rows))


def predict_outputs(method: PostHoc, outputs: Outputs, n_classes: int) -> Prediction:
    """Predict rows by a network's outputs, in whole blocks: features are in single precision; see :func:`settled`."""
    features = None if outputs.features is None else _in_blocks(outputs.features)
    blocks = Outputs(_in_blocks(outputs.logits), features, outputs.last_layer)
    return settled(check_prediction(method.title, method.predict_outputs, blocks, n_classes), len(outputs))


def _in_blocks(rows: Array) -> Array:
    """Return rows (n, d) with the last one repeated up to a whole number of blocks."""
    n_missing = -len(rows) % BLOCK_ROWS
    return np.concatenate([rows, np.repeat(rows[-1:], n_missing, axis=0)]) if n_missing else rows


def settled(prediction: Prediction, n_rows: int | None = None) -> Prediction:
    """Return the first rows of a prediction without the last bits, which depend on how many rows there are."""
    rows = slice(n_rows)
    uncertainty = settled_scores(prediction.uncertainty[rows])
    same = prediction.ood_score is prediction.uncertainty
    return Prediction(
        without_last_bits(prediction.probs[rows]),
        uncertainty,
        uncertainty if same else settled_scores(prediction.ood_score[rows]),
        None if prediction.sets is None else prediction.sets[rows],
    )


def settled_scores(scores: Floats) -> Floats:
    """Return scores to 12 decimals and 10 digits: 1 minus a number close to 1 has few digits that mean anything."""
    bounded = np.minimum(np.maximum(np.asarray(scores, dtype=np.float64), -_LARGEST), _LARGEST)
    return without_last_bits(bounded.round(_DECIMALS))


def without_last_bits(values: Floats) -> Floats:
    """Return float64 numbers rounded to their first 33 bits, about ten digits.

    >>> 0.1 + 0.2 == 0.3, bool((without_last_bits(np.array([0.1 + 0.2])) == without_last_bits(np.array([0.3])))[0])
    (False, True)
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return ((bits + (1 << (_DROPPED_BITS - 1))) & -(1 << _DROPPED_BITS)).view(np.float64)


EXTREME = 1e6
"""A row with a column so many standard deviations out of range is OOD whatever its p-value, unless validation rows are
as far out: then such values, for example codes for missing entries, belong to the data."""
SET_ALPHAS = (0.2, 0.1, 0.05, 0.01)
"""For these the mean size of sets on calibration rows is kept."""


class TooFewRowsWarning(VoltaWarning):
    """There are too few calibration rows for what is asked; the message says what is done instead."""


@dataclass(frozen=True, eq=False)
class OodScore:
    """One OOD score a row from the method's own and the range check's two; see `fit_combination` for how.

    The range check's range and distance are ranked each by itself: wild values in single columns would otherwise hide
    rows whose columns do not go together.
    ``range_check`` saw training rows and ``combination`` validation rows, never calibration rows.
    """

    scaler: Scaler
    range_check: RangeCheck
    combination: ScoreCombination

    def of(self, rows: Array, prediction: Prediction, exact: Floats | None = None) -> tuple[Floats, Flags]:
        """Return (n,) scores of rows (n, d) in the user's units, higher = more OOD, and which rows are extreme."""
        scores = np.empty((3, len(rows)))
        scores[0] = prediction.ood_score
        scores[1:] = range_scores(self.range_check, self.scaler, rows, exact)
        return self.combination.unchecked_score(scores), scores[1] > self.extreme_beyond

    @cached_property
    def extreme_beyond(self) -> float:
        """How far out of range a row must be to be OOD whatever its p-value."""
        return extreme_beyond(self.combination)


@dataclass(frozen=True, eq=False)
class FeatureOodScore:
    """The OOD score of a network's outputs: the method's and the range check's of penultimate vectors, if any."""

    range_check: RangeCheck | None
    combination: ScoreCombination

    def of(self, outputs: Outputs, prediction: Prediction) -> tuple[Floats, Flags]:
        """Return (n,) scores, higher = more OOD, and which rows are extreme."""
        scores = output_scores(self.range_check, outputs, prediction)
        extreme = np.zeros(len(prediction), dtype=np.bool_)
        if self.range_check is not None:
            extreme = scores[1] > extreme_beyond(self.combination)
        return self.combination.score(*scores), extreme


def extreme_beyond(combination: ScoreCombination) -> float:
    """Return how far out of range a row must be to be OOD whatever its p-value: twice as far as any validation row."""
    return max(EXTREME, 2.0 * float(combination.reference[1][-1]))


def output_scores(range_check: RangeCheck | None, outputs: Outputs, prediction: Prediction) -> tuple[Floats, ...]:
    """Return the method's score and, where there is a range check, its two."""
    if range_check is None:
        return (prediction.ood_score,)
    return (prediction.ood_score, *map(settled_scores, range_check.parts(outputs.need_features())))


def fit_ood_score(scaler: Scaler, train: Array, val: Array, val_prediction: Prediction) -> OodScore:
    """Fit the range check on scaled training rows and the combination on validation rows in the user's units."""
    range_check = fit_range_check(train)
    combination = fit_combination(val_prediction.ood_score, *range_scores(range_check, scaler, val))
    return OodScore(scaler, range_check, combination)


def range_scores(range_check: RangeCheck, scaler: Scaler, rows: Array, exact: Floats | None = None) -> Floats:
    """Return the range check's two scores (2, n) of rows in the user's units."""
    scores = np.empty((2, len(rows)))
    if exact is not None:
        scores[0], scores[1] = range_check.unchecked_parts(exact)
        return settled_scores(scores)
    for part in row_parts(rows):
        scores[0, part], scores[1, part] = range_check.unchecked_parts(scaler.exact(rows[part]))
    return settled_scores(scores)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known of n calibration rows, each array (n,), and of validation rows where a policy needs other rows.

    ``labels`` and ``predicted`` are class numbers, ``confidence`` the probability of the latter; ``true_scores`` holds,
    for each score of prediction sets, how badly a row's own class fits it, and ``set_sizes`` the mean size of sets at
    each of ``SET_ALPHAS``; ``reference`` is the uncertainty of validation rows; ``true_probs`` are the probabilities of
    the rows' own classes, with all their digits.
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
    true_probs: Floats

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
        if (found := self._sets.get(request)) is None:
            thresholds = fit_thresholds(
                self.true_scores[score], self.labels, self.n_classes, alpha=alpha, conditional=conditional
            )
            found = SetPredictor(SetScore(score), thresholds, randomised=False, allow_empty=allow_empty)
            self._sets[request] = found
        if found.thresholds.always_included:
            warn_if(found.thresholds.note_of(range(self.n_classes) if names is None else names))
        return found

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
    true_scores: dict[str, Floats] = {name: values[rows, labels] for name, values in scores.items()}
    return Calibration(
        n_classes=prediction.probs.shape[1],
        labels=labels,
        predicted=prediction.labels,
        confidence=prediction.probs.max(axis=1).astype(np.float64),
        true_scores=true_scores,
        set_sizes={
            name: tuple(
                float((values <= conformal_quantile(true_scores[name], alpha)).sum(1).mean()) for alpha in SET_ALPHAS
            )
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


CALIBRATION_TYPES: tuple[type, ...] = (Calibration, OodScore, FeatureOodScore, Scaler, RangeCheck, ScoreCombination)
"""The dataclasses that a saved classifier may hold besides its method's."""


DEFAULT_COVERAGE = 0.9
DEFAULT_FPR = 0.05


class DecidingMixin:
    """Decisions with guarantees from ``calibration_``; X is whatever ``predict_full`` takes.

    All guarantees hold for samples exchangeable with the calibration set. A
    :class:`~volta.estimators.deciding.TooFewRowsWarning` warns where that is too small for what is asked.
    """

    calibration_: Calibration
    policy_: Policy
    policy_settings_: dict[str, Any]
    classes_: NDArray[Any]
    set_score_: ScoreName
    seed_: int

    @abstractmethod
    def predict_full(self, X: Any) -> Prediction:  # noqa: N803
        """Return the method's probabilities, uncertainty, OOD score and sets in one pass."""

    @abstractmethod
    def _scored(self, X: Any) -> tuple[Prediction, Floats, Flags]:  # noqa: N803
        """Return ``predict_full(X)``, the (n,) scores that OOD p-values compare, and which rows are extreme."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def _fitted(self) -> None:
        """Raise an error unless there is a fit."""
        if not hasattr(self, "calibration_"):
            raise UnfittedClassifierError(f"{type(self).__name__} is not fitted; call fit before using it")

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return (n, K) class probabilities, columns in the order of ``classes_``."""
        return self.predict_full(X).probs

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the most probable label of each row."""
        labels = self.predict_full(X).labels
        return np.asarray(self.classes_[labels])

    def uncertainty(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the method's uncertainty, higher where less certain."""
        return self.predict_full(X).uncertainty

    def predict_set(
        self,
        X: Any,  # noqa: N803
        alpha: float = 0.1,
        *,
        score: ScoreName | None = None,
        conditional: Conditional = "none",
        allow_empty: bool = True,
    ) -> NDArray[np.bool_]:
        """Return (n, K) sets that hold the true class with probability at least 1 − alpha.

        ``score``: ``lac`` (the smallest sets), ``aps`` or ``raps`` (sets that grow where a row is ambiguous); None
        takes ``aps`` for the method of that name, else ``lac``. ``conditional="class"`` gives the guarantee for every
        class. A ``lac`` set is empty where no class fits; ``allow_empty=False`` puts the likeliest class there.
        """
        probs = self.predict_full(X).probs
        return self.calibration_.sets(
            alpha, self.set_score_ if score is None else score, conditional, allow_empty, self.classes_.tolist()
        ).predict(probs)

    def fit_policy(
        self, max_error: float | None = None, *, coverage: float | None = None, confidence: float = 0.95
    ) -> Policy:
        """Choose which rows are answered, on the calibration rows, and keep the policy in ``policy_``.

        ``max_error``: with probability ``confidence`` over calibration rows, at most this share of answered rows is
        wrong, and as many rows as can be proven so from a few start points (see `volta.decisions.fit_policy`) are
        answered; ``exists`` is False where no threshold gives the guarantee.
        ``coverage``: this share of rows is answered, with its interval, and no guarantee on the error. Until it
        is called the policy has coverage 0.9.
        """
        self._fitted()
        self._set_policy(max_error, coverage, confidence)
        warn_if(self.policy_.note)
        return self.policy_

    def abstain(self, X: Any, *, coverage: float | None = None) -> NDArray[np.bool_]:  # noqa: N803
        """Return True for each row that is better not answered: by ``policy_``, or by a policy with ``coverage``."""
        uncertainty = self.predict_full(X).uncertainty
        return ~self._policy(coverage).answers(uncertainty)

    def predict_or_abstain(self, X: Any, coverage: float | None = None, abstain: Any = None) -> Array:  # noqa: N803
        """Return labels, with ``abstain`` in the place of those that :meth:`abstain` leaves out."""
        prediction = self.predict_full(X)
        labels = self.classes_[prediction.labels].astype(object)
        labels[~self._policy(coverage).answers(prediction.uncertainty)] = abstain
        return np.asarray(labels)

    def ood_pvalues(self, X: Any, *, conditional: Conditional = "none") -> NDArray[np.float64]:  # noqa: N803
        """Return conformal p-values of "the row is like the calibration rows": P(p ≤ t) ≤ t for rows that are.

        The score joins the method's own and the range check's. ``conditional="class"`` compares with calibration rows
        of the same predicted class.
        """
        prediction, ood, _ = self._scored(X)
        test = self.calibration_.ood_test(conditional)
        return test.pvalues(ood, groups=prediction.labels if test.grouped else None)

    def is_ood(
        self,
        X: Any,  # noqa: N803
        fpr: float | None = None,
        *,
        fdr: float | None = None,
        conditional: Conditional = "none",
    ) -> NDArray[np.bool_]:
        """Flag OOD rows: at most the share ``fpr``, 0.05 unless set, of in-distribution rows is flagged, on average.

        ``fdr``, instead, bounds the expected share of false flags among the flags of this batch (Benjamini-Hochberg).
        ``conditional="class"`` keeps ``fpr`` within every predicted class. An extreme row is flagged whatever its
        p-value: a column is a million standard deviations out of range, and twice as far as in any validation row.
        """
        if fdr is not None and conditional != "none":
            raise InputError("fdr is set and conditional too; the bound over a batch needs conditional='none'")
        if fdr is not None and fpr is not None:
            raise InputError(f"fpr is {fpr} and fdr {fdr}; pass one of them")
        prediction, ood, extreme = self._scored(X)
        test = self.calibration_.ood_test(conditional)
        if fdr is not None:
            warn_if(discovery_note(len(self.calibration_.ood), len(ood), fdr))
            return np.asarray(benjamini_hochberg(test.pvalues(ood), fdr) | extreme)
        level = DEFAULT_FPR if fpr is None else fpr
        warn_if(test.note(level, self.classes_.tolist()))
        return np.asarray(test.flags(ood, fpr=level, groups=prediction.labels if test.grouped else None) | extreme)

    def decide(self, X: Any, *, fpr: float = 0.05, alpha: float = 0.1) -> Decisions:  # noqa: N803
        """Return answer, abstain or OOD for each row with label, probability, p-value, set and the reason in words.

        By ``policy_`` (see :meth:`fit_policy`), p-values at ``fpr`` and sets at ``alpha``. Of the rows that the policy
        answers a share φ may be flagged as OOD: its bound ε on the error among answered rows then holds as ε / (1 − φ)
        for those that are left. Where all rows are in-distribution φ is at most ``fpr`` over the policy's coverage on
        average over calibration draws; single draws exceed it (:func:`volta.decisions.decide` says how to bound it).
        Index the result for one row; ``to_array()`` gives a structured array, which ``pandas.DataFrame`` takes.
        """
        return self.decide_at(X, fpr, alpha=alpha)

    def decide_at(self, X: Any, level: float, reason: str = "", *, alpha: float = 0.1) -> Decisions:  # noqa: N803
        """Return :meth:`decide` with p-values at a level that a whole batch gave, of which ``X`` is a part.

        ``reason`` says in words why a row at that level is OOD.
        """
        prediction, ood, extreme = self._scored(X)
        test, probs = self.calibration_.ood_test(), prediction.probs
        if not reason:
            warn_if(test.note(level))
        found = unchecked_decisions(
            probs,
            prediction.uncertainty,
            self._policy(None),
            test.unchecked_pvalues(ood),
            level,
            self.calibration_.sets(alpha, self.set_score_, "none", True).unchecked_sets(probs),
            self.classes_,
        )
        if not (reason or extreme.any()):
            return found
        answer, abstain, unlike = found.reasons
        unlike = reason or unlike
        if not extreme.any():
            return replace(found, reasons=(answer, abstain, unlike))
        action = np.where(extreme, ACTIONS.index("ood"), found.action)
        return replace(
            found, action=action, reasons=(answer, abstain, f"{unlike}, or a column a million deviations out of range")
        )

    def monitor(self, *, alpha: float = 0.01, random_state: int | None = None) -> ClassifierMonitor:
        """Return a monitor of a stream of rows; see :class:`ClassifierMonitor`."""
        self._fitted()
        seed = self.seed_ if random_state is None else random_state
        return ClassifierMonitor(self, Monitor(self.calibration_.ood, alpha=alpha, rng=rng(seed, "monitor")))

    def _set_policy(
        self, max_error: float | None = None, coverage: float | None = None, confidence: float = 0.95
    ) -> None:
        self.policy_ = self.calibration_.policy(max_error, coverage, confidence)
        self.policy_settings_ = {"max_error": max_error, "coverage": coverage, "confidence": confidence}

    def _policy(self, coverage: float | None) -> Policy:
        policy = self.policy_ if coverage is None else self.calibration_.policy(None, coverage, 0.95)
        warn_if(policy.note)
        return policy


class ClassifierMonitor:
    """Watches a stream of rows: alarms when they no longer look like the calibration rows.

    The probability of an alarm without a change is at most ``alpha`` over all time, however often one looks; see
    :class:`volta.decisions.Monitor`. ``state`` is the state after the last update.
    """

    def __init__(self, classifier: DecidingMixin, scores: Monitor) -> None:
        self._classifier = classifier
        self._scores = scores

    @property
    def state(self) -> MonitorState:
        """What is known so far: ``alarm``, ``alarm_at``, an anytime-valid ``pvalue``, and a summary of the drift."""
        return self._scores.state

    def update(self, X: Any) -> MonitorState:  # noqa: N803
        """Take the next rows of the stream, in order, and return the state after them."""
        return self._scores.update(self._classifier._scored(X)[1])
