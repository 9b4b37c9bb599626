"""Arrays in memory → a task: labels become class numbers, parts that are missing are drawn from the training rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_features, refuse_mask
from volta.core.copies import copies_in_test, copies_left_out, copy_groups
from volta.core.errors import InputError
from volta.core.labels import check_class_sizes, class_numbers, class_values, small_classes
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.set_names import check_ood_names, check_task_name, with_severities
from volta.core.splits import complete_parts
from volta.core.types import Array, EncoderKind, FitData, OodSet, Split, Task

Labelled: TypeAlias = tuple[Any, Any] | Split


def task_from_arrays(
    parts: Mapping[str, Labelled | None],
    ood: Mapping[str, Any],
    shifts: Mapping[str, Labelled],
    *,
    near: Collection[str],
    name: str,
    encoder: EncoderKind,
) -> Task:
    """Return the task of :meth:`volta.Task.from_arrays`; ``parts`` by name, None where a part is not given."""
    check_task_name(name)
    check_ood_names(ood, near)
    given = {part: _pair(value, part) for part, value in parts.items() if value is not None}
    width = given["train"][0].shape[1]
    classes = class_values(given["train"][1], "train labels")
    names = tuple(str(value) for value in classes.tolist())
    numbers = {part: class_numbers(labels, classes, f"{part} labels") for part, (_, labels) in given.items()}
    needed = 1 + ("test" not in given) + ("val" not in given or "cal" not in given)
    check_class_sizes({"train": numbers["train"]}, names, needed)

    def copies_of(part: str) -> NDArray[np.int64] | None:
        return copy_groups(given[part][0], numbers[part], n_parts=needed)

    drawn = complete_parts(numbers, rng(SPLIT_SEED, name, "splits"), "the arrays", copies_of)
    splits = {
        part: Split(_width(given[origin][0], width, part)[rows], numbers[origin][rows])
        for part, (origin, rows) in drawn.items()
    }
    if (small := small_classes((split.labels for split in splits.values()), names)) is not None:
        warnings.warn(small, stacklevel=3)
    if "test" in given and (copied := copies_in_test(splits["test"].inputs, splits["train"].inputs)):
        warnings.warn(copied, stacklevel=3)
    if left_out := copies_left_out(numbers.values(), splits.values()):
        warnings.warn(left_out, stacklevel=3)
    moved = {key: _pair(value, f"shift {key}") for key, value in with_severities(shifts).items()}
    return Task(
        name=name,
        fit=FitData(splits["train"], splits["val"], splits["cal"], n_classes=len(names), encoder=encoder),
        test=splits["test"],
        ood={key: _ood_set(value, key, key in near, width) for key, value in ood.items()},
        shifts={
            key: Split(_width(rows, width, f"shift {key}"), class_numbers(labels, classes, f"shift {key} labels"))
            for key, (rows, labels) in moved.items()
        },
        class_names=names,
        source="arrays",
    )


def _pair(value: Labelled, name: str) -> tuple[Array, Array]:
    if isinstance(value, Split):
        return _rows(value.inputs, name), value.labels
    if not isinstance(value, tuple) or len(value) != 2:
        raise InputError(f"{name} is a {type(value).__name__}; pass a pair of inputs (n, d) and labels (n,)")
    refuse_mask(value[1], f"{name} labels")
    rows, labels = _rows(value[0], name), np.asarray(value[1])
    if labels.dtype == object:
        missing = [row for row, label in enumerate(labels.tolist()) if _is_missing(label)]
        if missing:
            raise InputError(f"{name} has no label in row {missing[0]}; pass one label a row, or drop the row")
        labels = np.array([str(label) for label in labels.tolist()])
    if labels.ndim != 1 or len(labels) != len(rows):
        raise InputError(f"{name} has labels of shape {labels.shape} for {len(rows)} rows; pass one label a row")
    return rows, labels


def _is_missing(label: object) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def _rows(value: Any, name: str) -> Array:
    refuse_mask(value, f"{name} inputs")
    rows = np.asarray(value)
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


def _width(rows: Array, width: int, name: str) -> Array:
    if rows.shape[1] != width:
        raise InputError(f"{name} has {rows.shape[1]} columns but train has {width}; sets of a task must match")
    return rows


def _ood_set(value: Any, name: str, near: bool, width: int) -> OodSet:
    rows, near = (value.inputs, near or value.near) if isinstance(value, OodSet) else (value, near)
    return OodSet(_width(_rows(rows, f"ood {name}"), width, f"ood {name}"), near)
