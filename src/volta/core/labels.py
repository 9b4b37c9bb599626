"""Labels of any kind → class numbers 0 … K-1 and the classes' names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array

_EXACT = 2.0**53
N_FOLDS = 5
"""Rows that come undivided are dealt out in fifths: three for training, one for val and cal, one as test."""


def class_values(labels: Array, where: str) -> Array:
    """Return the distinct labels in order: numbers by value, text by spelling. Gaps in numbers are closed by position.

    Booleans and whole-valued floats count as numbers; other floats, NaN, empty text and text that differs from other
    text only in blanks around it are refused.
    """
    values = np.unique(_clean(labels, where))
    refuse_blanks(values, where)
    if len(values) < 2:
        raise InputError(f"{where} has one class ({values[0] if len(values) else 'no rows'}); a task needs two or more")
    return values


def class_numbers(labels: Array, classes: Array, where: str) -> NDArray[np.int64]:
    """Return each label's position in ``classes``, or name the first label that is none of them."""
    values = _clean(labels, where)
    if values.dtype.kind != classes.dtype.kind:
        raise InputError(f"{where} has labels like {values[0]!r}, but the training labels are like {classes[0]!r}")
    position = np.searchsorted(classes, values)
    known = classes[np.minimum(position, len(classes) - 1)] == values
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(
            f"{where} row {row} has label {values[row]!s}, which no training row has; drop it or make it an OOD set"
        )
    return position.astype(np.int64)


def check_class_sizes(numbers: Mapping[str, NDArray[np.int64]], names: tuple[str, ...], needed: int) -> None:
    """Refuse classes with fewer than ``needed`` rows over the given splits."""
    counts = np.bincount(np.concatenate(list(numbers.values())), minlength=len(names))
    small = np.flatnonzero(counts < needed)
    if len(small):
        listed = ", ".join(f"{names[index]} ({counts[index]})" for index in small[:10])
        more = f" and {len(small) - 10} more" if len(small) > 10 else ""
        raise InputError(
            f"classes with fewer than the {needed} training rows that splitting takes: {listed}{more}; "
            "add rows, merge classes, or drop them"
        )


def small_classes(numbers: Iterable[NDArray[np.int64]], names: tuple[str, ...]) -> str | None:
    """Return a warning that names the classes with fewer rows than there are folds, or None where all have enough."""
    counts = np.bincount(np.concatenate(list(numbers)), minlength=len(names))
    small = np.flatnonzero(counts < N_FOLDS)
    if not len(small):
        return None
    listed = ", ".join(f"{names[index]} ({counts[index]})" for index in small[:10])
    more = f" and {len(small) - 10} more" if len(small) > 10 else ""
    return (
        f"classes with fewer rows than the {N_FOLDS} folds that rows are divided into (three train, one val and cal, "
        f"one test): {listed}{more}; some parts lack them, so metrics say little of them: add rows or merge classes"
    )


def refuse_blanks(values: Array, where: str) -> None:
    """Refuse distinct labels of which two are the same text but for blanks around it."""
    if values.dtype.kind != "U":
        return
    stripped, counts = np.unique(np.char.strip(values), return_counts=True)
    if len(stripped) < len(values):
        alike = stripped[counts.argmax()]
        one, other = values[np.char.strip(values) == alike][:2].tolist()
        raise InputError(
            f"{where} has the labels {one!r} and {other!r}, which differ in blanks only; write both alike, or they "
            "would be two classes"
        )


def _clean(labels: Array, where: str) -> Array:
    if labels.dtype.kind in "SU":
        text = labels.astype(np.str_)
        if (empty := np.char.str_len(np.char.strip(text)) == 0).any():
            raise InputError(f"{where} row {int(np.argmax(empty))} has an empty label; fill it or drop the row")
        return text
    if labels.dtype.kind in "biu":
        if len(labels) and labels.max() > np.iinfo(np.int64).max:
            raise InputError(f"{where} has the label {labels.max()}, beyond 64 bits with a sign; save labels as text")
        return labels.astype(np.int64)
    if labels.dtype.kind == "f":
        # Beyond 2⁵³ neighbouring whole numbers are one float: two classes would become one in silence.
        whole = np.isfinite(labels) & (labels == np.floor(labels)) & (np.abs(labels) <= _EXACT)
        if not whole.all():
            row = int(np.argmin(whole))
            raise InputError(
                f"{where} row {row} has label {labels[row]}; labels must be whole numbers up to 2^53 or text"
            )
        return labels.astype(np.int64)
    raise InputError(f"{where} has labels of type {labels.dtype}; save them as numbers or fixed-width text")
