"""Prediction sets: coverage and size."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_labels, check_same_length, check_sets


def coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose set holds the label: (1/n) Σ_i [y_i ∈ C_i].

    sets: (n_samples, n_classes) booleans; labels: (n_samples,).
    """
    members = check_sets(sets)
    checked = check_labels(labels, members.shape[1])
    check_same_length(sets=members, labels=checked)
    return float(np.mean(members[np.arange(len(members)), checked]))


def set_size(sets: ArrayLike, labels: ArrayLike | None = None) -> float:
    """Mean number of classes in a set: (1/n) Σ_i |C_i|.

    sets: (n_samples, n_classes) booleans; labels: checked when given, but not used.
    """
    members = _members(sets, labels)
    return int(np.count_nonzero(members)) / len(members)


def empty_sets(sets: ArrayLike, labels: ArrayLike | None = None) -> float:
    """Share of rows with no class in their set: (1/n) Σ_i [C_i = ∅].

    sets: (n_samples, n_classes) booleans; labels: checked when given, but not used.
    """
    members = _members(sets, labels)
    return int(np.count_nonzero(~members.any(axis=1))) / len(members)


def _members(sets: ArrayLike, labels: ArrayLike | None) -> NDArray[np.bool_]:
    members = check_sets(sets)
    if labels is not None:
        check_same_length(sets=members, labels=check_labels(labels, members.shape[1]))
    return members
