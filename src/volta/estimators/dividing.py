"""What ``fit`` was given, checked and divided into rows that train, steer and calibrate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.copies import copy_groups
from volta.core.errors import InputError
from volta.core.types import Split
from volta.core.user_warning import warn_user
from volta.estimators.inputs import check_rows, check_targets, encode
from volta.estimators.rows import RepeatedRowsWarning, check_unseen, shuffled_by_content, split_rows
from volta.estimators.weighting import ClassWeight, count_rows, weigh_classes


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of a fit in the user's units, the labels there are, and where rows that may train stood in X."""

    classes: NDArray[Any]
    train: Split
    val: Split
    cal: Split
    train_index: NDArray[np.int64]
    val_index: NDArray[np.int64]

    @property
    def learned(self) -> Split:
        """Training and validation rows together."""
        train, val = self.train, self.val
        return Split(
            np.concatenate([train.inputs, val.inputs]),
            np.concatenate([train.labels, val.labels]),
            None if train.weights is None or val.weights is None else np.concatenate([train.weights, val.weights]),
        )


def divide(
    estimator: Any,
    X: ArrayLike,  # noqa: N803
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    class_weight: ClassWeight,
    eval_set: tuple[ArrayLike, ArrayLike] | None,
    cal_set: tuple[ArrayLike, ArrayLike] | None,
) -> Parts:
    """Check rows, labels and weights; hold out what the user has no rows of their own for.

    ``estimator`` learns the number and names of the columns, as scikit-learn's checks do. Calibration rows carry no
    weights.
    """
    rows = check_rows(estimator, X, reset=True)
    targets = check_targets(estimator, y, len(rows))
    counted = count_rows(sample_weight, rows)
    index = counted.index
    classes, numbers = np.unique(targets[index], return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only ({classes[:1].tolist()[0]!r}); a classifier needs at least two")
    labels = numbers.astype(np.int64)
    of_class = weigh_classes(class_weight, classes, labels)
    order, draw = shuffled_by_content(rows[index], labels)
    weights = _product(counted.weights, of_class, labels)
    index, whole = index[order], Split(rows[index], labels, weights).take(order)
    copies = copy_groups(whole.inputs, whole.labels)
    if copies is None and cal_set is None and len(np.unique(index)) < len(index):
        warn_user(
            "sample_weight holds whole numbers above 1, which count rows, and rows are too much alike to tell copies "
            "of one from others: some may both train and calibrate; pass cal_set for guarantees whatever the weights "
            "mean",
            RepeatedRowsWarning,
        )
    parts = split_rows(whole.labels, hold_val=eval_set is None, hold_cal=cal_set is None, draw=draw, copies=copies)
    val, cal = whole.take(parts.val), Split(whole.inputs[parts.cal], whole.labels[parts.cal])
    if eval_set is not None:
        own = _own_rows(estimator, eval_set, classes, "eval_set")
        val = Split(own.inputs, own.labels, _product(None, of_class, own.labels))
    if cal_set is not None:
        cal = _own_rows(estimator, cal_set, classes, "cal_set")
        for learned in (whole, val):
            check_unseen(cal.inputs, learned.inputs, "cal_set")
    return Parts(classes, whole.take(parts.train), val, cal, index[parts.train], index[parts.val])


def _product(
    weights: NDArray[np.float64] | None, of_class: NDArray[np.float64] | None, labels: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    if of_class is None:
        return weights
    return of_class[labels] if weights is None else weights * of_class[labels]


def _own_rows(estimator: Any, given: tuple[ArrayLike, ArrayLike], classes: NDArray[Any], name: str) -> Split:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"{name} is {type(given).__name__}; pass a pair (X, y)")
    try:
        rows = check_rows(estimator, given[0], name=f"{name}[0]")
    except InputError:
        raise
    except ValueError as error:
        # scikit-learn's checks speak of X, whichever rows they are given.
        raise InputError(f"{name}[0]: {error}") from error
    targets = check_targets(estimator, given[1], len(rows), f"{name}[1]")
    return Split(rows, encode(targets, classes, f"{name}[1]"))
