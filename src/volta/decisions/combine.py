"""Several scores made one, on rows of its own, so that one calibration keeps the false-alarm rate exact."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from volta.core.checks import check_scores
from volta.core.errors import InputError
from volta.decisions.set_scores import Floats


@dataclass(frozen=True, eq=False)
class ScoreCombination:
    """A fixed function of m scores, learnt on reference rows; made by `fit_combination`.

    ``reference``: m sorted arrays; ``units``: (m,) what one unit beyond the largest reference score is.
    """

    reference: tuple[Floats, ...]
    units: Floats

    def score(self, *scores: ArrayLike) -> Floats:
        """Return one score a row, higher = more OOD; scores in the order of `fit_combination`."""
        if len(scores) != len(self.reference):
            raise InputError(f"scores holds {len(scores)} arrays but {len(self.reference)} were combined; pass as many")
        return self.unchecked_score(np.stack(_check_columns(scores, "scores")))

    def unchecked_score(self, scores: Floats) -> Floats:
        """Return ``score`` of (m, n) float64 scores without NaN, which are not looked at again."""
        if scores.shape[1] == 1:
            return np.array([max(map(self._surprise, range(len(scores)), scores[:, 0].tolist()))])
        with np.errstate(over="ignore", invalid="ignore"):
            excess = scores - self._largest
            np.fmax(excess, 0.0, out=excess)  # 0 also where both are infinite and their difference is no number
            excess /= self.units[:, None]
        ranks = [ordered.searchsorted(column) for ordered, column in zip(self.reference, scores, strict=True)]
        excess += self.surprises[ranks]
        found: Floats = np.maximum.reduce(excess, axis=0)
        return found

    def _surprise(self, index: int, score: float) -> float:
        """Return T_j of one row, the same number as for many in less time than NumPy's functions take to be called."""
        largest, unit = self._tails[index]
        surprise: float = self._surprises[int(self.reference[index].searchsorted(score))]
        return (score - largest) / unit + surprise if score > largest else surprise

    @cached_property
    def _largest(self) -> Floats:
        return np.array([[ordered[-1]] for ordered in self.reference])

    @cached_property
    def _tails(self) -> list[tuple[float, float]]:
        return list(zip(self._largest[:, 0].tolist(), self.units.tolist(), strict=True))

    @cached_property
    def _surprises(self) -> list[float]:
        return list(self.surprises.tolist())

    @cached_property
    def surprises(self) -> Floats:
        """−log of the tail at each rank 0 … n among the reference scores: looked up, equal ranks give equal bits."""
        n = len(self.reference[0])
        return np.asarray(0.0 - np.log((1 + n - np.arange(n + 1)) / (n + 1)))


def fit_combination(*reference: ArrayLike) -> ScoreCombination:
    """Learn to combine m scores of a row into one on reference rows: training or validation rows, not calibration rows.

    c(x) = max_j T_j(s_j(x)), T_j(s) = −log((1 + #{i : r_ij ≥ s}) / (n + 1)) + max(0, s − max_i r_ij) / unit_j.
    r_ij: score j of the n reference rows; unit_j: distance of their largest from their median score. T_j is the
    surprise in units that all scores share, and goes on growing beyond the reference rows, so that a row far out by one
    score alone is far out by c.
    Guarantee: none of its own. c is one more score, fixed before the calibration rows are seen, so p-values and flags
    from c on calibration rows keep theirs exactly: P(flag | in-distribution) ≤ fpr. Transforms learnt on the
    calibration rows themselves would treat those rows and new ones differently, and break exchangeability; without
    other rows use `bonferroni`.
    reference: m arrays (n_samples,), higher = more OOD.

    >>> combined = fit_combination([0.0, 1.0, 2.0], [5.0, 6.0, 7.0])
    >>> combined.score([0.0, 9.0], [5.0, 5.0]).round(2)
    array([0.  , 8.39])
    """
    if not reference:
        raise InputError("reference is empty; pass at least one array of scores")
    columns = _check_columns(reference, "reference")
    ordered = tuple(np.sort(column) for column in columns)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.array([column[-1] - column[(len(column) - 1) // 2] for column in ordered])
    return ScoreCombination(ordered, np.where((spread > 0) & np.isfinite(spread), spread, 1.0))


def _check_columns(arrays: tuple[ArrayLike, ...], name: str) -> list[Floats]:
    columns = [check_scores(array, f"{name}[{index}]") for index, array in enumerate(arrays)]
    for index, column in enumerate(columns):
        if len(column) != len(columns[0]):
            raise InputError(
                f"{name}[{index}] has {len(column)} rows but {name}[0] has {len(columns[0])}; score the same rows"
            )
    return columns
