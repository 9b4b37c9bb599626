"""Arrays in memory → a task: labels become class numbers, parts that are missing are drawn from the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_weights
from volta.core.copies import copies_in_test, copies_left_out, copy_groups
from volta.core.errors import InputError, VoltaWarning
from volta.core.given_rows import Names, column_names, column_order, given_labels, given_rows
from volta.core.labels import check_class_sizes, class_numbers, class_values, small_classes
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.set_names import check_ood_names, check_task_name, with_severities
from volta.core.splits import complete_parts, parts_of_train
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
    train = _given(parts["train"], "train", None)  # type: ignore[arg-type]
    columns, width = train.names, train.rows.shape[1]
    given = {"train": train} | {
        part: _given(value, part, columns, width)
        for part, value in parts.items()
        if value is not None and part != "train"
    }
    classes = class_values(train.labels, "train labels")
    names = tuple(str(value) for value in classes.tolist())
    numbers = {part: class_numbers(own.labels, classes, f"{part} labels") for part, own in given.items()}
    needed = parts_of_train(given)
    check_class_sizes({"train": numbers["train"]}, names, needed)

    def copies_of(part: str) -> NDArray[np.int64] | None:
        return copy_groups(given[part].rows, numbers[part], n_parts=needed)

    drawn = complete_parts(numbers, rng(SPLIT_SEED, name, "splits"), "the arrays", copies_of)
    splits = {part: given[origin].part(part, rows, numbers[origin]) for part, (origin, rows) in drawn.items()}
    if (small := small_classes((split.labels for split in splits.values()), names)) is not None:
        warnings.warn(small, VoltaWarning, stacklevel=3)
    if "test" in given and (copied := copies_in_test(splits["test"].inputs, splits["train"].inputs)):
        warnings.warn(copied, VoltaWarning, stacklevel=3)
    if left_out := copies_left_out(numbers.values(), splits.values()):
        warnings.warn(left_out, VoltaWarning, stacklevel=3)
    moved = {key: _given(value, f"shift {key}", columns, width) for key, value in with_severities(shifts).items()}
    return Task(
        name=name,
        fit=FitData(splits["train"], splits["val"], splits["cal"], n_classes=len(names), encoder=encoder),
        test=splits["test"],
        ood={key: _ood_set(value, key, key in near, columns, width) for key, value in ood.items()},
        shifts={
            key: Split(own.rows, class_numbers(own.labels, classes, f"shift {key} labels"))
            for key, own in moved.items()
        },
        class_names=names,
        source="arrays",
    )


@dataclass(frozen=True, eq=False)
class _Given:
    """Rows with their labels as they were given; ``names`` of the columns and ``weights`` of the rows, if any."""

    rows: Array
    labels: Array
    names: Names
    weights: NDArray[np.float64] | None

    def part(self, name: str, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> Split:
        """Return some of the rows under their class ``numbers``; weights are for what is fitted."""
        weights = self.weights if name in {"train", "val"} else None
        return Split(self.rows[rows], numbers[rows], None if weights is None else weights[rows])


def _given(value: Labelled, name: str, columns: Names, width: int | None = None) -> _Given:
    weights = None
    if isinstance(value, Split):
        if value.weights is not None:
            weights = check_weights(value.weights, f"{name} weights")
            weights /= weights.mean()
        value = (value.inputs, value.labels)
    if not isinstance(value, tuple) or len(value) != 2:
        raise InputError(f"{name} is a {type(value).__name__}; pass a pair of inputs (n, d) and labels (n,)")
    rows = _rows(value[0], name, columns, width)
    return _Given(rows, given_labels(value[1], len(rows), name), column_names(value[0]), weights)


def _rows(value: Any, name: str, columns: Names, width: int | None) -> Array:
    rows = given_rows(value, name)
    if width is not None and rows.shape[1] != width:
        raise InputError(f"{name} has {rows.shape[1]} columns but train has {width}; sets of a task must match")
    order = column_order(column_names(value), columns, name)
    return rows if order is None else rows[:, order]


def _ood_set(value: Any, name: str, near: bool, columns: Names, width: int) -> OodSet:
    rows, near = (value.inputs, near or value.near) if isinstance(value, OodSet) else (value, near)
    return OodSet(_rows(rows, f"ood {name}", columns, width), near)
