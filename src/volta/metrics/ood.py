"""Out-of-distribution detection, and errors and OOD rows in one number."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_correct, check_same_length, check_scores
from volta.metrics.selective import RiskSteps, harmonic_between, steps_of

Sorted = NDArray[np.float64]


@dataclass(frozen=True)
class RocCurve:
    """ROC points from the strictest threshold to the loosest; each (n_distinct + 1,).

    A row is called OOD when its score ≥ `threshold`; the first point calls none and its threshold is inf.

    >>> roc_curve([0.1, 0.4], [0.4, 0.9]).tpr
    array([0. , 0.5, 1. , 1. ])
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
    def is_tied(self) -> NDArray[np.bool_]:
        """For each OOD score whether an ID score equals it, (n_ood,)."""
        n_id = len(self.id_sorted)
        equal: NDArray[np.bool_] = self.id_sorted.take(np.minimum(self.id_below, n_id - 1)) == self.ood_sorted
        equal &= self.id_below < n_id
        return equal

    @cached_property
    def ood_below(self) -> NDArray[np.intp]:
        """For each ID score the number of OOD scores below it, (n_id,)."""
        if not self.is_tied.any():
            return self.ood_up_to
        return np.searchsorted(self.ood_sorted, self.id_sorted, side="left")

    @cached_property
    def ood_up_to(self) -> NDArray[np.intp]:
        """For each ID score the number of OOD scores up to it, (n_id,)."""
        n_id = len(self.id_sorted)
        # ood_j ≤ id_i exactly when fewer than i + 1 ID scores lie below ood_j.
        return np.cumsum(np.bincount(self.id_below, minlength=n_id + 1))[:n_id]


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the ROC curve: P(ood > id) + ½ P(ood = id).

    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> auroc([0.1, 0.4, 0.4], [0.4, 0.9])  # (1 + ½ + ½ + 3) of 6 pairs
    0.8333333333333334
    """
    return auroc_of(_sorted(id_scores, ood_scores))


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with OOD rows positive, highest scores first.

    Σ_t (recall_t − recall_{t−1}) · precision_t over the distinct scores t.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> aupr_out([0.1, 0.4, 0.4], [0.4, 0.9])  # ½ · 1/1 + ½ · 2/4
    0.75
    """
    return aupr_out_of(_sorted(id_scores, ood_scores))


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with ID rows positive, lowest scores first.

    Σ_t (recall_t − recall_{t−1}) · precision_t over the distinct scores t.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> aupr_in([0.1, 0.4, 0.4], [0.4, 0.9])  # ⅓ · 1/1 + ⅔ · 3/4
    0.8333333333333334
    """
    scores = _sorted(id_scores, ood_scores)
    return aupr_in_of(scores.id_sorted, np.searchsorted(scores.ood_sorted, scores.id_sorted, side="right"))


def fpr95(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Share of ID rows called OOD at the first threshold that catches ≥ 95 % of the OOD rows.

    P(id ≥ t), t = the ⌈0.95 n_ood⌉-th largest OOD score.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> fpr95([0.1, 0.2, 0.5, 0.6], [0.5, 0.7, 0.9])  # at score 0.5 every OOD row is caught
    0.5
    """
    id_values, ood_values = _checked(id_scores, ood_scores)
    index = len(ood_values) - _rank95(len(ood_values))
    threshold = np.partition(ood_values, index)[index]
    return int(np.count_nonzero(id_values >= threshold)) / len(id_values)


def fpr95_id(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Share of OOD rows called ID at the first threshold that keeps ≥ 95 % of the ID rows.

    P(ood ≤ t), t = the ⌈0.95 n_id⌉-th smallest ID score.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> fpr95_id([0.1, 0.2, 0.5, 0.6], [0.5, 0.7, 0.9, 0.9])  # at score 0.6 every ID row is kept
    0.25
    """
    id_values, ood_values = _checked(id_scores, ood_scores)
    index = _rank95(len(id_values)) - 1
    threshold = np.partition(id_values, index)[index]
    return int(np.count_nonzero(ood_values <= threshold)) / len(ood_values)


def autc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the threshold curve: how far apart the scores are, not only how they order.

    ½ ∫₀¹ FPR(t) dt + ½ ∫₀¹ FNR(t) dt with all scores scaled together to [0, 1] by their smallest and largest, which is
    ½ (mean ID score + 1 − mean OOD score): 0 is perfect, ½ is chance. One extreme score changes the scale of all.
    Infinite scores are the limit of ever larger ones: beside them all finite scores become one point. Scores that are
    all equal give ½.
    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.
    Reference: Humblot-Renaux, Escalera & Moeslund, CVPR workshops 2023; its code draws lines between the steps.

    >>> round(autc([0.0, 0.2], [0.6, 1.0]), 4)  # (0.1 + 1 − 0.8) / 2
    0.15
    """
    return autc_of(_sorted(id_scores, ood_scores))


def roc_curve(id_scores: ArrayLike, ood_scores: ArrayLike) -> RocCurve:
    """Return the ROC curve, one point per distinct score, whose trapezoid area is `auroc`.

    id_scores: (n_id,); ood_scores: (n_ood,); higher = more OOD.

    >>> curve = roc_curve([0.1, 0.4], [0.4, 0.9])
    >>> curve.fpr, curve.threshold
    (array([0. , 0. , 0.5, 1. ]), array([inf, 0.9, 0.4, 0.1]))
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
    id_sorted, ood_sorted = scores.id_sorted, scores.ood_sorted
    n_id, n_ood = len(id_sorted), len(ood_sorted)
    wins = int(scores.id_below.sum())
    halves = 0
    if scores.is_tied.any():
        tied = ood_sorted[scores.is_tied]
        halves = int(np.searchsorted(id_sorted, tied, side="right").sum()) - int(scores.id_below[scores.is_tied].sum())
    return (2 * wins + halves) / (2 * n_id * n_ood)


def aupr_out_of(scores: SortedScores) -> float:
    """Return the OOD-positive average precision of sorted scores."""
    n_id, n_ood = len(scores.id_sorted), len(scores.ood_sorted)
    starts = _tie_starts(scores.ood_sorted)
    # Three arrays and no more, because here memory is at its peak: OOD rows caught, rows called OOD, starts.
    precision = np.subtract(n_ood, starts, dtype=np.float64)
    called = scores.id_below.take(starts)
    called += starts
    np.subtract(n_id + n_ood, called, out=called)
    precision /= called
    np.subtract(starts[1:], starts[:-1], out=called[:-1])
    called[-1] = n_ood - starts[-1]
    precision *= called
    return float(np.sum(precision)) / n_ood


def aupr_in_of(id_sorted: Sorted, ood_up_to: NDArray[np.intp]) -> float:
    """Return the ID-positive average precision from the number of OOD scores up to each sorted ID score."""
    n_id = len(id_sorted)
    ends = np.append(_tie_starts(id_sorted)[1:], n_id)
    called = ood_up_to.take(ends - 1)
    called += ends
    precision = ends / called
    np.subtract(ends[1:], ends[:-1], out=called[1:])
    called[0] = ends[0]
    precision *= called
    return float(np.sum(precision)) / n_id


def fpr95_of(scores: SortedScores) -> float:
    """Return the share of ID rows called OOD where 95 % of the OOD rows are, from sorted scores."""
    n_id, n_ood = len(scores.id_sorted), len(scores.ood_sorted)
    threshold = scores.ood_sorted[n_ood - _rank95(n_ood)]
    return (n_id - int(np.searchsorted(scores.id_sorted, threshold, side="left"))) / n_id


def fpr95_id_of(scores: SortedScores) -> float:
    """Return the share of OOD rows called ID where 95 % of the ID rows are, from sorted scores."""
    threshold = scores.id_sorted[_rank95(len(scores.id_sorted)) - 1]
    return int(np.searchsorted(scores.ood_sorted, threshold, side="right")) / len(scores.ood_sorted)


def autc_of(scores: SortedScores) -> float:
    """Return the area under the threshold curve of sorted scores."""
    low = min(scores.id_sorted[0], scores.ood_sorted[0])
    high = max(scores.id_sorted[-1], scores.ood_sorted[-1])
    if low == high:
        return 0.5
    id_mean, ood_mean = _scaled_mean(scores.id_sorted, low, high), _scaled_mean(scores.ood_sorted, low, high)
    return min(1.0, max(0.0, (id_mean + 1 - ood_mean) / 2))


def _scaled_mean(ordered: Sorted, low: np.float64, high: np.float64) -> float:
    """Return the mean of sorted scores after low ↦ 0, high ↦ 1; where one is infinite, finite scores share a point."""
    if np.isfinite(low) and np.isfinite(high):
        # The range of two finite numbers may be infinite, and half of the smallest number is none.
        unit = 0.5 if high > np.finfo(np.float64).max / 2 or low < -np.finfo(np.float64).max / 2 else 1.0
        scaled = ordered * unit
        scaled -= low * unit
        scaled /= high * unit - low * unit
        return float(np.mean(scaled))
    n_low = int(np.searchsorted(ordered, -np.inf, side="right"))
    n_high = len(ordered) - int(np.searchsorted(ordered, np.inf, side="left"))
    finite = 0.5 if low == -high else float(low == -np.inf)
    return (n_high + finite * (len(ordered) - n_low - n_high)) / len(ordered)


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


_CHUNK = 1 << 14
Counts = NDArray[np.intp]


@dataclass(frozen=True)
class JointScores:
    """The ID rows in order of score, with their errors, among the scores of the OOD rows."""

    steps: RiskSteps
    scores: SortedScores

    @property
    def n_samples(self) -> int:
        """Number of ID and OOD rows together."""
        return self.steps.n_samples + len(self.scores.ood_sorted)

    def groups(self) -> Iterator["ScoreGroups"]:
        """Yield the distinct ID scores in order, a chunk at a time, so that memory does not grow with the rows."""
        ends, errors = self.steps.ends, self.steps.errors
        for first in range(0, len(ends), _CHUNK):
            end, wrong = ends[first : first + _CHUNK], errors[first : first + _CHUNK]
            start, wrong_before = np.zeros_like(end), np.zeros_like(wrong)
            start[1:], wrong_before[1:] = end[:-1], wrong[:-1]
            if first:
                start[0], wrong_before[0] = ends[first - 1], errors[first - 1]
            yield ScoreGroups(
                correct=(end - wrong) - (start - wrong_before),
                id_below=start,
                id_up_to=end,
                ood_below=self.scores.ood_below.take(start),
                ood_up_to=self.scores.ood_up_to.take(start),
            )


@dataclass(frozen=True)
class ScoreGroups:
    """For each of some distinct ID scores, in order, (n_groups,) integers.

    `correct`: rightly predicted rows of this score; `id_below`, `ood_below`: rows of lower scores; `id_up_to`,
    `ood_up_to`: rows of lower or equal scores.
    """

    correct: Counts
    id_below: Counts
    id_up_to: Counts
    ood_below: Counts
    ood_up_to: Counts

    @property
    def below(self) -> Counts:
        """ID and OOD rows of lower scores."""
        return self.id_below + self.ood_below

    @property
    def up_to(self) -> Counts:
        """ID and OOD rows of lower or equal scores."""
        return self.id_up_to + self.ood_up_to


def scod_aurc(id_scores: ArrayLike, correct: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the risk-coverage curve of selective classification in the presence of OOD rows.

    AURC of the ID and OOD rows together in order of one score, where a failure is an ID row whose class is wrong and
    every OOD row: (1/N) Σ_i failures among the i lowest scores / i, N = n_id + n_ood. Rows of equal score share the
    mean of their failures. Rows are mixed as they come: each counts once, so the value depends on n_ood / n_id.
    id_scores: (n_id,); correct: (n_id,) booleans; ood_scores: (n_ood,); higher = more OOD.
    References: Jaeger et al., ICLR 2023 (FD-Shifts); Narasimhan et al., ICLR 2024.

    >>> round(scod_aurc([0.1, 0.2, 0.4], [True, True, False], [0.3]), 4)  # (0 + 0 + 1/3 + 2/4) / 4
    0.2083
    """
    return scod_aurc_of(joint_scores(id_scores, correct, ood_scores))


def scod_augrc(id_scores: ArrayLike, correct: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the generalized risk-coverage curve in the presence of OOD rows.

    `augrc` of the ID and OOD rows together in order of one score, where a failure is an ID row whose class is wrong and
    every OOD row; rows are mixed as they come, as in `scod_aurc`.
    id_scores: (n_id,); correct: (n_id,) booleans; ood_scores: (n_ood,); higher = more OOD.
    References: Traub et al., NeurIPS 2024; Jaeger et al., ICLR 2023 (FD-Shifts).

    >>> scod_augrc([0.1, 0.2, 0.4], [True, True, False], [0.3])  # (0 + 0 + 1/2 + 3/2) / 4²
    0.125
    """
    return scod_augrc_of(joint_scores(id_scores, correct, ood_scores))


def oscr(id_scores: ArrayLike, correct: ArrayLike, ood_scores: ArrayLike) -> float:
    """Open-set classification rate: area under the correct classification rate over the false positive rate.

    At threshold t, CCR = share of ID rows with score ≤ t whose class is right, FPR = share of OOD rows with score ≤ t;
    the area under CCR over FPR is (1/n_id) Σ_{i right} [P(ood > s_i) + ½ P(ood = s_i)], at most the accuracy.
    id_scores: (n_id,); correct: (n_id,) booleans; ood_scores: (n_ood,); higher = more OOD.
    Reference: Dhamija, Günther & Boult, NeurIPS 2018, there with 1 − max p as the score.

    >>> oscr([0.1, 0.5, 0.2], [True, True, False], [0.3, 0.7])  # (1 + 1/2 + 0) / 3
    0.5
    """
    return oscr_of(joint_scores(id_scores, correct, ood_scores))


def joint_scores(id_scores: ArrayLike, correct: ArrayLike, ood_scores: ArrayLike) -> JointScores:
    """Return the merged rows from checked arguments."""
    values, right = check_scores(id_scores, "id_scores"), check_correct(correct)
    check_same_length(id_scores=values, correct=right)
    ood_values = check_scores(ood_scores, "ood_scores")
    ordered = np.sort(values)
    return JointScores(steps_of(ordered, values, right), SortedScores(ordered, np.sort(ood_values)))


def scod_aurc_of(joint: JointScores) -> float:
    """Return the AURC of ID and OOD rows together.

    One minus the mean over i of the share right among the i lowest scores, to which a right row of rank r gives Σ 1/i
    over r ≤ i ≤ N. A right row among g rows of equal score that end at rank e gives, in the mean over their orders,
    1 − (e − g)/g · Σ_{e−g < i ≤ e} 1/i + Σ_{e < i ≤ N} 1/i.
    """
    n = joint.n_samples
    right = 0.0
    for group in joint.groups():
        below, up_to = group.below, group.up_to
        share = harmonic_between(up_to, np.asarray(n))
        size = up_to - below
        tied = np.flatnonzero(size > 1)
        within = 1 / up_to
        within[tied] = 1 - below[tied] / size[tied] * harmonic_between(below[tied], up_to[tied])
        share += within
        share *= group.correct
        right += float(np.sum(share))
    return 1 - right / n


def scod_augrc_of(joint: JointScores) -> float:
    """Return the AUGRC of ID and OOD rows together, exact in integers up to the last division."""
    n = joint.n_samples
    right = sum(int(np.dot(group.correct, 2 * n - group.below - group.up_to)) for group in joint.groups())
    return (n * n - right) / (2 * n * n)


def oscr_of(joint: JointScores) -> float:
    """Return the area under the open-set classification rate, exact in integers up to the last division."""
    n_id, n_ood = joint.steps.n_samples, len(joint.scores.ood_sorted)
    wins = sum(int(np.dot(group.correct, 2 * n_ood - group.ood_below - group.ood_up_to)) for group in joint.groups())
    return wins / (2 * n_id * n_ood)
