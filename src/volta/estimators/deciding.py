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
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_fraction, check_prediction
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.quantile import conformal_quantile
from volta.core.scaling import Scaler
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.decisions import (
    Decisions,
    Monitor,
    MonitorState,
    Policy,
    ScoreJoin,
    TableEvidence,
    benjamini_hochberg,
    fit_coverage,
    fit_join,
    fit_policy,
)
from volta.decisions.conformal import SCORE_NAMES, Conditional, Floats, ScoreName, SetScore
from volta.decisions.cross_conformal import CrossTest, fit_cross
from volta.decisions.decide import ACTIONS, unchecked_decisions
from volta.decisions.ood import discovery_note
from volta.decisions.ood_evidence import EVIDENCE_WEIGHTS, MODEL_WEIGHT
from volta.estimators.inputs import UnfittedClassifierError
from volta.networks.outputs import Outputs

if TYPE_CHECKING:
    from volta.methods.base import Method, PostHoc


BLOCK_ROWS = 32
FEW_ROWS = 16
_DROPPED_BITS = 20
_DECIMALS = 12
_LARGEST = 1e290


def predict_rows(method: Method, scaler: Scaler, rows: Array, n_classes: int) -> Prediction:
    """Scale and predict rows (n, d) in float64.

    A method that computes in single precision gets whole blocks: the last row is repeated and its results are cut off.
    """
    scaled = scaler.apply(rows, np.float64)
    if not method.single_precision:
        return settled(check_prediction(method.title, method._predict, scaled, n_classes))
    return settled(check_prediction(method.title, method._predict, in_blocks(scaled), n_classes), len(rows))


def predict_outputs(method: PostHoc, outputs: Outputs, n_classes: int) -> Prediction:
    """Predict rows by a network's outputs, in whole blocks: features are in single precision; see :func:`settled`."""
    features = None if outputs.features is None else in_blocks(outputs.features)
    blocks = Outputs(in_blocks(outputs.logits), features, outputs.last_layer)
    return settled(check_prediction(method.title, method.predict_outputs, blocks, n_classes), len(outputs))


def in_blocks(rows: Array) -> Array:
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


SET_ALPHAS = (0.2, 0.1, 0.05, 0.01)
"""For these the mean size of sets on calibration rows is kept."""


class TooFewRowsWarning(VoltaWarning):
    """There are too few calibration rows for what is asked; the message says what is done instead."""


class Member(Protocol):
    """One fit of a classifier, for inputs that the classifier has checked."""

    def predict(self, inputs: Any) -> Prediction:
        """Return what the method says of the inputs."""

    def evidence_of(self, inputs: Any, prediction: Prediction) -> Floats:
        """Return (n, m) OOD scores, the method's own last; higher = more OOD."""


def evidence_scores(evidence: TableEvidence | None, rows: Array, prediction: Prediction) -> Floats:
    """Return the evidence of rows (n, d), where there is any, and the method's OOD score last."""
    own = prediction.ood_score[:, None]
    if evidence is None:
        return own
    few = len(rows) <= FEW_ROWS
    found = evidence.unchecked_scores(rows.astype(np.float64, copy=False)) if few else evidence.scores(rows)
    return np.hstack([settled_scores(found), own])


def join_predictions(found: Sequence[Prediction]) -> Prediction:
    """Return the mean of what the fits say, and of sets what most say."""
    if len(found) == 1:
        return found[0]
    sets = [prediction.sets for prediction in found if prediction.sets is not None]
    return Prediction(
        np.mean([prediction.probs for prediction in found], axis=0),
        np.mean([prediction.uncertainty for prediction in found], axis=0),
        np.mean([prediction.ood_score for prediction in found], axis=0),
        np.mean(sets, axis=0) >= 0.5 if sets else None,
    )


@dataclass(frozen=True, eq=False)
class Scored:
    """What K fits say of n rows: ``prediction``, joined; ``probs`` (K, n, n_classes) and ``ood`` (K, n) of each fit."""

    prediction: Prediction
    probs: Floats
    ood: Floats


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known of n calibration rows, each array (n,), and of validation rows where a policy needs other rows.

    ``fold``: the number of the fit that a row calibrates, which did not see it; ``labels`` and ``predicted`` are class
    numbers, ``confidence`` the probability of the latter; ``true_scores`` holds, for each score of prediction sets, how
    badly a row's own class fits it, and ``set_sizes`` the mean size of sets at each of ``SET_ALPHAS``; ``join`` makes
    one OOD score of several, and ``ood`` are those; ``reference`` is the uncertainty of validation rows; ``true_probs``
    are the probabilities of the rows' own classes, with all their digits.
    """

    n_classes: int
    fold: NDArray[np.int64]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: Floats
    true_scores: dict[str, Floats]
    set_sizes: dict[str, tuple[float, ...]]
    uncertainty: Floats
    ood: Floats
    join: ScoreJoin
    reference: Floats
    true_probs: Floats

    @cached_property
    def rows_of(self) -> list[NDArray[np.intp]]:
        """Places of the rows that calibrate each fit."""
        return [np.flatnonzero(self.fold == place) for place in range(int(self.fold.max()) + 1)]

    @property
    def n_folds(self) -> int:
        """How many fits there are; 1 is split calibration."""
        return len(self.rows_of)

    def sets(
        self,
        probs: Floats,
        alpha: float,
        score: ScoreName,
        *,
        conditional: Conditional = "none",
        confidence: float | None = None,
        names: Sequence[Any] | None = None,
    ) -> NDArray[np.bool_]:
        """Return (n, n_classes) sets of rows by each fit's probabilities (K, n, n_classes); warn of too few rows.

        names: what the warning calls the classes, their numbers unless set.
        """
        test = self.set_test(score, conditional)
        alpha = check_fraction(alpha, "alpha")
        warn_if(test.note(alpha, names, level="alpha", confidence=confidence))
        lac = score == "lac"
        scores = 1.0 - probs if lac else np.stack([SetScore(score).of(each, None) for each in probs])
        return np.asarray(test.unchecked_pvalues(scores) > test.levels(alpha, confidence))

    def set_test(self, score: ScoreName, conditional: Conditional = "none") -> CrossTest:
        """Calibrate prediction sets, over all rows or within each class."""
        if score not in self.true_scores:
            raise InputError(f"score is {score!r}; pass one of {', '.join(self.true_scores)}")
        return self._test(score, self.true_scores[score], self.labels, conditional)

    def ood_test(self, conditional: Conditional = "none") -> CrossTest:
        """Calibrate OOD p-values, over all rows or within each predicted class."""
        return self._test("ood", self.ood, self.predicted, conditional)

    def policy(self, max_error: float | None, coverage: float | None, confidence: float) -> Policy:
        """Find the policy with at most ``max_error`` among answered rows, or the one that answers ``coverage``."""
        if coverage is None and max_error is not None:
            return fit_policy(
                self.uncertainty,
                self.predicted == self.labels,
                max_error=max_error,
                confidence=confidence,
                reference=self.reference,
                cross_fitted=self.n_folds > 1,
            )
        if coverage is not None and max_error is None:
            found = fit_coverage(self.uncertainty, coverage=coverage, confidence=confidence)
            return replace(found, cross_fitted=self.n_folds > 1)
        raise InputError(
            f"max_error is {max_error} and coverage {coverage}; pass one of them, e.g. fit_policy(max_error=0.02)"
        )

    def _test(self, name: str, scores: Floats, groups: NDArray[np.int64], conditional: Conditional) -> CrossTest:
        if conditional not in ("none", "class"):
            raise InputError(f"conditional is {conditional!r}; pass none or class")
        if (found := self._tests.get((name, conditional))) is None:
            grouped = [groups[rows] for rows in self.rows_of] if conditional == "class" else None
            found = fit_cross([scores[rows] for rows in self.rows_of], groups=grouped, n_groups=self.n_classes)
            self._tests[name, conditional] = found
        return found

    @cached_property
    def _tests(self) -> dict[tuple[str, str], CrossTest]:
        return {}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a fit says of rows that it did not train on: those that calibrate it, with ``evidence`` (n, m), and others.

    ``val_uncertainty``: of validation rows.
    """

    prediction: Prediction
    labels: NDArray[np.int64]
    evidence: Floats
    val_uncertainty: Floats


def hold_out(member: Member, cal: Any, labels: NDArray[np.int64], val: Any) -> HeldOut:
    """Return what a fit says of calibration and validation inputs."""
    prediction = member.predict(cal)
    return HeldOut(prediction, labels, member.evidence_of(cal, prediction), member.predict(val).uncertainty)


def calibrate(held_out: Sequence[HeldOut]) -> Calibration:
    """Keep what later calls need of the calibration rows' predictions, each by the fit that did not see the row."""
    probs = np.concatenate([found.prediction.probs for found in held_out])
    labels = np.concatenate([found.labels for found in held_out])
    rows = np.arange(len(labels))
    scores = {name: SetScore(name).of(probs, None) for name in SCORE_NAMES}
    true_scores: dict[str, Floats] = {name: values[rows, labels] for name, values in scores.items()}
    evidence = np.concatenate([found.evidence for found in held_out])
    # One column is the method's own score; ranks are joined under weights of which the last is the method's.
    weights = (*EVIDENCE_WEIGHTS, MODEL_WEIGHT) if evidence.shape[1] > 1 else None
    bounded = [False] * (evidence.shape[1] - 1) + [True]
    joined, ood = fit_join(evidence, weights=weights, bounded=bounded)
    return Calibration(
        n_classes=probs.shape[1],
        fold=np.repeat(np.arange(len(held_out)), [len(found.labels) for found in held_out]),
        labels=labels,
        predicted=np.concatenate([found.prediction.labels for found in held_out]),
        confidence=probs.max(axis=1).astype(np.float64),
        true_scores=true_scores,
        set_sizes={
            name: tuple(
                float((values <= conformal_quantile(true_scores[name], alpha)).sum(1).mean()) for alpha in SET_ALPHAS
            )
            for name, values in scores.items()
        },
        uncertainty=np.concatenate([found.prediction.uncertainty for found in held_out]),
        ood=ood,
        join=joined,
        reference=np.concatenate([found.val_uncertainty for found in held_out]),
        true_probs=probs[rows, labels].astype(np.float64),
    )


def warn_if(note: str) -> None:
    """Say that there are too few calibration rows, where there are."""
    if note:
        warn_user(note, TooFewRowsWarning)


CALIBRATION_TYPES: tuple[type, ...] = (Calibration, ScoreJoin, Scaler, TableEvidence)
"""The dataclasses that a saved classifier may hold besides its method's."""


ErrorsName: TypeAlias = Literal["flag", "raise"]
NO_ROWS: NDArray[np.intp] = np.arange(0)

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

    members_: Sequence[Member]

    @abstractmethod
    def _inputs(self, X: Any) -> Any:  # noqa: N803
        """Return X as the members take it; raise unless there is a fit and X is like its rows."""

    def predict_full(self, X: Any) -> Prediction:  # noqa: N803
        """Return the method's probabilities, uncertainty, OOD score and sets in one pass."""
        return self._predict(self._inputs(X))

    def _predict(self, inputs: Any) -> Prediction:
        return join_predictions([member.predict(inputs) for member in self.members_])

    def _cells(self, X: Any, errors: ErrorsName) -> tuple[Any, NDArray[Any] | None, NDArray[np.intp]]:  # noqa: N803
        """Return :meth:`_inputs`, what is to be said of cells that no training row has, and rows without a value."""
        return self._inputs(X), None, NO_ROWS

    def _scored(self, X: Any) -> Scored:  # noqa: N803
        """Return what each fit says of the rows, OOD scores joined."""
        return self._score(self._inputs(X))

    def _score(self, inputs: Any) -> Scored:
        found = [member.predict(inputs) for member in self.members_]
        join = self.calibration_.join
        ood = [
            join.unchecked_score(member.evidence_of(inputs, each))
            for member, each in zip(self.members_, found, strict=True)
        ]
        return Scored(join_predictions(found), np.stack([each.probs for each in found]), np.stack(ood))

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
        confidence: float | None = None,
        allow_empty: bool = True,
    ) -> NDArray[np.bool_]:
        """Return (n, K) sets that hold the true class with probability at least 1 − alpha.

        With split calibration that is exact; with cross-fitting the probability is near 1 − alpha and proven to be at
        least 1 − `cross_bound` (alpha, fold sizes), about 1 − 2 alpha. ``confidence`` (split calibration): with that
        probability over calibration draws it is at least 1 − alpha for the new rows of this model.
        ``score``: ``lac`` (the smallest sets), ``aps`` or ``raps`` (sets that grow where a row is ambiguous); None
        takes ``aps`` for the method of that name, else ``lac``. ``conditional="class"`` gives the guarantee for every
        class. A ``lac`` set is empty where no class fits; ``allow_empty=False`` puts the likeliest class there.
        """
        scored = self._scored(X)
        sets = self.calibration_.sets(
            scored.probs,
            alpha,
            self.set_score_ if score is None else score,
            conditional=conditional,
            confidence=confidence,
            names=self.classes_.tolist(),
        )
        if not allow_empty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, scored.prediction.labels[empty]] = True
        return sets

    def fit_policy(
        self, max_error: float | None = None, *, coverage: float | None = None, confidence: float = 0.95
    ) -> Policy:
        """Choose which rows are answered, on the calibration rows, and keep the policy in ``policy_``.

        ``max_error``: with probability ``confidence`` over calibration rows, at most this share of answered rows is
        wrong (split calibration; with cross-fitting that is measured, not proven), and as many rows as can be proven so
        from a few start points (see `volta.decisions.fit_policy`) are answered; ``exists`` is False where no threshold
        gives the guarantee.
        ``coverage``: this share of rows is answered, with its interval, and no guarantee on the error. With
        cross-fitting both are about right only: single fits score the calibration rows, their mean the new ones. Until
        it is called the policy has coverage 0.9.
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

        With cross-fitting P(p ≤ t) is measured to be near t. The score joins the method's own with the evidence of
        columns, distances and neighbours (`fit_evidence`, `fit_join`); without that step P(p ≤ t) is proven to be at
        most `cross_bound` (t, fold sizes). ``conditional="class"`` compares with calibration rows of the same predicted
        class.
        """
        return self._pvalues(self._scored(X), conditional)

    def is_ood(
        self,
        X: Any,  # noqa: N803
        fpr: float | None = None,
        *,
        fdr: float | None = None,
        conditional: Conditional = "none",
        confidence: float | None = None,
    ) -> NDArray[np.bool_]:
        """Flag OOD rows: at most the share ``fpr``, 0.05 unless set, of in-distribution rows is flagged, on average.

        ``fdr``, instead, bounds the expected share of false flags among the flags of this batch (Benjamini-Hochberg).
        ``conditional="class"`` keeps ``fpr`` within every predicted class. ``confidence`` (split calibration): with
        that probability over calibration draws at most ``fpr`` of this model's in-distribution rows are flagged. With
        cross-fitting the rate is near ``fpr``; see :meth:`ood_pvalues`. ``fdr`` and ``confidence`` are proven for one
        score that was made without the calibration rows, and measured for joined ones (`fit_join`).
        """
        if fdr is not None and (conditional != "none" or confidence is not None):
            raise InputError("fdr is set with conditional or confidence; the bound over a batch needs neither")
        if fdr is not None and fpr is not None:
            raise InputError(f"fpr is {fpr} and fdr {fdr}; pass one of them")
        scored = self._scored(X)
        pvalues = self._pvalues(scored, conditional)
        if fdr is not None:
            warn_if(discovery_note(len(self.calibration_.ood), len(pvalues), fdr))
            return benjamini_hochberg(pvalues, fdr)
        level, test = DEFAULT_FPR if fpr is None else fpr, self.calibration_.ood_test(conditional)
        levels = test.levels(level, confidence)
        warn_if(test.note(level, self.classes_.tolist(), confidence=confidence))
        own = levels[scored.prediction.labels] if test.grouped else levels
        return np.asarray(pvalues <= own)

    def decide(
        self,
        X: Any,  # noqa: N803
        *,
        fpr: float = 0.05,
        alpha: float = 0.1,
        errors: ErrorsName = "flag",
    ) -> Decisions:
        """Return answer, abstain or OOD for each row with label, probability, p-value, set and the reason in words.

        By ``policy_`` (see :meth:`fit_policy`), p-values at ``fpr`` and sets at ``alpha``. Of the rows that the policy
        answers a share φ may be flagged as OOD: its bound ε on the error among answered rows then holds as ε / (1 − φ)
        for those that are left. Where all rows are in-distribution φ is at most ``fpr`` over the policy's coverage on
        average over calibration draws; single draws exceed it (:func:`volta.decisions.decide` says how to bound it).
        Index the result for one row; ``to_array()`` gives a structured array, which ``pandas.DataFrame`` takes.

        ``errors``: what is done about cells that no training row has, such as an unknown category or NaN where none
        was missing. ``flag``: the reason names them; a row of numbers that are not finite is OOD, its p-value the
        smallest there is and its probabilities all alike. ``raise``: the first of them raises.
        """
        return self.decide_at(X, fpr, alpha=alpha, errors=errors)

    def decide_at(
        self,
        X: Any,  # noqa: N803
        level: float,
        reason: str = "",
        *,
        alpha: float = 0.1,
        errors: ErrorsName = "flag",
    ) -> Decisions:
        """Return :meth:`decide` with p-values at a level that a whole batch gave, of which ``X`` is a part.

        ``reason`` says in words why a row at that level is OOD.
        """
        if errors not in ("flag", "raise"):
            raise InputError(f"errors is {errors!r}; pass flag or raise")
        inputs, notes, lost = self._cells(X, errors)
        found = self.decide_scored(self._score(inputs), level, reason, alpha=alpha)
        return found if notes is None else _without_lost(replace(found, notes=notes), lost, len(self.calibration_.ood))

    def decide_scored(self, scored: Scored, level: float, reason: str = "", *, alpha: float = 0.1) -> Decisions:
        """Return :meth:`decide_at` of samples that the fits have scored."""
        test, prediction = self.calibration_.ood_test(), scored.prediction
        if not reason:
            warn_if(test.note(level))
        found = unchecked_decisions(
            prediction.probs,
            prediction.uncertainty,
            self._policy(None),
            test.unchecked_pvalues(scored.ood),
            level,
            self.calibration_.sets(scored.probs, alpha, self.set_score_),
            self.classes_,
        )
        return replace(found, reasons=(*found.reasons[:2], reason)) if reason else found

    def monitor(self, *, alpha: float = 0.01, random_state: int | None = None, block: int = 1) -> ClassifierMonitor:
        """Return a monitor of a stream of rows; see :class:`ClassifierMonitor`.

        ``block``: bet on every block-th row alone, where rows of the stream resemble or repeat their neighbours.
        """
        self._fitted()
        seed = self.seed_ if random_state is None else random_state
        # Scores of one fit and of the rows it did not see: only those are exchangeable with a stream's.
        scores = self.calibration_.ood[self.calibration_.rows_of[0]]
        return ClassifierMonitor(self, Monitor(scores, alpha=alpha, rng=rng(seed, "monitor"), block=block))

    def _pvalues(self, scored: Scored, conditional: Conditional) -> NDArray[np.float64]:
        test = self.calibration_.ood_test(conditional)
        if not test.grouped:
            return test.unchecked_pvalues(scored.ood)
        return test.pvalues(scored.ood, groups=scored.probs.argmax(axis=2))

    def _set_policy(
        self, max_error: float | None = None, coverage: float | None = None, confidence: float = 0.95
    ) -> None:
        self.policy_ = self.calibration_.policy(max_error, coverage, confidence)
        self.policy_settings_ = {"max_error": max_error, "coverage": coverage, "confidence": confidence}

    def _policy(self, coverage: float | None) -> Policy:
        policy = self.policy_ if coverage is None else self.calibration_.policy(None, coverage, 0.95)
        warn_if(policy.note)
        return policy


def _without_lost(found: Decisions, lost: NDArray[np.intp], n_calibration: int) -> Decisions:
    """Return decisions in which the rows ``lost`` are OOD and nothing is said of their class."""
    found.action[lost] = ACTIONS.index("ood")
    found.probability[lost] = 1.0 / len(found.class_names)
    found.uncertainty[lost] = 1.0 - 1.0 / len(found.class_names)
    if found.pvalue is not None:
        found.pvalue[lost] = 1.0 / (1.0 + n_calibration)
    if found.sets is not None:
        found.sets[lost] = True
    return found


class ClassifierMonitor:
    """Watches a stream of rows: alarms when they no longer look like the calibration rows.

    The probability of an alarm is at most ``alpha`` over all time, however often one looks, while rows are exchangeable
    with the calibration rows; rows that resemble their neighbours in time are not: see
    :class:`volta.decisions.Monitor`. That is proven for one score made without the calibration rows, and measured for
    joined ones (`fit_join`). ``state`` is the state after the last update, ``scores`` the monitor of scores with its
    ``save``; ``ClassifierMonitor(classifier, Monitor.load(path))`` goes on.
    """

    def __init__(self, classifier: DecidingMixin, scores: Monitor) -> None:
        self._classifier = classifier
        self.scores = scores

    @property
    def state(self) -> MonitorState:
        """What is known so far: ``alarm``, ``alarm_at``, an anytime-valid ``pvalue``, and a summary of the drift."""
        return self.scores.state

    def update(self, X: Any) -> MonitorState:  # noqa: N803
        """Take the next rows of the stream, in order, and return the state after them."""
        return self.scores.update(self._classifier._scored(X).ood[0])
