"""Cross-conformal p-values and prediction sets: every sample calibrates, none by a model that was fitted on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_count, check_labels, check_scores
from volta.core.errors import InputError
from volta.decisions.conformal import Floats, calibration_needed, first_names, float_level, level_of


@dataclass(frozen=True, eq=False)
class CrossTest:
    """Held-out scores, sorted, of each fold and within it of each group; made by `fit_cross`.

    ``scores[k][g]``: those of group g in fold k; one group where ``grouped`` is False. One fold is split calibration.
    """

    scores: tuple[tuple[Floats, ...], ...]
    grouped: bool

    def pvalues(self, scores: ArrayLike, *, groups: ArrayLike | None = None) -> Floats:
        """Return the p-value of each sample, and with three axes of each sample and class; see `fit_cross`.

        scores: (n_folds, n_samples), those of the K models, or (n_folds, n_samples, n_classes). groups: (n_samples,),
        or (n_folds, n_samples) where each model predicts the group; needed if and only if calibration was grouped, but
        not with three axes, where a class is its own group.
        """
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim not in (2, 3) or len(values) != len(self.scores) or np.isnan(values).any():
            raise InputError(
                f"scores has shape {values.shape}; pass ({len(self.scores)}, n_samples) without NaN, or "
                f"({len(self.scores)}, n_samples, n_classes): one score of each fold's model"
            )
        n_groups = len(self.scores[0])
        if values.ndim == 3:
            if groups is not None or (self.grouped and values.shape[2] != n_groups):
                raise InputError(
                    f"scores has {values.shape[2]} classes and calibration {n_groups} groups; pass scores of as many "
                    "classes, without groups"
                )
            return self.unchecked_pvalues(values)
        if self.grouped != (groups is not None):
            raise InputError("pass groups to fit_cross and to pvalues, or to neither")
        if groups is None:
            return self.unchecked_pvalues(values)
        members = np.stack([check_labels(row, n_groups, "groups") for row in np.atleast_2d(np.asarray(groups))])
        if members.shape[1] != values.shape[1] or len(members) not in (1, len(values)):
            raise InputError(f"groups has shape {np.shape(groups)}; pass (n_samples,) or (n_folds, n_samples)")
        return self._grouped(values, np.broadcast_to(members, values.shape))

    def unchecked_pvalues(self, scores: Floats) -> Floats:
        """Return ``pvalues`` of float64 scores without NaN; ungrouped with two axes, three as in ``pvalues``."""
        if not self.grouped:
            pooled, at_least, starts = self._pooled
            counts = at_least.take(pooled.searchsorted(scores) + (starts if scores.ndim == 2 else starts[:, None]))
            return np.asarray((1 + np.add.reduce(counts, axis=0)) / (1 + len(pooled)))
        at_least = np.zeros(scores.shape[1:], dtype=np.intp)
        for fold, values in zip(self.scores, scores, strict=True):
            for group, ordered in enumerate(fold):
                at_least[:, group] += len(ordered) - ordered.searchsorted(values[:, group])
        return np.asarray((1 + at_least) / (1 + self.counts))

    @cached_property
    def _pooled(self) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        """All folds' scores, sorted; how many of each fold are as large as each or larger, and where folds start there.

        One search then serves all folds, which halves the time of a single sample.
        """
        pooled = np.sort(np.concatenate([fold[0] for fold in self.scores]))
        at_least = [len(fold[0]) - fold[0].searchsorted(np.append(pooled, np.inf)) for fold in self.scores]
        return pooled, np.stack(at_least), np.arange(len(self.scores))[:, None] * (1 + len(pooled))

    def _grouped(self, scores: Floats, members: NDArray[Any]) -> Floats:
        at_least, size = np.zeros(scores.shape[1], dtype=np.intp), np.zeros(scores.shape[1], dtype=np.intp)
        for fold, values, groups in zip(self.scores, scores, members, strict=True):
            for group in np.unique(groups):
                rows, ordered = np.flatnonzero(groups == group), fold[group]
                at_least[rows] += len(ordered) - ordered.searchsorted(values[rows])
                size[rows] += len(ordered)
        return np.asarray((1 + at_least) / (1 + size))

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Held-out samples of each group, (n_groups,)."""
        return np.array([sum(map(len, fold)) for fold in zip(*self.scores, strict=True)])

    def flags(self, scores: ArrayLike, *, fpr: float = 0.05, groups: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return ``pvalues(scores) <= fpr``; P(flag | in-distribution) is near ``fpr``, at most ``bound(fpr)``."""
        return np.asarray(self.pvalues(scores, groups=groups) <= float_level(fpr, "fpr"))

    def levels(self, alpha: float, confidence: float | None) -> Floats:
        """Return the level of each group that p-values are compared with; see `level_of`. A confidence needs one fold.

        >>> fit_cross([np.arange(200.0)]).levels(0.05, 0.95).round(3)
        array([0.025])
        """
        if confidence is not None and len(self.scores) > 1:
            raise InputError(
                "confidence is set, and no such bound is known for cross-fitted calibration; fit with "
                "calibration='split' or with cal_set"
            )
        return np.array([level_of(n, alpha, confidence) for n in self.counts.tolist()])

    def sets(self, scores: ArrayLike, *, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Return (n_samples, n_classes) membership of {k : p_k(x) > alpha}; scores: (n_folds, n_samples, n_classes).

        Held-out scores are those of each sample's own class, grouped by that class or not. P(y not in set) is near
        ``alpha``, and at most ``bound(alpha)``.
        """
        return np.asarray(self.pvalues(scores) > float_level(alpha, "alpha"))

    def bound(self, alpha: float) -> Floats:
        """Return what P(p ≤ alpha) is proven to be at most, of each group: `cross_bound`."""
        sizes = zip(*(tuple(map(len, fold)) for fold in self.scores), strict=True)
        return np.array([cross_bound(alpha, group) for group in sizes])

    def note(
        self, alpha: float, names: Sequence[Any] | None = None, *, level: str = "fpr", confidence: float | None = None
    ) -> str:
        """Say in words where no p-value can be as small as ``alpha``; empty where one can in every group.

        names: what to call the groups, their numbers unless set; level: the name of the argument ``alpha``.
        """
        needed = calibration_needed(alpha, confidence)
        if self._fewest >= needed:
            return ""
        few = np.flatnonzero(self.counts < needed)
        asked = f"{level} = {alpha:g}" + ("" if confidence is None else f" with confidence {confidence:g}")
        what = "no flag" if level == "fpr" else "every set holds every class"
        if not self.grouped:
            return f"{self.counts[0]} calibration samples are too few for {asked}, which needs {needed}: {what}"
        called = first_names([names[group] if names is not None else group for group in few.tolist()])
        kind, what = ("groups", "no flag there") if level == "fpr" else ("classes", "they are in every set")
        return f"{kind} {called} have fewer than the {needed} calibration rows that {asked} needs: {what}"

    @cached_property
    def _fewest(self) -> int:
        return int(self.counts.min())


def fit_cross(
    held_out: Sequence[ArrayLike], *, groups: Sequence[ArrayLike] | None = None, n_groups: int | None = None
) -> CrossTest:
    """Keep the held-out scores of K folds, for cross-conformal p-values, flags and sets of new samples.

    p(x) = (1 + Σ_k #{i in fold k : c_i ≥ s_k(x)}) / (n + 1): c_i is the score of sample i by the model that was fitted
    without its fold k, s_k(x) the new sample's by the same model, n all samples together. Ties count against a flag.
    With groups only the new sample's own group is counted, in sum and in n (Mondrian form): true classes for sets that
    hold the class with probability 1 − α given each class, predicted classes or a column for flags.
    Guarantee: P(p ≤ α) ≤ `cross_bound(α, fold sizes)`, which is 2α + 2 (1 − α)(K − 1)/(n + K) or less, within each
    group too where a sample's group is the same in every fold. (Where each model predicts the group the folds' weights
    depend on the sample, and no bound is proven.) In practice P(p ≤ α) is near α, and nothing more is proven.
    Conditions: the n samples and the new one are exchangeable; the folds are drawn without looking at them (duplicates
    that stay together break this where they are many); model and score of fold k see nothing of fold k, no scaler,
    temperature or rank taken from it.
    Reference: Vovk (2015), Cross-Conformal Predictors; Vovk and Wang (2020), Combining P-Values via Averaging; Barber,
    Candès, Ramdas and Tibshirani (2021), Predictive Inference with the Jackknife+, Theorem 4.
    held_out: K arrays (n_k,), higher = less conforming; groups: K arrays (n_k,) of group numbers below ``n_groups``.

    >>> test = fit_cross([[0.1, 0.4], [0.2, 0.3]])
    >>> test.pvalues([[0.35, 0.1], [0.25, 0.2]])  # (1 + 1 + 1) / 5 and (1 + 2 + 2) / 5
    array([0.6, 1. ])
    """
    folds = [check_scores(scores, f"held_out[{fold}]") for fold, scores in enumerate(held_out)]
    if not folds:
        raise InputError("held_out has no fold; pass the scores of at least one")
    if groups is None:
        return CrossTest(tuple((np.sort(fold),) for fold in folds), grouped=False)
    if [len(fold) for fold in folds] != [np.size(np.asarray(fold)) for fold in groups]:
        raise InputError("groups and held_out differ in folds or in samples of a fold; pass one group for each score")
    size = check_count(n_groups, "n_groups") if n_groups else 1 + max(int(np.max(fold)) for fold in groups)
    members = [check_labels(fold, size, f"groups[{index}]") for index, fold in enumerate(groups)]
    return CrossTest(
        tuple(
            tuple(np.sort(fold[own == group]) for group in range(size))
            for fold, own in zip(folds, members, strict=True)
        ),
        grouped=True,
    )


def cross_pvalues(held_out: Sequence[ArrayLike], scores: ArrayLike) -> Floats:
    """Return `fit_cross` (held_out).pvalues(scores): (n_samples,), or (n_samples, n_classes).

    >>> cross_pvalues([[0.1, 0.4], [0.2, 0.3]], [[0.9], [0.9]])
    array([0.2])
    """
    return fit_cross(held_out).pvalues(scores)


def cross_bound(alpha: float, fold_sizes: Sequence[int]) -> float:
    """Return what P(p ≤ α) of a cross-conformal p-value is proven to be at most, for K folds of these sizes.

    α for one fold, which is split calibration. For more folds of any sizes 2α + 2 (1 − α)(K − 1)/(n + K):
    Σ_k (1 + #_k)/(n + K) is a weighted mean of the folds' p-values, which is at most u with probability at most 2u.
    2α + (1 − K/n)/(K + 1) for equal sizes, and so 2α for folds of one sample.
    Reference: Vovk and Wang (2020); Barber, Candès, Ramdas and Tibshirani (2021), Theorem 4.

    >>> round(cross_bound(0.05, [80] * 5), 4), cross_bound(0.05, [1] * 100)
    (0.1188, 0.1)
    """
    level, n_folds, n = float_level(alpha, "alpha"), len(fold_sizes), int(sum(fold_sizes))
    if n_folds == 1:
        return level
    found = 2 * level + 2 * (1 - level) * (n_folds - 1) / (n + n_folds)
    if len(set(fold_sizes)) == 1 and n:
        found = min(found, 2 * level + (1 - n_folds / n) / (n_folds + 1))
    return min(1.0, found)
