"""Rows and labels as scikit-learn checks them, with errors that also name the row and the remedy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from volta.core.checks import refuse_mask, without_graph
from volta.core.errors import InputError, NotFittedError
from volta.core.given_rows import missing_values
from volta.core.types import Array

_FLOATS = frozenset({np.dtype(np.float64), np.dtype(np.float32)})


class UnfittedClassifierError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """A classifier was used before ``fit``; both packages' NotFittedError."""


def check_rows(estimator: Any, X: Any, *, name: str = "X", reset: bool = False) -> Array:  # noqa: N803
    """Return X as a finite (n, d) float array, its width and column names checked against the fit, or kept by it."""
    refuse_mask(X, name)
    X = without_graph(X)  # noqa: N806
    rows: Array = X if not reset and _is_plain(estimator, X) else _validated(estimator, X, name, reset)
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


def _is_plain(estimator: Any, X: Any) -> bool:  # noqa: N803
    """Whether X needs none of scikit-learn's checks, which take longer than a prediction of one row."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in _FLOATS
        and len(X) > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    )


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
