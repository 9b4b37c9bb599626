"""What every calibrated classifier offers: sets, abstention, OOD flags, decisions and a stream monitor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.decisions import Decisions, Monitor, MonitorState, Policy, benjamini_hochberg
from volta.decisions.decide import ACTIONS, unchecked_decisions
from volta.decisions.multiple import discovery_note
from volta.decisions.set_scores import Floats, ScoreName
from volta.decisions.sets import Conditional
from volta.estimators.calibration import Calibration, Novelty, warn_if

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
    :class:`~volta.estimators.calibration.TooFewRowsWarning` says so.
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
