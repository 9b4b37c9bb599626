"""The decision layer of every classifier: calibration, sets, abstention, OOD flags, monitor.

Matrix products round differently for one row and for many, in the last bits. Decisions compare scores with those of
calibration rows, and rows that are equal must come out equal: data of few distinct rows would otherwise lose its ties,
and with them what is promised. Methods that sample (`mc_dropout`, `volta` with passes) are the exception: they draw by
a row's place among others, and a row alone may be decided otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import CHUNK_ELEMENTS, check_fraction, check_prediction
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.quantile import conformal_quantile
from volta.core.scaling import Scaler, row_parts
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.decisions import (
    Decisions,
    InputGuard,
    Monitor,
    MonitorState,
    OodTest,
    Policy,
    ScoreCombination,
    SetPredictor,
    benjamini_hochberg,
    fit_combination,
    fit_coverage,
    fit_guard,
    fit_ood,
    fit_policy,
    fit_thresholds,
)
from volta.decisions.conformal import SCORE_NAMES, Conditional, Floats, ScoreName, SetScore
from volta.decisions.decide import ACTIONS, unchecked_decisions
from volta.decisions.ood import discovery_note
from volta.networks.outputs import Outputs

if TYPE_CHECKING:
    from volta.methods.base import Method, PostHoc


BLOCK_ROWS = 32
_DROPPED_BITS = 20
_DECIMALS = 12
_LARGEST = 1e290


def exact_rows(scaler: Scaler, rows: Array) -> Floats | None:
    """Return rows (n, d) as the input guard sees them, or None where there are so many that a copy is large."""
    return scaler.exact(rows) if rows.size <= CHUNK_ELEMENTS else None


def predict_rows(
    method: Method, scaler: Scaler, rows: Array, n_classes: int, exact: Floats | None = None
) -> Prediction:
    """Scale and predict rows (n, d) in float64; see :func:`settled`. ``exact`` are their `exact_rows`, if known.

    A method that computes in single precision gets whole blocks: the last row is repeated, what it gives cut off again.
    """
    n_rows = len(rows)
    limit = scaler.limit
    scaled = scaler.apply(rows, np.float64) if exact is None else np.minimum(np.maximum(exact, -limit), limit)
    if not method.single_precision:
        return settled(check_prediction(method, method.unchecked_predict, scaled, n_classes))
    return settled(_first(check_prediction(method, method.unchecked_predict, _in_blocks(scaled), n_classes), n_rows))


def predict_outputs(method: PostHoc, outputs: Outputs, n_classes: int) -> Prediction:
    """Predict rows by a network's outputs, in whole blocks: features are in single precision; see :func:`settled`."""
    features = None if outputs.features is None else _in_blocks(outputs.features)
    blocks = Outputs(_in_blocks(outputs.logits), features, outputs.last_layer)
    return settled(_first(check_prediction(method, method.predict_outputs, blocks, n_classes), len(outputs)))


def _in_blocks(rows: Array) -> Array:
    """Return rows (n, d) with the last one repeated up to a whole number of blocks."""
    n_missing = -len(rows) % BLOCK_ROWS
    return np.concatenate([rows, np.repeat(rows[-1:], n_missing, axis=0)]) if n_missing else rows


def _first(whole: Prediction, n_rows: int) -> Prediction:
    return Prediction(
        whole.probs[:n_rows],
        whole.uncertainty[:n_rows],
        whole.ood_score[:n_rows],
        None if whole.sets is None else whole.sets[:n_rows],
    )


def settled(prediction: Prediction) -> Prediction:
    """Return the prediction without the last bits, which depend on how many rows there are."""
    uncertainty = settled_scores(_bounded(prediction.uncertainty))
    same = prediction.ood_score is prediction.uncertainty
    found: Prediction = object.__new__(Prediction)
    # The prediction was checked when it was made, and nothing here makes a number infinite: it is not checked again.
    found.__dict__.update(
        probs=without_last_bits(prediction.probs),
        uncertainty=uncertainty,
        ood_score=uncertainty if same else settled_scores(_bounded(prediction.ood_score)),
        sets=prediction.sets,
    )
    return found


def _bounded(scores: Floats) -> Floats:
    """Return scores, whatever numbers a method gives, in float64 and so that rounding to decimals keeps them finite."""
    return np.minimum(np.maximum(np.asarray(scores, dtype=np.float64), -_LARGEST), _LARGEST)


def settled_scores(scores: Floats) -> Floats:
    """Return scores to 12 decimals and 10 digits: 1 minus a number close to 1 has few digits that mean anything."""
    return without_last_bits(scores.round(_DECIMALS))


def without_last_bits(values: Floats) -> Floats:
    """Return float64 numbers rounded to their first 33 bits, about ten digits.

    >>> 0.1 + 0.2 == 0.3, bool((without_last_bits(np.array([0.1 + 0.2])) == without_last_bits(np.array([0.3])))[0])
    (False, True)
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return ((bits + (1 << (_DROPPED_BITS - 1))) & -(1 << _DROPPED_BITS)).view(np.float64)


EXTREME = 1e6
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
        return Novelty(self.combination.unchecked_score(scores), scores[1] > extreme_beyond(self.combination))


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
            absurd = scores[1] > extreme_beyond(self.combination)
        return Novelty(self.combination.score(*scores), absurd)


def extreme_beyond(combination: ScoreCombination) -> float:
    """Return how far out of range a row must be to be OOD whatever its p-value: twice as far as any validation row."""
    return max(EXTREME, 2.0 * float(combination.reference[1][-1]))


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


DEFAULT_COVERAGE = 0.9
DEFAULT_FPR = 0.05


@dataclass(frozen=True, eq=False)
class Judged:
    """What a model says of rows: the method's prediction and, computed where it is asked for, each row's OOD score."""

    prediction: Prediction
    score: Callable[[], Novelty]

    @cached_property
    def novelty(self) -> Novelty:
        """How far out the rows are."""
        return self.score()

    @property
    def ood(self) -> Floats:
        """The score that is calibrated."""
        return self.novelty.scores


class DecidingMixin:
    """Decisions with guarantees from ``calibration_``; X is whatever ``_judge`` takes.

    All guarantees hold for rows exchangeable with the calibration rows. Where those are too few for what is asked a
    :class:`~volta.estimators.deciding.TooFewRowsWarning` says so.
    """

    calibration_: Calibration
    policy_: Policy
    policy_settings_: dict[str, Any]
    classes_: NDArray[Any]
    set_score_: ScoreName
    seed_: int

    @abstractmethod
    def _judge(self, X: Any) -> Judged:  # noqa: N803
        """Check X, that there is a fit, and judge every row."""

    @abstractmethod
    def _fitted(self) -> None:
        """Raise an error unless there is a fit."""

    def predict_full(self, X: Any) -> Prediction:  # noqa: N803
        """Return the method's probabilities, uncertainty, OOD score and sets in one pass."""
        return self._judge(X).prediction

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
        takes ``aps`` for the method of that name, else ``lac``. ``conditional="class"`` keeps the promise for every
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
        answered; ``exists`` is False where no threshold keeps the promise.
        ``coverage``: this share of rows is answered, with its interval, and nothing is promised of the error. Until it
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
        """Return conformal p-values of «the row is like the calibration rows»: P(p ≤ t) ≤ t for rows that are.

        The score joins the method's own and the input guard's. ``conditional="class"`` compares with calibration rows
        of the same predicted class.
        """
        return self._pvalues(self._judge(X), conditional)

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
        ``conditional="class"`` keeps ``fpr`` within every predicted class. A row with a column a million standard
        deviations out of range, and twice as far out as any validation row, is flagged whatever its p-value: no bound
        speaks of such rows.
        """
        if fdr is not None and conditional != "none":
            raise InputError("fdr is set and conditional too; the bound over a batch needs conditional='none'")
        if fdr is not None and fpr is not None:
            raise InputError(f"fpr is {fpr} and fdr {fdr}; pass one of them")
        judged = self._judge(X)
        if fdr is not None:
            pvalues = self._pvalues(judged, "none")
            warn_if(discovery_note(len(self.calibration_.ood), len(pvalues), fdr))
            return np.asarray(benjamini_hochberg(pvalues, fdr) | judged.novelty.absurd)
        level = DEFAULT_FPR if fpr is None else fpr
        test = self.calibration_.ood_test(conditional)
        warn_if(test.note(level, self.classes_.tolist()))
        flags = test.flags(judged.ood, fpr=level, groups=judged.prediction.labels if test.grouped else None)
        return np.asarray(flags | judged.novelty.absurd)

    def decide(self, X: Any, *, fpr: float = 0.05, alpha: float = 0.1) -> Decisions:  # noqa: N803
        """Return answer, abstain or OOD for each row with label, probability, p-value, set and the reason in words.

        By ``policy_`` (see :meth:`fit_policy`), p-values at ``fpr`` and sets at ``alpha``. Of the rows that the policy
        answers a share φ may be flagged as OOD, φ being at most ``fpr`` over the policy's coverage where all rows are
        in-distribution: its bound ε on the error among answered rows then holds as ε / (1 − φ) for those that are left.
        Index the result for one row; ``to_array()`` gives a structured array, which ``pandas.DataFrame`` takes.
        """
        judged = self._judge(X)
        warn_if(self.calibration_.ood_test().note(fpr))
        return self._decisions(judged, fpr, alpha)

    def decide_at(self, X: Any, level: float, reason: str, *, alpha: float = 0.1) -> Decisions:  # noqa: N803
        """Return :meth:`decide` with p-values at a level that a whole batch gave, of which ``X`` is a part.

        ``reason`` says in words why a row at that level is OOD.
        """
        return self._decisions(self._judge(X), level, alpha, reason)

    def monitor(self, *, alpha: float = 0.01, random_state: int | None = None) -> ClassifierMonitor:
        """Return a monitor of a stream of rows; see :class:`ClassifierMonitor`."""
        self._fitted()
        seed = self.seed_ if random_state is None else random_state
        return ClassifierMonitor(self, Monitor(self.calibration_.ood, alpha=alpha, rng=rng(seed, "monitor")))

    def _decisions(self, judged: Judged, level: float, alpha: float, reason: str = "") -> Decisions:
        sets = self.calibration_.sets(alpha, self.set_score_, "none", True)
        probs, uncertainty = judged.prediction.probs, judged.prediction.uncertainty
        found = unchecked_decisions(
            probs,
            uncertainty,
            self._policy(None),
            self._pvalues(judged, "none"),
            level,
            sets.unchecked_sets(probs),
            self.classes_,
        )
        if reason:
            found = replace(found, reasons=(*found.reasons[:2], reason))
        return _with_absurd(found, judged.novelty.absurd)

    def _set_policy(
        self, max_error: float | None = None, coverage: float | None = None, confidence: float = 0.95
    ) -> None:
        self.policy_ = self.calibration_.policy(max_error, coverage, confidence)
        self.policy_settings_ = {"max_error": max_error, "coverage": coverage, "confidence": confidence}

    def _policy(self, coverage: float | None) -> Policy:
        policy = self.policy_ if coverage is None else self.calibration_.policy(None, coverage, 0.95)
        warn_if(policy.note)
        return policy

    def _pvalues(self, judged: Judged, conditional: Conditional) -> NDArray[np.float64]:
        test = self.calibration_.ood_test(conditional)
        if test.grouped:
            return test.pvalues(judged.ood, groups=judged.prediction.labels)
        return test.unchecked_pvalues(judged.ood)


def _with_absurd(found: Decisions, absurd: NDArray[np.bool_]) -> Decisions:
    """Call rows that are absurdly far out OOD, whatever their p-value, and say so."""
    if not absurd.any():
        return found
    action = np.where(absurd, ACTIONS.index("ood"), found.action)
    answer, abstain, unlike = found.reasons
    return replace(found, action=action, reasons=(answer, abstain, f"{unlike}, or a column a million deviations out"))


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
        return self._scores.update(self._classifier._judge(X).ood)
