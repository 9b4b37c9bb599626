"""Conformal p-values: how unusual a score is among calibration rows, with an exact false-alarm rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_count, check_labels, check_same_length, check_scores, without_graph
from volta.core.errors import InputError
from volta.decisions.ranks import exact_level, first_names, float_level, smallest_n
from volta.decisions.set_scores import Floats


@dataclass(frozen=True, eq=False)
class OodTest:
    """Calibration scores, sorted, of all rows together or of each group; made by `fit_ood`.

    ``scores``: one sorted array for each group, a single one where ``grouped`` is False.
    """

    scores: tuple[Floats, ...]
    grouped: bool

    def pvalues(
        self, scores: ArrayLike, *, groups: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> Floats:
        """Return the conformal p-value of each row; see `conformal_pvalues` for formula and guarantee.

        scores: (n_samples,); groups: (n_samples,), needed if and only if calibration was grouped.
        """
        values = check_scores(scores)
        self._check_groups(groups)
        if groups is None:
            return self.unchecked_pvalues(values, rng)
        members = check_labels(groups, len(self.scores), "groups")
        check_same_length(scores=values, groups=members)
        result = np.empty(len(values))
        present, counts = np.unique(members, return_counts=True)
        by_group = np.split(np.argsort(members, kind="stable"), np.cumsum(counts)[:-1])
        for group, rows in zip(present, by_group, strict=True):
            result[rows] = _pvalues(self.scores[group], values[rows], rng)
        return result

    def unchecked_pvalues(self, scores: Floats, rng: np.random.Generator | None = None) -> Floats:
        """Return ``pvalues`` of ungrouped float64 scores without NaN, which are not looked at again."""
        return _pvalues(self.scores[0], scores, rng)

    def flags(self, scores: ArrayLike, *, fpr: float = 0.05, groups: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Flag rows as OOD where the p-value is at most ``fpr``.

        Guarantee: P(flag | in-distribution) ≤ fpr over calibration and new rows together, ⌊fpr (n + 1)⌋ / (n + 1) for
        scores without ties; within each group where calibration was grouped. Where n is too small nothing can be
        flagged: see ``note``.
        """
        return np.asarray(self.pvalues(scores, groups=groups) <= float_level(fpr, "fpr"))

    def false_alarm_rate(self, fpr: float = 0.05) -> Floats:
        """P(flag | in-distribution) of each group for scores without ties: ⌊fpr (n + 1)⌋ / (n + 1), at most ``fpr``."""
        level = exact_level(fpr, "fpr")
        sizes = [len(own) + 1 for own in self.scores]
        return np.array([level.numerator * size // level.denominator / size for size in sizes])

    def note(self, fpr: float = 0.05, names: Sequence[Any] | None = None) -> str:
        """Say in words where ``fpr`` asks for more calibration rows than there are; empty where it does not.

        names: what to call the groups, their numbers unless set.
        """
        needed = smallest_n(float_level(fpr, "fpr"))
        if self._fewest >= needed:
            return ""
        few = [group for group, own in enumerate(self.scores) if len(own) < needed]
        if not self.grouped:
            return (
                f"{len(self.scores[0])} calibration rows are too few for fpr = {fpr:g}, which needs {needed}: no flag"
            )
        called = first_names(few if names is None else [names[group] for group in few])
        return f"groups {called} have fewer than the {needed} calibration rows that fpr = {fpr:g} needs: no flag there"

    @cached_property
    def _fewest(self) -> int:
        return min(map(len, self.scores))

    def _check_groups(self, groups: ArrayLike | None) -> None:
        if self.grouped and groups is None:
            raise InputError("groups is missing, and calibration was grouped; pass the predicted label of each row")
        if not self.grouped and groups is not None:
            raise InputError("groups is set, but calibration was not grouped; leave it out, or pass it to fit_ood too")


def fit_ood(scores: ArrayLike, *, groups: ArrayLike | None = None, n_groups: int | None = None) -> OodTest:
    """Keep the calibration scores, so that p-values of new rows take O(log n) each.

    groups: (n_samples,) the predicted labels (not the true ones, which a new row does not have), for false-alarm rates
    that hold for every predicted label; n_groups: how many labels there are, the largest + 1 unless set. A label
    without calibration rows gives p-value 1.
    scores: (n_samples,) of rows that neither trained nor tuned the score, higher = more OOD.

    >>> test = fit_ood(np.arange(19.0))
    >>> test.flags([18.5, 3.0], fpr=0.05)
    array([ True, False])
    >>> fit_ood([0.1, 0.2]).note(0.05)
    '2 calibration rows are too few for fpr = 0.05, which needs 19: no flag'
    """
    values = check_scores(scores)
    if groups is None:
        return OodTest((np.sort(values),), grouped=False)
    size = check_count(n_groups, "n_groups") if n_groups is not None else _n_groups(groups)
    members = check_labels(groups, size, "groups")
    check_same_length(scores=values, groups=members)
    ordered = values[np.lexsort((values, members))]
    ends = np.cumsum(np.bincount(members, minlength=size))
    return OodTest(tuple(np.split(ordered, ends[:-1])), grouped=True)


def _n_groups(groups: ArrayLike) -> int:
    return int(np.max(np.asarray(without_graph(groups)), initial=0)) + 1


def conformal_pvalues(
    calibration: ArrayLike, scores: ArrayLike, *, rng: np.random.Generator | None = None
) -> NDArray[np.float64]:
    """One-sided conformal p-values: p = (1 + #{i : c_i ≥ s}) / (n + 1).

    c_i: the n calibration scores; s: the score of a new row; higher = more OOD. With ``rng`` the smoothed form
    p = (#{c_i > s} + U (1 + #{c_i = s})) / (n + 1), U ~ U(0, 1), breaks ties at random.
    Guarantee: P(p ≤ t) ≤ t for every t where new and calibration rows are exchangeable, over both draws together;
    P(p ≤ t) = t for the smoothed form. Given the calibration rows alone the rate varies around t, by about
    √(t (1 − t) / n). Condition: the score was made without the calibration rows.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World; Bates et al. (2023), Testing
    for Outliers with Conformal p-values.
    calibration: (n_calibration,); scores: (n_samples,); returns (n_samples,) in (0, 1].

    >>> conformal_pvalues([1.0, 2.0, 3.0], [2.0, 9.0, 0.0])
    array([0.75, 0.25, 1.  ])
    """
    return fit_ood(check_scores(calibration, "calibration")).pvalues(scores, rng=rng)


def _pvalues(ordered: Floats, values: Floats, rng: np.random.Generator | None) -> Floats:
    n = len(ordered)
    at_least = n - ordered.searchsorted(values)
    if rng is None:
        return np.asarray((1 + at_least) / (n + 1))
    above = n - np.searchsorted(ordered, values, side="right")
    # 1 − U is in (0, 1], so that no p-value is 0.
    return np.asarray((above + (1 - rng.random(len(values))) * (1 + at_least - above)) / (n + 1))
