"""Out-of-distribution detection: OOD rows are positive, a higher score means more OOD."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_scores

Sorted = NDArray[np.float64]


@dataclass(frozen=True)
class RocCurve:
    """ROC points from the strictest threshold to the loosest; each (n_distinct + 1,).

    A row is called OOD when its score ≥ `threshold`; the first point calls none and its threshold is inf.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    threshold: NDArray[np.float64]


@dataclass(frozen=True)
class SortedScores:
    """The sorted scores of ID rows, (n_id,), and of OOD rows, (n_ood,), merged once for every metric of them."""

    id_sorted: Sorted
    ood_sorted: Sorted

    @cached_property
    def id_below(self) -> NDArray[np.intp]:
        """For each OOD score the number of ID scores below it, (n_ood,)."""
        return np.searchsorted(self.id_sorted, self.ood_sorted, side="left")

    @cached_property
    def ood_up_to(self) -> NDArray[np.intp]:
        """For each ID score the number of OOD scores up to it, (n_id,)."""
        n_id = len(self.id_sorted)
        # ood_j ≤ id_i exactly when fewer than i + 1 ID scores lie below ood_j.
        return np.cumsum(np.bincount(self.id_below, minlength=n_id + 1))[:n_id]


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the ROC curve: P(ood > id) + ½ P(ood = id).

    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    return auroc_of(_sorted(id_scores, ood_scores))


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with OOD rows positive, highest scores first.

    Σ_t (recall_t − recall_{t−1}) · precision_t over the distinct scores t.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    return aupr_out_of(_sorted(id_scores, ood_scores))


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with ID rows positive, lowest scores first.

    Σ_t (recall_t − recall_{t−1}) · precision_t over the distinct scores t.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    scores = _sorted(id_scores, ood_scores)
    return aupr_in_of(scores.id_sorted, np.searchsorted(scores.ood_sorted, scores.id_sorted, side="right"))


def fpr95(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Share of ID rows called OOD at the first threshold that catches ≥ 95 % of the OOD rows.

    P(id ≥ t), t = the ⌈0.95 n_ood⌉-th largest OOD score.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    id_values, ood_values = _checked(id_scores, ood_scores)
    index = len(ood_values) - _rank95(len(ood_values))
    threshold = np.partition(ood_values, index)[index]
    return int(np.count_nonzero(id_values >= threshold)) / len(id_values)


def fpr95_id(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Share of OOD rows called ID at the first threshold that keeps ≥ 95 % of the ID rows.

    P(ood ≤ t), t = the ⌈0.95 n_id⌉-th smallest ID score.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    id_values, ood_values = _checked(id_scores, ood_scores)
    index = _rank95(len(id_values)) - 1
    threshold = np.partition(id_values, index)[index]
    return int(np.count_nonzero(ood_values <= threshold)) / len(ood_values)


def roc_curve(id_scores: ArrayLike, ood_scores: ArrayLike) -> RocCurve:
    """Return the ROC curve, one point per distinct score, whose trapezoid area is `auroc`.

    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    """
    scores = _sorted(id_scores, ood_scores)
    id_sorted, ood_sorted = scores.id_sorted, scores.ood_sorted
    threshold = np.unique(np.concatenate([id_sorted, ood_sorted]))[::-1]
    false_positives = len(id_sorted) - np.searchsorted(id_sorted, threshold, side="left")
    true_positives = len(ood_sorted) - np.searchsorted(ood_sorted, threshold, side="left")
    return RocCurve(
        fpr=np.concatenate([[0.0], false_positives / len(id_sorted)]),
        tpr=np.concatenate([[0.0], true_positives / len(ood_sorted)]),
        threshold=np.concatenate([[np.inf], threshold]),
    )


def auroc_of(scores: SortedScores) -> float:
    """Return the AUROC of sorted scores."""
    id_sorted, ood_sorted, id_below = scores.id_sorted, scores.ood_sorted, scores.id_below
    n_id, n_ood = len(id_sorted), len(ood_sorted)
    wins = int(id_below.sum())
    equal = id_sorted.take(np.minimum(id_below, n_id - 1)) == ood_sorted
    equal &= id_below < n_id
    halves = 0
    if equal.any():
        tied = ood_sorted[equal]
        halves = int(np.searchsorted(id_sorted, tied, side="right").sum()) - int(id_below[equal].sum())
    return (2 * wins + halves) / (2 * n_id * n_ood)


def aupr_out_of(scores: SortedScores) -> float:
    """Return the OOD-positive average precision of sorted scores."""
    n_id, n_ood = len(scores.id_sorted), len(scores.ood_sorted)
    starts = _tie_starts(scores.ood_sorted)
    caught = n_ood - starts
    precision = caught / (caught + (n_id - scores.id_below[starts]))
    return float(np.sum(np.diff(starts, append=n_ood) * precision)) / n_ood


def aupr_in_of(id_sorted: Sorted, ood_up_to: NDArray[np.intp]) -> float:
    """Return the ID-positive average precision from the number of OOD scores up to each sorted ID score."""
    n_id = len(id_sorted)
    ends = np.append(_tie_starts(id_sorted)[1:], n_id)
    precision = ends / (ends + ood_up_to[ends - 1])
    return float(np.sum(np.diff(ends, prepend=0) * precision)) / n_id


def fpr95_of(scores: SortedScores) -> float:
    """Return the share of ID rows called OOD where 95 % of the OOD rows are, from sorted scores."""
    n_id, n_ood = len(scores.id_sorted), len(scores.ood_sorted)
    threshold = scores.ood_sorted[n_ood - _rank95(n_ood)]
    return (n_id - int(np.searchsorted(scores.id_sorted, threshold, side="left"))) / n_id


def fpr95_id_of(scores: SortedScores) -> float:
    """Return the share of OOD rows called ID where 95 % of the ID rows are, from sorted scores."""
    threshold = scores.id_sorted[_rank95(len(scores.id_sorted)) - 1]
    return int(np.searchsorted(scores.ood_sorted, threshold, side="right")) / len(scores.ood_sorted)


def _tie_starts(ordered: Sorted) -> NDArray[np.intp]:
    return np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])


def _rank95(n: int) -> int:
    # ⌈0.95 n⌉ in integers: 0.95 has no exact float.
    return -(-19 * n // 20)


def _checked(id_scores: ArrayLike, ood_scores: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return check_scores(id_scores, "id_scores"), check_scores(ood_scores, "ood_scores")


def _sorted(id_scores: ArrayLike, ood_scores: ArrayLike) -> SortedScores:
    id_values, ood_values = _checked(id_scores, ood_scores)
    return SortedScores(np.sort(id_values), np.sort(ood_values))
