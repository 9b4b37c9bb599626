"""Errors and OOD rows in one number: a row is rightly accepted only if it is ID and its class is right."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_correct, check_same_length, check_scores
from volta.metrics.detection import SortedScores
from volta.metrics.harmonic import harmonic_between
from volta.metrics.selective import RiskSteps, steps_of

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
