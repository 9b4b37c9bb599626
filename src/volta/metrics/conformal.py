"""Prediction sets: coverage and size."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_fraction, check_labels, check_same_length, check_sets


def coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose set holds the label: (1/n) Σ_i [y_i ∈ C_i].

    sets: (n_samples, n_classes) booleans; labels: (n_samples,).

    >>> coverage([[1, 1, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]], [0, 1, 1, 2])
    0.75
    """
    members = check_sets(sets)
    checked = check_labels(labels, members.shape[1])
    check_same_length(sets=members, labels=checked)
    return float(np.mean(members[np.arange(len(members)), checked]))


def coverage_gap(sets: ArrayLike, labels: ArrayLike, nominal: float | None = None) -> float:
    """Coverage gap of the worst class: max_k |coverage of the rows of class k − coverage of all rows|.

    Marginal guarantees allow some classes to be covered less than others; 0 means that none is. Classes without rows
    are left out. Given `nominal` (1 − α), classes are compared with that instead of with the coverage of all rows. A
    class of n_k rows has a gap of about √(coverage (1 − coverage) / n_k) by chance alone.
    sets: (n_samples, n_classes) booleans; labels: (n_samples,).

    >>> coverage_gap([[1, 0], [1, 0], [1, 0], [1, 1]], [0, 0, 1, 1])  # classes 1 and 1/2, all rows 3/4
    0.25
    >>> coverage_gap([[1, 0], [1, 0], [1, 0], [1, 1]], [0, 0, 1, 1], nominal=0.9)
    0.4
    """
    members = check_sets(sets)
    checked = check_labels(labels, members.shape[1])
    check_same_length(sets=members, labels=checked)
    covered = members[np.arange(len(members)), checked]
    goal = float(np.mean(covered)) if nominal is None else check_fraction(nominal, "nominal")
    count = np.bincount(checked)
    hits = np.bincount(checked, covered)
    present = count > 0
    return float(np.max(np.abs(hits[present] / count[present] - goal)))


def set_size(sets: ArrayLike, labels: ArrayLike | None = None) -> float:
    """Mean number of classes in a set: (1/n) Σ_i |C_i|.

    sets: (n_samples, n_classes) booleans; labels: checked when given, but not used.

    >>> set_size([[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1]])
    1.5
    """
    members = _members(sets, labels)
    return int(np.count_nonzero(members)) / len(members)


def empty_sets(sets: ArrayLike, labels: ArrayLike | None = None) -> float:
    """Share of rows with no class in their set: (1/n) Σ_i [C_i = ∅].

    sets: (n_samples, n_classes) booleans; labels: checked when given, but not used.

    >>> empty_sets([[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1]])
    0.25
    """
    members = _members(sets, labels)
    return int(np.count_nonzero(~members.any(axis=1))) / len(members)


def _members(sets: ArrayLike, labels: ArrayLike | None) -> NDArray[np.bool_]:
    members = check_sets(sets)
    if labels is not None:
        check_same_length(sets=members, labels=check_labels(labels, members.shape[1]))
    return members
