"""How much each row counts: sample weights and class weights as scikit-learn means them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import refuse_mask
from volta.core.errors import InputError
from volta.core.types import Array

ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None

MOST_COPIES = 10
"""Whole-number weights are taken as counts of rows where there are at most this many times as many rows then."""


@dataclass(frozen=True, eq=False)
class CountedRows:
    """``index`` names the rows that count, each as often as it does; ``weights`` (n,), or None where all are alike."""

    index: NDArray[np.int64]
    weights: NDArray[np.float64] | None


def count_rows(sample_weight: ArrayLike | None, rows: Array) -> CountedRows:
    """Return which rows count and how much.

    Rows of weight 0 do not count. Whole numbers are counts: a row of weight 3 is three rows. Other weights are how much
    a row counts in the losses, and in nothing else.
    """
    if sample_weight is None:
        return CountedRows(np.arange(len(rows)), None)
    from sklearn.utils.validation import _check_sample_weight

    refuse_mask(sample_weight, "sample_weight")
    given = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    counted = np.flatnonzero(given > 0.0)
    if len(counted) == 0:
        raise InputError("sample_weight is 0 for every row; pass a positive weight for some")
    weights = given[counted]
    if (weights == np.round(weights)).all() and weights.sum() <= MOST_COPIES * len(rows):
        return CountedRows(np.repeat(counted, weights.astype(np.int64)), None)
    return CountedRows(counted, weights)


def weigh_classes(
    class_weight: ClassWeight, classes: NDArray[Any], labels: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Return each class's weight (K,), or None where all are alike; ``labels`` number ``classes``."""
    if class_weight is None:
        return None
    from sklearn.utils.class_weight import compute_class_weight

    if isinstance(class_weight, Mapping):
        known = classes.tolist()
        of_class = np.array([float(class_weight.get(label, 1.0)) for label in known])
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise InputError(f"class_weight names {unknown[0]!r}, which y lacks; pass weights of y's classes")
        if not (np.isfinite(of_class) & (of_class > 0.0)).all():
            raise InputError(f"class_weight is {dict(class_weight)}; pass positive numbers")
    elif class_weight == "balanced":
        of_class = compute_class_weight("balanced", classes=np.arange(len(classes)), y=labels)
    else:
        raise InputError(f"class_weight is {class_weight!r}; pass None, 'balanced' or a dict of class and weight")
    return np.asarray(of_class, dtype=np.float64)


def averaging_one(weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Return the weights in units of their mean."""
    return None if weights is None else weights / weights.mean()
