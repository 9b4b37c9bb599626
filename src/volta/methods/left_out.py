"""Which distances tell a class that they do not know: those to Gaussians of the classes, or those to neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array, Split
from volta.methods.gaussians import Distances
from volta.methods.neighbour_bank import bank_rows, even_steps, kth_chord, n_neighbours, unit
from volta.methods.scores import Floats

MOST_JUDGED = 2048
DistanceScore: TypeAlias = Callable[[Floats, NDArray[np.bool_]], Floats]
"""From M, M − M_0 and what else is seen in rows, as columns, and which rows are of known classes, to a score."""


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows (n, d) with labels (n,), and what was fitted without them.

    ``distances`` know the ``classes`` (m,), in this order, from ``n_fit`` training rows; ``kept`` are some of these.
    ``more`` (n,) is what else a score sees in the rows.
    """

    distances: Distances
    classes: NDArray[np.int64]
    n_fit: int
    kept: Array
    kept_labels: NDArray[np.int64]
    rows: Array
    labels: NDArray[np.int64]
    more: Floats


def held_out_rows(distances: Distances, train: Split, val: Split, more: Floats) -> HeldOutRows:
    """Return validation rows beside the training rows that ``distances`` were fitted on; some thousand of each."""
    kept, judged = bank_rows(len(train)), even_steps(len(val), MOST_JUDGED)
    return HeldOutRows(
        distances,
        np.unique(train.labels),
        len(train),
        train.inputs[kept],
        train.labels[kept],
        val.inputs[judged],
        val.labels[judged],
        more[judged],
    )


def neighbours_tell_more(held_out: Sequence[HeldOutRows], score: DistanceScore) -> bool:
    """Say whether neighbours tell classes that are left out better than Gaussians do, by more than chance.

    Each class in turn plays the OOD rows: its mean and its training rows are left out, and its held-out rows are told
    from those of all other classes, once by ``score``, and once by the angle to the k-th neighbour among at most 1,024
    training rows. Neighbours tell more where the mean over classes of their AUROC is higher by more than the standard
    error of that difference. No network is asked: one that was trained on a class knows it.
    """
    found: dict[int, list[float]] = {}
    for part in held_out:
        for label, gain in _gains(part, score).items():
            found.setdefault(label, []).append(gain)
    gains = np.array([np.mean(of_class) for of_class in found.values()])
    return len(gains) > 1 and bool(gains.mean() > gains.std(ddof=1) / np.sqrt(len(gains)))


def _gains(part: HeldOutRows, score: DistanceScore) -> dict[int, float]:
    """Return for each class the AUROC of neighbours less that of Gaussians."""
    if len(part.classes) < 2:
        return {}
    squared = part.distances.classes.squared_distances(part.rows)
    nearest_class, (nearest, second) = squared.argmin(axis=1), np.partition(squared, 1, axis=1)[:, :2].T
    overall = part.distances.background.squared_distances(part.rows)[:, 0]
    k = n_neighbours(len(part.kept), part.n_fit)
    cosines = unit(part.rows) @ unit(part.kept).T
    chord = kth_chord(cosines, k)
    gains: dict[int, float] = {}
    for place, label in enumerate(part.classes):
        own, others = part.labels == label, part.kept_labels != label
        if not own.any() or own.all() or others.sum() < k:
            continue
        without = np.where(nearest_class == place, second, nearest)
        gaussian = score(np.column_stack([without, without - overall, part.more]), ~own)
        neighbour = chord.copy()
        neighbour[own] = kth_chord(cosines[own][:, others], k)
        gains[int(label)] = _auroc(neighbour, own) - _auroc(gaussian, own)
    return gains


def _auroc(scores: Floats, ood: NDArray[np.bool_]) -> float:
    """Return how often an OOD row's score is above another row's, ties counted half."""
    known = np.sort(scores[~ood])
    below = np.searchsorted(known, scores[ood], "left") + np.searchsorted(known, scores[ood], "right")
    return float(below.mean() / (2 * len(known)))
