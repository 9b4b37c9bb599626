"""Prediction sets that hold the true class with a promised probability, for all rows or for every class."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import (
    as_prob_array,
    check_count,
    check_labels,
    check_same_length,
    check_scores,
    checked_row_chunks,
)
from volta.core.errors import InputError
from volta.core.quantile import conformal_quantile
from volta.decisions.ranks import conformal_rank, exact_level, first_names, smallest_n
from volta.decisions.set_scores import Floats, ScoreName, SetScore

Conditional: TypeAlias = Literal["none", "class"]


@dataclass(frozen=True, eq=False)
class SetThresholds:
    """The largest score at which each class is still in a set.

    ``values`` (n_classes,) thresholds, all equal where ``conditional`` is ``none``; ``counts`` (n_classes,) calibration
    rows behind each. An infinite threshold puts its class into every set.
    """

    alpha: float
    conditional: Conditional
    values: Floats
    counts: NDArray[np.intp]

    @cached_property
    def always_included(self) -> tuple[int, ...]:
        """Classes with too few calibration rows for α: they are in every set."""
        return tuple(int(k) for k in np.flatnonzero(self.counts < smallest_n(self.alpha)))

    @property
    def note(self) -> str:
        """Say in words which promises are kept only by including everything; empty where none is."""
        return self.note_of(range(len(self.values)))

    def note_of(self, names: Sequence[Any]) -> str:
        """Return ``note`` with the classes called ``names``, one for each."""
        if not self.always_included:
            return ""
        if self.conditional == "none":
            return conformal_rank(int(self.counts[0]), self.alpha).note + ", and every set holds every class"
        few = self.always_included
        return (
            f"classes {first_names([names[k] for k in few])} have fewer than the {smallest_n(self.alpha)} "
            f"calibration rows that alpha = {self.alpha:g} needs: they are in every set"
        )


@dataclass(frozen=True, eq=False)
class SetPredictor:
    """Calibrated prediction sets C(x) = {k : s(x, k) ≤ q_k}; made by `fit_sets`."""

    score: SetScore
    thresholds: SetThresholds
    randomised: bool
    allow_empty: bool

    def predict(self, probs: ArrayLike, *, rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """Return (n_samples, n_classes) membership; ``rng`` is needed if and only if calibration was randomised.

        probs: (n_samples, n_classes) from the same model as in `fit_sets`.
        """
        array = as_prob_array(probs)
        if array.shape[1] != len(self.thresholds.values):
            raise InputError(
                f"probs has {array.shape[1]} classes but calibration had {len(self.thresholds.values)}; "
                "pass probabilities of the same model"
            )
        if self.randomised != (rng is not None):
            raise InputError(
                "rng is missing, and calibration was randomised; pass a numpy Generator"
                if self.randomised
                else "rng is set, but calibration was not randomised; leave it out, or pass rng to fit_sets too"
            )
        sets = np.empty(array.shape, dtype=np.bool_)
        for rows, chunk in checked_row_chunks(array):
            sets[rows] = self.unchecked_sets(chunk, rng)
        return sets

    def unchecked_sets(self, probs: NDArray[Any], rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """Return ``predict`` of probabilities that are known to be some, which are not looked at again."""
        sets = self.score.of(probs, rng) <= self.thresholds.values
        if not self.allow_empty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probs[empty].argmax(axis=1)] = True
        return np.asarray(sets)


def fit_thresholds(
    true_scores: ArrayLike, labels: ArrayLike, n_classes: int, *, alpha: float = 0.1, conditional: Conditional = "none"
) -> SetThresholds:
    """Calibrate any score: q_k is the ⌈(n_k + 1)(1 − α)⌉-th smallest score of its calibration rows, inf beyond n_k.

    With ``conditional="none"`` all n rows give one q; with ``"class"`` the n_k rows of class k give q_k.
    Guarantee: sets {k : s(x, k) ≤ q_k} hold the true class with probability ≥ 1 − α over calibration and new rows
    together; with ``"class"`` also given that the true class is k, for each k. Condition: calibration and new rows are
    exchangeable (within a class), and the score was made without the calibration rows.
    Reference: Vovk (2012), Conditional Validity of Inductive Conformal Predictors.
    true_scores: (n_samples,) score of each calibration row's own class; labels: (n_samples,); n_classes: K.

    >>> fit_thresholds([0.1, 0.2, 0.9], [0, 0, 1], 2, alpha=0.5, conditional="class").values
    array([0.2, 0.9])
    """
    scores = check_scores(true_scores, "true_scores")
    classes = check_labels(labels, check_count(n_classes, "n_classes"))
    check_same_length(true_scores=scores, labels=classes)
    exact_level(alpha, "alpha")
    if conditional not in ("none", "class"):
        raise InputError(f"conditional is {conditional!r}; pass none or class")
    if conditional == "none":
        values = np.full(n_classes, conformal_quantile(scores, alpha))
        return SetThresholds(float(alpha), conditional, values, np.full(n_classes, len(scores)))
    counts = np.bincount(classes, minlength=n_classes)
    by_class = np.split(scores[np.argsort(classes, kind="stable")], np.cumsum(counts)[:-1])
    values = np.array([conformal_quantile(own, alpha) if len(own) else np.inf for own in by_class])
    return SetThresholds(float(alpha), conditional, values, counts)


def fit_sets(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: float = 0.1,
    score: ScoreName | SetScore = "lac",
    conditional: Conditional = "none",
    allow_empty: bool = True,
    rng: np.random.Generator | None = None,
) -> SetPredictor:
    """Calibrate prediction sets on rows that neither trained nor tuned the model.

    C(x) = {k : s(x, k) ≤ q_k}, s by ``score`` (see `lac_scores`, `aps_scores`, `raps_scores`), q as in
    `fit_thresholds`. Guarantee: P(y ∈ C(x)) ≥ 1 − α over calibration and new rows together, for exchangeable rows; with
    ``conditional="class"`` P(y ∈ C(x) | y = k) ≥ 1 − α for every class k. For scores without ties P(y ∈ C(x)) is
    ⌈(n + 1)(1 − α)⌉ / (n + 1) exactly. A class with too few calibration rows gets an infinite threshold and is always
    included; ``thresholds.note`` says so.

    A set may be empty: no class fits the row as well as calibration rows fit theirs. ``allow_empty=False`` puts the
    likeliest class into such sets, which can only raise the coverage above the promise. ``rng`` asks for the
    randomised form of aps and raps, here and in ``predict``; pass independent draws.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    >>> fit_sets(probs, [0, 0, 1, 1], alpha=0.4).predict([[0.75, 0.25], [0.55, 0.45]])
    array([[ True, False],
           [False, False]])
    """
    chosen = score if isinstance(score, SetScore) else SetScore(score)
    if rng is not None and chosen.name == "lac":
        raise InputError("rng is set, but score lac has no randomised form; leave it out, or pass score aps or raps")
    array = as_prob_array(probs)
    classes = check_labels(labels, array.shape[1])
    check_same_length(probs=array, labels=classes)
    own = np.empty(len(classes))
    for rows, chunk in checked_row_chunks(array):
        own[rows] = np.take_along_axis(chosen.of(chunk, rng), classes[rows, None], axis=1)[:, 0]
    thresholds = fit_thresholds(own, classes, array.shape[1], alpha=alpha, conditional=conditional)
    return SetPredictor(chosen, thresholds, randomised=rng is not None, allow_empty=allow_empty)
