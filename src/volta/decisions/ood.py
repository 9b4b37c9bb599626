"""Conformal p-values of OOD scores, scores joined by rank, many p-values at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_count, check_labels, check_same_length, check_scores, refuse_mask, without_graph
from volta.core.errors import InputError
from volta.decisions.conformal import Floats, calibration_needed, exact_level, first_names, float_level, level_of


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

    def flags(
        self, scores: ArrayLike, *, fpr: float = 0.05, groups: ArrayLike | None = None, confidence: float | None = None
    ) -> NDArray[np.bool_]:
        """Flag rows as OOD where the p-value is at most ``fpr``.

        Guarantee: P(flag | in-distribution) ≤ fpr over calibration and new rows together, ⌊fpr (n + 1)⌋ / (n + 1) for
        scores without ties; within each group where calibration was grouped. With ``confidence`` p-values are compared
        with the lower `conditional_level`: with that probability over calibration draws, for each group by itself,
        P(flag | in-distribution, calibration rows) ≤ fpr. Where n is too small nothing can be flagged: see ``note``.
        """
        asked = float_level(fpr, "fpr")
        levels = np.array([level_of(len(own), asked, confidence) for own in self.scores])
        pvalues = self.pvalues(scores, groups=groups)
        return np.asarray(pvalues <= (levels[0] if groups is None else levels[np.asarray(groups, dtype=np.intp)]))

    def false_alarm_rate(self, fpr: float = 0.05) -> Floats:
        """P(flag | in-distribution) of each group for scores without ties: ⌊fpr (n + 1)⌋ / (n + 1), at most ``fpr``."""
        level = exact_level(fpr, "fpr")
        sizes = [len(own) + 1 for own in self.scores]
        return np.array([level.numerator * size // level.denominator / size for size in sizes])

    def note(self, fpr: float = 0.05, names: Sequence[Any] | None = None, confidence: float | None = None) -> str:
        """Say in words where ``fpr`` asks for more calibration rows than there are; empty where it does not.

        names: what to call the groups, their numbers unless set.
        """
        needed = calibration_needed(fpr, confidence)
        if self._fewest >= needed:
            return ""
        few = [group for group, own in enumerate(self.scores) if len(own) < needed]
        level = f"fpr = {fpr:g}" + ("" if confidence is None else f" with confidence {confidence:g}")
        if not self.grouped:
            return f"{len(self.scores[0])} calibration samples are too few for {level}, which needs {needed}: no flag"
        called = first_names(few if names is None else [names[group] for group in few])
        return f"groups {called} have fewer than the {needed} calibration rows that {level} needs: no flag there"

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
    '2 calibration samples are too few for fpr = 0.05, which needs 19: no flag'
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
    Guarantee: P(p ≤ t) ≤ t for every t where new and calibration samples are exchangeable, over both draws together;
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


@dataclass(frozen=True, eq=False)
class ScoreJoin:
    """One score from m scores of a row, by their ranks among n held-out rows; made by `fit_join`.

    ``reference``: m sorted arrays (n,); ``weights`` (m,); ``bounded`` (m,): which scores have no excess.
    """

    reference: tuple[Floats, ...]
    weights: Floats
    bounded: NDArray[np.bool_]

    def score(self, scores: ArrayLike) -> Floats:
        """Return one score a row of (n_samples, m) scores, higher = more OOD."""
        return self.unchecked_score(_check_score_table(scores, len(self.reference)))

    def unchecked_score(self, scores: Floats) -> Floats:
        """Return ``score`` of float64 scores without NaN, which are not looked at again."""
        if len(self.reference) == 1:
            return np.asarray(scores[:, 0])
        columns = np.ascontiguousarray(scores.T)
        ranks = np.array(
            [ordered.searchsorted(column) for ordered, column in zip(self.reference, columns, strict=True)]
        )
        weights, largest = self._columns
        terms = weights / (1.0 + len(self.reference[0]) - ranks)
        terms += weights * np.maximum(columns - largest, 0.0)
        found: Floats = terms[0]
        for term in terms[1:]:  # The order of a sum must not depend on how many rows there are.
            found += term
        return found

    @cached_property
    def _columns(self) -> tuple[Floats, Floats]:
        """Weights, and the scores beyond which there is an excess, (m, 1)."""
        largest = [
            np.inf if bounded else ordered[-1] for bounded, ordered in zip(self.bounded, self.reference, strict=True)
        ]
        return self.weights[:, None], np.array(largest)[:, None]


def fit_join(
    scores: ArrayLike, *, weights: ArrayLike | None = None, bounded: ArrayLike | None = None
) -> tuple[ScoreJoin, Floats]:
    """Learn to join m scores of a row into one on held-out rows, and return those rows' joined scores (n,) too.

    c(x) = Σ_j w_j (1 / (1 + #{i : r_ij ≥ s_j(x)}) + max(0, s_j(x) − max_i r_ij)): r_ij is score j of held-out row i;
    the second term, the excess, is left out for ``bounded`` scores. So c is a weighted mean of inverse p-values, which
    one score alone can make large and many can together; beyond all held-out rows unbounded scores, which must be in
    units that mean the same (one unit counts as much as a rank of 1), go on growing. A single score stays as it is.
    A held-out row is joined by the same formula with the n − 1 other rows as the reference.
    Guarantee: pass the joined held-out scores to `fit_ood` where one fixed function scored all held-out rows: then
    P(p ≤ α) ≤ α. Were the new row one more reference row of the held-out rows, all n + 1 would be treated alike.
    Without it their joined scores, and with them p, are the same or larger. (A held-out row among its own reference
    would lose a rank to new rows: any that exceeds all held-out rows by one of m scores would come first.)
    For K folds, pool the folds' held-out scores here and pass the joined ones by fold to `fit_cross`. The same holds
    for the rows of each fold, but for one thing: the other folds' models saw that fold and not the new row. So
    `cross_bound` is not proven of joined scores of folds. Nor are the false discovery rate, the rate given the
    calibration rows (`conditional_level`) and the independence that `Monitor` needs: all these take a score made
    without the calibration rows. Of one held-out part they are measured to hold.
    scores: (n, m), higher = more OOD; weights: (m,) positive, equal unless set, scaled to sum 1; bounded: (m,), none
    unless set.

    >>> join, held_out = fit_join([[0.0, 5.0], [1.0, 6.0], [2.0, 9.0]])
    >>> held_out.round(2), join.score([[1.5, 6.5], [3.0, 4.0]]).round(2)
    (array([0.33, 0.5 , 3.  ]), array([0.5 , 1.12]))
    """
    table = _check_score_table(scores, None)
    n, m = table.shape
    share = np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)
    kinds = np.zeros(m, dtype=np.bool_) if bounded is None else np.asarray(bounded, dtype=np.bool_)
    if share.shape != (m,) or kinds.shape != (m,) or not (np.isfinite(share) & (share > 0)).all():
        raise InputError(
            f"weights has shape {share.shape} and bounded {kinds.shape}; pass {m} positive weights and {m}"
        )
    join = ScoreJoin(tuple(np.sort(column) for column in table.T), share / share.sum(), kinds)
    if m == 1:
        return join, table[:, 0].copy()
    found = np.zeros(n)
    for ordered, weight, is_bounded, column in zip(join.reference, join.weights, kinds, table.T, strict=True):
        found += weight / (n - ordered.searchsorted(column))
        if not is_bounded and n > 1:
            largest_other = np.where(column == ordered[-1], ordered[-2], ordered[-1])
            found += weight * np.maximum(column - largest_other, 0.0)
    return join, found


def _check_score_table(scores: ArrayLike, n_scores: int | None) -> Floats:
    refuse_mask(scores, "scores")
    table = np.asarray(without_graph(scores), dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or (n_scores is not None and table.shape[1] != n_scores):
        expected = "n_scores" if n_scores is None else str(n_scores)
        raise InputError(f"scores has shape {table.shape}; pass (n_samples, {expected}), one column for each score")
    if not np.isfinite(table).all():
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise InputError(f"scores row {row} holds NaN or infinity; join finite scores")
    return table


HARD_SHARE = 0.1


def benjamini_hochberg(pvalues: ArrayLike, fdr: float = 0.1) -> NDArray[np.bool_]:
    """Flag rows of a batch so that the expected share of false flags among the flags is at most ``fdr``.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎ all rows with p ≤ p₍ₖ₎ are flagged, k = max{i : p₍ᵢ₎ ≤ i · fdr / m}.
    Guarantee: FDR ≤ fdr · (share of in-distribution rows), for p-values of `conformal_pvalues` or `OodTest.pvalues`
    without ``rng``, tied scores included, where each in-distribution row is exchangeable with the calibration rows
    given all other rows. The p-values share their calibration rows and so depend on one another, in a way that does no
    harm: the number of flags, whenever row i is flagged, does not depend on which of the n + 1 calibration scores and
    its own is that of row i. A batch of m rows needs about m / fdr calibration rows for a single OOD row to be found.
    Reference: Benjamini and Hochberg (1995); Bates et al. (2023), Testing for Outliers with Conformal p-values;
    Marandon, Lei, Mary and Roquain (2024), Adaptive Novelty Detection with False Discovery Rate Guarantee.
    pvalues: (n_samples,) in [0, 1]; returns (n_samples,) booleans.

    >>> benjamini_hochberg([0.01, 0.9, 0.04, 0.09], fdr=0.1)
    array([ True, False,  True, False])
    """
    values = check_pvalues(pvalues, 1)
    level = exact_level(fdr, "fdr")
    ordered = np.sort(values)
    steps = np.arange(1, len(ordered) + 1) * level.numerator / (level.denominator * len(ordered))
    within = np.flatnonzero(ordered <= steps)
    cut = ordered[within[-1]] if len(within) else -1.0
    return np.asarray(values <= cut)


def discovery_note(n_calibration: int, n_rows: int, fdr: float) -> str:
    """Say in words where so few calibration rows make flags of a batch impossible or hard; empty where they do not.

    No p-value is below 1 / (n + 1), so that any flag takes k = m / (fdr · (n + 1)) rows of the batch's m with such
    p-values, rounded up; hard is where that is more than one row, and more than a tenth of the batch.

    >>> discovery_note(9, 100, 0.2)
    '9 calibration samples are few for fdr = 0.2: no row of this batch of 100 is flagged unless at least 50 are far out'
    """
    level = exact_level(fdr, "fdr")
    needed = -(-n_rows * level.denominator // (level.numerator * (n_calibration + 1)))
    few = f"{n_calibration} calibration samples are few for fdr = {fdr:g}: no row of this batch of {n_rows} is flagged"
    if needed > n_rows:
        return f"{few}, which takes {-(-level.denominator // level.numerator) - 1} calibration rows at least"
    return f"{few} unless at least {needed} are far out" if needed > max(1, HARD_SHARE * n_rows) else ""


def bonferroni(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Combine m p-values of each row into one: p = min(1, m · min_j p_j).

    Guarantee: P(p ≤ t) ≤ t if each p_j has it, whatever their dependence; in general less than t. It needs no further
    rows; where there are some, `fit_join` loses nothing.
    pvalues: (n_samples, m) in [0, 1]; returns (n_samples,).

    >>> bonferroni([[0.01, 0.5], [0.8, 0.9]])
    array([0.02, 1.  ])
    """
    values = check_pvalues(pvalues, 2)
    return np.asarray(np.minimum(1.0, values.shape[1] * values.min(axis=1)))


def check_pvalues(pvalues: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """Return `pvalues` as a float64 array of ``ndim`` dimensions with values from 0 to 1."""
    refuse_mask(pvalues, "pvalues")
    values = np.asarray(without_graph(pvalues), dtype=np.float64)
    if values.ndim != ndim or values.size == 0:
        expected = "(n_samples,)" if ndim == 1 else "(n_samples, n_tests)"
        raise InputError(f"pvalues has shape {values.shape}; expected {expected}, not empty")
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong.reshape(len(values), -1).any(axis=1)))
        raise InputError(f"pvalues row {row} holds {values[row][wrong[row]].flat[0]}; pass p-values from 0 to 1")
    return values
