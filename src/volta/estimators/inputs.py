"""The arguments of ``fit``: checked, weighted, and split into training, validation and calibration sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

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
    FitRows,
    all_of,
    check_two_of_each,
    content_keys,
    duplicate_groups,
    first_of_each,
    n_overlapping,
    split_fit_rows,
)
from volta.core.types import Array, Split
from volta.data.column_encoding import TableSchema, fit_schema, named_rows
from volta.data.frames import RawTable, is_plain, read_table

_FLOATS = frozenset({np.dtype(np.float64), np.dtype(np.float32)})


class UnfittedClassifierError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """A classifier was used before ``fit``; both packages' NotFittedError."""


def check_rows(
    estimator: Any,
    X: Any,  # noqa: N803
    *,
    name: str = "X",
    reset: bool = False,
    finite: bool = True,
) -> Array:
    """Return X as a finite (n, d) float array, its width and column names checked against the fit, or kept by it.

    With ``reset`` the estimator learns its ``schema_``, None for a matrix of numbers, by which other tables are
    encoded. Columns are taken by name where both tables have names. Not ``finite``: other numbers are let pass.
    """
    plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in _FLOATS and len(X) > 0
    schema: TableSchema | None = None if reset else getattr(estimator, "schema_", None)
    # scikit-learn's checks, which these rows need none of, take longer than a prediction of one row.
    if (
        plain
        and schema is None
        and not reset
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    ):
        rows: Array = X
    else:
        refuse_mask(X, name)
        X = without_graph(X)  # noqa: N806
        if schema is not None:
            return schema.encode_table(matched(estimator, X, name))
        if reset and (table := _learn_schema(estimator, X, name)) is not None:
            return table
        own = X
        if not reset and hasattr(estimator, "feature_names_in_"):
            own = named_rows(X, estimator.feature_names_in_.tolist())
        rows = own if own is not X and isinstance(own, np.ndarray) else _validated(estimator, own, name, reset)
    if finite and not surely_finite(rows) and not (usual := np.isfinite(rows)).all():
        row = int(np.argmin(usual.all(axis=1)))
        column = int(np.argmin(usual[row]))
        value = rows[row, column]
        kind = "NaN" if np.isnan(value) else "infinity"
        names = getattr(X, "columns", None)
        called = column if names is None else repr(names[column])
        raise InputError(
            f"Input X contains {kind}: {name} row {row} holds {value} in column {called}; impute it or drop the row"
        )
    return rows


def surely_finite(rows: Array) -> bool:
    """Return whether the sum of all numbers is finite, which it is only where all are: the cheapest test of many."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.add.reduce(rows, axis=None, dtype=np.float64))


def matched(estimator: Any, X: Any, name: str = "X") -> RawTable:  # noqa: N803
    """Return the columns of a table that an estimator with a schema was fitted on."""
    table = read_table(X, name)
    if len(table) == 0:
        raise InputError(f"{name} has no rows (0 sample(s)); pass at least one")
    found: RawTable = estimator.schema_.match(table, name)
    return found


def _learn_schema(estimator: Any, X: Any, name: str) -> Array | None:  # noqa: N803
    """Give the estimator a schema and return encoded rows, or None for a matrix of numbers."""
    estimator.schema_ = None
    if is_plain(X):
        return None
    table = read_table(X, name)
    schema = estimator.schema_ = fit_schema(table, name)
    estimator.n_features_in_ = len(schema.columns)
    if schema.named:
        estimator.feature_names_in_ = np.array(schema.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if len(table) == 0:
        raise InputError(f"{name} has no rows (0 sample(s)); pass at least one")
    return schema.encode_table(table, training=True)


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


def without_lost(
    rows: Array, names: list[str] | None, usual: Array
) -> tuple[Array, NDArray[Any] | None, NDArray[np.intp]]:
    """Return rows in which those with a number that is not finite are ``usual`` ones, their reasons, and which."""
    finite = np.isfinite(rows)
    lost = np.flatnonzero(~finite.all(axis=1))
    if not len(lost):
        return rows, None, lost
    notes = np.full(len(rows), "", dtype=object)
    for row in lost.tolist():
        column = int(np.argmin(finite[row]))
        called = f"column {column}" if names is None else f"column {names[column]!r}"
        notes[row] = f"{called} is {rows[row, column]}; training rows have a finite number"
    kept = rows.astype(np.float64)
    kept[lost] = usual
    return kept, notes, lost


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
    for plain in (bool, int):
        if targets.dtype.kind == "O" and all(type(label) is plain for label in targets):
            targets = targets.astype(plain)
    if targets.dtype.kind in "mMS":
        raise InputError(
            f"Unknown label type: {name} holds {targets.dtype}, which no file of a model can hold; pass numbers or "
            f"text, e.g. {name}.astype(str)"
        )
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


def encode(targets: NDArray[Any], classes: NDArray[Any], name: str, owner: str = "y") -> NDArray[np.int64]:
    """Return each label's number in the ``owner``'s classes, or name the first that is not among them."""
    numbers = np.minimum(np.searchsorted(classes, targets), len(classes) - 1)
    unknown = classes[numbers] != targets
    if unknown.any():
        row = int(np.argmax(unknown))
        label = targets[row : row + 1].tolist()[0]
        raise InputError(
            f"{name} row {row} has the label {label!r}, which {owner} lacks; pass rows of {owner}'s classes"
        )
    return np.asarray(numbers, dtype=np.int64)


def _missing(targets: NDArray[Any]) -> NDArray[np.bool_]:
    if targets.dtype.kind == "f":
        return np.asarray(~np.isfinite(targets))
    if targets.dtype.kind == "O":
        return missing_values(targets)
    return np.zeros(len(targets), dtype=np.bool_)


N_FOLDS = 5
"""Twenty folds raise false alarms on few rows (benchmarks/flags.py) and take four times as long to fit and to ask."""

CROSS_ROWS = 3000
"""Up to so many rows ``calibration="auto"`` cross-fits; a tenth of more is enough for a guarantee by one fit."""

VAL_SHARE = CAL_SHARE = 0.1
MIN_ROWS = 10

CalibrationName: TypeAlias = Literal["auto", "cross", "split"]


class RepeatedRowsWarning(VoltaWarning):
    """Duplicates of one sample may train and calibrate; the message says what to do."""


def split_rows(
    labels: NDArray[np.int64],
    n_folds: int,
    *,
    hold_val: bool = True,
    draw: int = 0,
    duplicates: NDArray[np.int64] | None = None,
) -> list[FitRows]:
    """Return the rows that each fit trains on (``train``), is tuned on (``val``) and is calibrated on (``cal``).

    With ``n_folds`` of 1 a tenth of the samples calibrates the one fit, with 0 none does; else every sample calibrates
    the fit of its fold, and no other; distinct samples that are fewer than ``n_folds`` make as many folds. Calibration
    samples are a plain random draw from all, so that they are exchangeable with new ones, rare classes included;
    ``val`` is a stratified tenth of all, where ``hold_val``. The draw depends on the number of samples, the labels and
    ``draw`` alone. ``duplicates``: see `duplicate_groups`.
    """
    _check_rows(labels)
    groups = np.arange(len(labels)) if duplicates is None else duplicates
    n_groups = int(groups.max()) + 1
    order = rng(SPLIT_SEED, "estimator", "folds", draw).permutation(n_groups)
    n_cal = max(1, round(CAL_SHARE * n_groups))
    folds = [order[: n_cal * n_folds]] if n_folds < 2 else np.array_split(order, min(n_folds, n_groups))
    parts = []
    for place, fold in enumerate(folds):
        cal = all_of(groups, fold)
        rest = np.setdiff1d(np.arange(len(labels)), cal)
        n_val = max(1, round(VAL_SHARE * n_groups)) if hold_val else 0
        own = None if duplicates is None else np.unique(groups[rest], return_inverse=True)[1]
        drawn = split_fit_rows(labels[rest], n_val, 0, rng(SPLIT_SEED, "estimator", "val", draw, place), own)
        parts.append(FitRows(rest[drawn.train], rest[drawn.val], cal))
    return parts


def halve_rows(labels: NDArray[np.int64], draw: int, duplicates: NDArray[np.int64] | None) -> FitRows:
    """Return a random half of the samples as ``train`` and ``val``, and the other as ``cal``; duplicates together."""
    _check_rows(labels)
    groups = np.arange(len(labels)) if duplicates is None else duplicates
    order = rng(SPLIT_SEED, "estimator", "halves", draw).permutation(int(groups.max()) + 1)
    first, second = (np.sort(all_of(groups, half)) for half in np.array_split(order, 2))
    return FitRows(first, first, second)


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
class FitInput:
    """The rows of a fit in the user's units, in an order of their content, and what each fit sees of them.

    ``index``: where each of the ``rows`` stood in X; ``duplicates``: their `duplicate_groups`; ``draws``: rows of each
    fit's parts; ``val`` and ``cal`` take the place of a draw's where the user has rows for them.
    """

    classes: NDArray[Any]
    rows: Split
    index: NDArray[np.int64]
    duplicates: NDArray[np.int64] | None
    draws: list[FitRows]
    val: Split | None
    cal: Split | None

    def calibration_rows(self) -> NDArray[np.int64]:
        """Return which of the ``rows`` calibrate, draw after draw."""
        return np.concatenate([draw.cal for draw in self.draws])

    def order_of_calibration(self) -> NDArray[np.int64]:
        """Return the calibration rows of all draws, as they follow one another, in the order of X; duplicates once."""
        if self.cal is not None:
            return np.arange(len(self.cal))
        rows = self.calibration_rows()
        first = np.arange(len(rows)) if self.duplicates is None else first_of_each(self.duplicates[rows])
        return first[np.argsort(self.index[rows[first]], kind="stable")]

    def parts(self, draw: FitRows) -> tuple[Split, Split, Split]:
        """Return a fit's training, validation and calibration rows; the last carry no weights."""
        val = self.rows.take(draw.val) if self.val is None else self.val
        cal = Split(self.rows.inputs[draw.cal], self.rows.labels[draw.cal]) if self.cal is None else self.cal
        return self.rows.take(draw.train) if len(draw.train) else val, val, cal


def prepare_fit_input(
    estimator: Any,
    X: ArrayLike,  # noqa: N803
    y: ArrayLike,
    *,
    calibration: CalibrationName,
    sample_weight: ArrayLike | None,
    class_weight: ClassWeight,
    eval_set: tuple[ArrayLike, ArrayLike] | None,
    cal_set: tuple[ArrayLike, ArrayLike] | None,
    prefit: bool = False,
    known_classes: NDArray[Any] | None = None,
) -> FitInput:
    """Check rows, labels and weights; draw the parts of each fit that the user has no rows of their own for.

    ``estimator`` learns the number and names of the columns, as scikit-learn's checks do. With ``prefit`` no row
    trains: ``eval_set``, or a random half of the rows, is both ``train`` and ``val``, and the other rows calibrate.
    ``known_classes``: the labels, where they are known before ``y``.
    """
    if calibration not in get_args(CalibrationName):
        raise InputError(f"calibration is {calibration!r}; pass one of {', '.join(get_args(CalibrationName))}")
    if calibration == "cross" and cal_set is not None:
        raise InputError("calibration is 'cross', and cal_set is set too; leave cal_set out, or pass 'split'")
    rows = check_rows(estimator, X, reset=True)
    targets = check_targets(estimator, y, len(rows))
    index, row_weights = count_rows(sample_weight, rows)
    classes = np.unique(targets[index]) if known_classes is None else known_classes
    if len(classes) < 2:
        raise InputError(f"y holds one class only ({classes[:1].tolist()[0]!r}); a classifier needs at least two")
    labels = encode(targets[index], classes, "y", "estimator")
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
    val = cal = None
    if eval_set is not None:
        own = _own_rows(estimator, eval_set, classes, "eval_set")
        val = Split(own.inputs, own.labels, _product(None, of_class, own.labels))
        if cal_set is None and (n_seen := n_overlapping(own.inputs, whole.inputs)) >= OVERLAP_WARNS * len(own.inputs):
            warn_user(
                f"eval_set has {n_seen} rows of {len(own.inputs)} that are in X too, and train and calibrate: early "
                "stopping, temperatures and guarantees take them for other rows; pass rows that are in no other part, "
                "or leave eval_set out",
                RepeatedRowsWarning,
            )
    if cal_set is not None:
        cal = _own_rows(estimator, cal_set, classes, "cal_set")
        for learned in (whole, *([] if val is None else [val])):
            check_unseen(cal.inputs, learned.inputs, "cal_set")
    every, none = np.arange(len(whole)), np.arange(0)
    if prefit:
        duplicates = duplicate_groups(whole.inputs, whole.labels)
        draws = [FitRows(none, none, every) if val is not None else halve_rows(whole.labels, draw, duplicates)]
        return FitInput(classes, whole, index, duplicates, draws, val, None)
    cross = calibration == "cross" or (calibration == "auto" and cal is None and len(whole) <= CROSS_ROWS)
    if val is None or cal is None:
        check_two_of_each(labels, classes.tolist())
        duplicates = duplicate_groups(whole.inputs, whole.labels)
        n_folds = 0 if cal is not None else N_FOLDS if cross else 1
        draws = split_rows(whole.labels, n_folds, hold_val=val is None, draw=draw, duplicates=duplicates)
    else:
        duplicates, draws = None, [FitRows(every, none, none)]
    return FitInput(classes, whole, index, duplicates, draws, val, cal)


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
