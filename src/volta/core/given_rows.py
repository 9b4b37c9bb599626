"""Rows and labels of any library's arrays and tables → NumPy's, with the columns' names where they have names."""

from __future__ import annotations

from collections import Counter
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_features, refuse_mask, without_graph
from volta.core.errors import InputError
from volta.core.types import Array

Names = tuple[str, ...] | None


def given_rows(value: Any, name: str) -> Array:
    """Return feature rows (n, d) as an array of floats, or say what is wrong with them."""
    refuse_mask(value, f"{name} inputs")
    rows = np.asarray(without_graph(value))
    if rows.ndim != 2 or not len(rows):
        raise InputError(
            f"{name} has inputs of shape {rows.shape}; pass rows of features (n, d), and import images with: "
            "volta data import"
        )
    if rows.dtype.kind in "biu":
        # Whole numbers beyond float32's exact range keep their digits until columns are scaled.
        rows = rows.astype(np.float64)
    check_features(rows, f"{name} inputs")
    return rows


def given_labels(value: Any, n_rows: int, name: str) -> Array:
    """Return one label a row: numbers, or text for objects that are not whole numbers throughout."""
    refuse_mask(value, f"{name} labels")
    labels = np.asarray(without_graph(value))
    if labels.ndim != 1 or len(labels) != n_rows:
        raise InputError(f"{name} has labels of shape {labels.shape} for {n_rows} rows; pass one label a row")
    if labels.dtype != object:
        return labels
    missing = missing_values(labels)
    if missing.any():
        raise InputError(f"{name} has no label in row {int(np.argmax(missing))}; pass one label a row, or drop the row")
    if all(isinstance(label, Integral) for label in labels):
        return np.array([int(label) for label in labels])
    return np.array([str(label) for label in labels])


def missing_values(objects: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which of an array of objects stand for nothing: None, NaN, NA and NaT of any library."""
    return np.array([value is None or _unlike_itself(value) for value in objects], dtype=np.bool_)


def column_names(value: Any) -> Names:
    """Return the names of a table's columns where it has some, all of them text."""
    names = getattr(value, "column_names", None)
    names = getattr(value, "columns", None) if names is None else names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def column_order(own: Names, columns: Names, where: str) -> list[int] | None:
    """Return the places of ``columns`` among a set's ``own``; None where they stand so, or one of the two has no names.

    Columns that only one of them has are refused, and so are two of one name, unless they stand so; ``where`` says in
    errors which set it is.
    """
    if columns is None or own is None or columns == own:
        return None
    if twice := next((name for name, n in Counter(own).items() if n > 1), None):
        raise InputError(f"{where} has two columns {twice!r}; name each otherwise, or pass arrays without names")
    place, wanted = {name: at for at, name in enumerate(own)}, set(columns)
    missing = [name for name in columns if name not in place]
    unknown = [name for name in own if name not in wanted]
    if missing or unknown:
        what = f"lacks the column {missing[0]!r}" if missing else f"has a column {unknown[0]!r}"
        which = "which the training rows have" if missing else "which the training rows lack"
        raise InputError(f"{where} {what}, {which}; give every set the same columns, in any order")
    return [place[name] for name in columns]


def _unlike_itself(value: Any) -> bool:
    """Tell missing values of every library: they alone differ from themselves or refuse to be compared."""
    try:
        return not bool(value == value)  # noqa: PLR0124
    except TypeError:
        return True
