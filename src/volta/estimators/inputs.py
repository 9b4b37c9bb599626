"""The arguments of ``fit``: checked, weighted, and split into training, validation and calibration sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from volta.core.checks import missing_values, refuse_mask, without_graph
from volta.core.errors import InputError, NotFittedError, VoltaWarning, warn_user
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import (
    MOST_DUPLICATES,
    OVERLAP_RAISES,
    OVERLAP_WARNS,
    content_keys,
    duplicate_groups,
    n_overlapping,
    split_fit_rows,
)
from volta.core.types import Array, Split

if TYPE_CHECKING:
    from volta.core.splits import FitRows


_FLOATS = frozenset({np.dtype(np.float64), np.dtype(np.float32)})


class UnfittedClassifierError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """A classifier was used before ``fit``; both packages' NotFittedError."""


def check_rows(estimator: Any, X: Any, *, name: str = "X", reset: bool = False) -> Array:  # noqa: N803
    """Return X as a finite (n, d) float array, its width and column names checked against the fit, or kept by it."""
    plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in _FLOATS and len(X) > 0
    # scikit-learn's checks, which these rows need none of, take longer than a prediction of one row.
    if plain and not reset and X.shape[1] == estimator.n_features_in_ and not hasattr(estimator, "feature_names_in_"):
        rows: Array = X
    else:
        refuse_mask(X, name)
        X = without_graph(X)  # noqa: N806
        rows = _validated(estimator, X, name, reset)
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite only where all of its terms are; it is the cheapest test of many.
        total = np.add.reduce(rows, axis=None, dtype=np.float64)
    if not math.isfinite(total) and not (finite := np.isfinite(rows)).all():
        row = int(np.argmin(finite.all(axis=1)))
        column = int(np.argmin(finite[row]))
        value = rows[row, column]
        kind = "NaN" if np.isnan(value) else "infinity"
        names = getattr(X, "columns", None)
        called = column if names is None else repr(names[column])
        raise InputError(
            f"Input X contains {kind}: {name} row {row} holds {value} in column {called}; impute it or drop the row"
        )
    return rows


def _validated(estimator: Any, X: Any, name: str, reset: bool) -> Array:  # noqa: N803
    try:
        rows: Array = validate_data(
            estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False, estimator=estimator
        )
    except (TypeError, ValueError) as error:
        if (column := _column_without_numbers(X)) is None:
            raise
        raise InputError(
            f"{name} column {column[0]!r} ({column[1]}) holds {column[2]!r}; encode the column as numbers, or leave it "
            f"out ({str(error).splitlines()[0]})"
        ) from error
    return rows


def _column_without_numbers(X: Any) -> tuple[Any, Any, Any] | None:  # noqa: N803
    """Return name, type and first such value of a pandas column that holds what is no number."""
    for index, name in enumerate(X.columns if hasattr(X, "iloc") and hasattr(X, "columns") else ()):
        column = X.iloc[:, index]
        if column.dtype.kind in "mM":
            return name, column.dtype, column.iloc[0]
        for value in column if column.dtype.kind == "O" else ():
            try:
                float(value)
            except (TypeError, ValueError):
                return name, column.dtype, value
    return None


def check_targets(estimator: Any, y: Any, n_rows: int, name: str = "y") -> NDArray[Any]:
    """Return y as (n,) labels without missing values."""
    if y is None:
        raise InputError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target {name} is None"
        )
    refuse_mask(y, name)
    targets: NDArray[Any] = column_or_1d(_without_null_type(without_graph(y)), warn=True)
    if targets.shape != (n_rows,):
        raise InputError(f"{name} has shape {targets.shape}; pass one label for each of the {n_rows} rows of X")
    missing = _missing(targets)
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"Input y contains NaN: {name} row {row} is {targets[row]}; drop rows without a label")
    if targets.dtype.kind == "O" and not all(isinstance(label, str) for label in targets):
        kinds = sorted({type(label).__name__ for label in targets})
        raise InputError(
            f"Unknown label type: {name} is an array of objects of the types {', '.join(kinds)}; "
            f"pass an array of numbers or of strings, e.g. {name}.astype(str)"
        )
    check_classification_targets(targets)
    return targets


def _without_null_type(y: Any) -> Any:
    """Return whole numbers and Booleans of a nullable pandas column as such; scikit-learn makes them floats."""
    dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if dtype is not None and dtype.kind in "iub" and not y.isna().any():
        return y.to_numpy(dtype=dtype)
    return y


def encode(targets: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return each label's number in ``classes``, or name the first that is not among them."""
    numbers = np.minimum(np.searchsorted(classes, targets), len(classes) - 1)
    unknown = classes[numbers] != targets
    if unknown.any():
        row = int(np.argmax(unknown))
        label = targets[row : row + 1].tolist()[0]
        raise InputError(f"{name} row {row} has the label {label!r}, which y lacks; pass rows of y's classes")
    return np.asarray(numbers, dtype=np.int64)


def _missing(targets: NDArray[Any]) -> NDArray[np.bool_]:
    if targets.dtype.kind == "f":
        return np.asarray(~np.isfinite(targets))
    if targets.dtype.kind == "O":
        return missing_values(targets)
    return np.zeros(len(targets), dtype=np.bool_)


HELD_OUT = 0.2
MIN_ROWS = 10

FEW_VAL_ROWS = 300
"""Below this many validation samples all but the calibration samples train, and folds replace the validation set."""

N_FOLDS = 5


class RepeatedRowsWarning(VoltaWarning):
    """Duplicates of one sample may train and calibrate; the message says what to do."""


def split_rows(
    labels: NDArray[np.int64],
    *,
    hold_val: bool = True,
    hold_cal: bool = True,
    draw: int = 0,
    duplicates: NDArray[np.int64] | None = None,
) -> FitRows:
    """Hold out a tenth of the samples as validation set (``val``) and a tenth as calibration set (``cal``).

    Calibration samples are a plain random draw from all, so that they are exchangeable with new ones, rare classes
    included; see `split_fit_rows`. What is not held out, because the user has samples for it, is empty. The draw
    depends on the number of samples, the labels and ``draw`` alone. ``duplicates``: see `duplicate_groups`.
    """
    if hold_val or hold_cal:
        _check_rows(labels)
    n_rows = len(labels) if duplicates is None else int(duplicates.max()) + 1
    n_held_out = max(2, round(HELD_OUT * n_rows))
    n_val = n_held_out // 2 if hold_val else 0
    n_cal = n_held_out - n_held_out // 2 if hold_cal else 0
    return split_fit_rows(labels, n_val, n_cal, rng(SPLIT_SEED, "estimator", "splits", draw), duplicates)


def shuffled_by_content(rows: Array, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return an order of the rows (n, d) that their values alone decide, and a number that they decide too.

    Rows in another order are split and trained on alike, and so are rows that are given once with a count and as often
    as that. The order is by a random linear function of the bits, modulo 2^64, which has nothing to do with what the
    values mean; the number is for further draws.
    """
    keys = content_keys(rows, labels)
    order = np.argsort(keys, kind="stable")
    return order, int(keys.sum(dtype=np.uint64) % (2**31))


def check_unseen(cal: Array, learned: Array, name: str) -> None:
    """Warn from ``OVERLAP_WARNS`` and raise from ``OVERLAP_RAISES`` of the calibration samples that are learned from.

    Samples are compared to six digits of their features. Where fewer than half of the learned samples are
    distinct, equal values are common in the data and prove nothing: then nothing is raised.
    """
    share = n_overlapping(cal, learned) / len(cal)
    if share < OVERLAP_WARNS:
        return
    said = (
        f"{name} has {round(share * len(cal))} rows of {len(cal)} among those that the model learns from, so that no "
        "guarantee would hold for new rows; pass rows that are in no other part"
    )
    if share >= OVERLAP_RAISES and len(np.unique(content_keys(learned))) >= len(learned) / 2:
        raise InputError(said)
    warn_user(said, RepeatedRowsWarning)


def _check_rows(labels: NDArray[np.int64]) -> None:
    if len(labels) < MIN_ROWS:
        count = "1 sample" if len(labels) == 1 else f"{len(labels)} rows"
        raise InputError(f"X has {count}; fit needs at least {MIN_ROWS} to hold some out")
    if (rarest := int((counts := np.bincount(labels)).min())) < 2:
        row = int(np.argmax(labels == counts.argmin()))
        raise InputError(
            f"y has a class with {rarest} row, that of row {row}; fit needs 2 of each, to train on and to hold out, "
            "or rows of your own in eval_set and cal_set"
        )


ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None

MOST_REPEATS = 10
"""Whole-number weights are taken as counts of rows where there are at most this many times as many rows then."""


def count_rows(sample_weight: ArrayLike | None, rows: Array) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Return which rows count, each as often as it does, and (n,) weights, None where all are alike.

    Rows of weight 0 do not count. Whole numbers are counts: a row of weight 3 is three rows. Other weights are how much
    a row counts in the losses, and in nothing else.
    """
    if sample_weight is None:
        return np.arange(len(rows)), None
    from sklearn.utils.validation import _check_sample_weight

    refuse_mask(sample_weight, "sample_weight")
    given = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    counted = np.flatnonzero(given > 0.0)
    if len(counted) == 0:
        raise InputError("sample_weight is 0 for every row; pass a positive weight for some")
    weights = given[counted]
    if (weights == np.round(weights)).all() and weights.sum() <= MOST_REPEATS * len(rows):
        return np.repeat(counted, weights.astype(np.int64)), None
    return counted, weights


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


def split_fit_input(
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
    index, row_weights = count_rows(sample_weight, rows)
    classes, numbers = np.unique(targets[index], return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only ({classes[:1].tolist()[0]!r}); a classifier needs at least two")
    labels = numbers.astype(np.int64)
    of_class = weigh_classes(class_weight, classes, labels)
    order, draw = shuffled_by_content(rows[index], labels)
    weights = _product(row_weights, of_class, labels)
    index, whole = index[order], Split(rows[index], labels, weights).take(order)
    if cal_set is None and np.bincount(index).max() > MOST_DUPLICATES:
        warn_user(
            f"sample_weight counts a row more than {MOST_DUPLICATES} times, so it is an ordinary row: it may both "
            "train and calibrate; pass cal_set, or weights that are not whole numbers (w / w.mean())",
            RepeatedRowsWarning,
        )
    duplicates = duplicate_groups(whole.inputs, whole.labels)
    hold_val, hold_cal = eval_set is None, cal_set is None
    parts = split_rows(whole.labels, hold_val=hold_val, hold_cal=hold_cal, draw=draw, duplicates=duplicates)
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
