"""From raw sets or arrays to a Task: its splits, limits on rows, and preprocessing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.core.cache import ArrayCache
from volta.core.checks import (
    as_label_array,
    as_rows,
    check_class_sizes,
    check_weights,
    class_numbers,
    class_values,
    column_names,
    small_classes,
)
from volta.core.errors import InputError, VoltaWarning
from volta.core.files import hash_array, row_chunks, write_rows
from volta.core.scaling import ScaleName, Scaler, fit_scaler
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import (
    complete_parts,
    duplicate_groups,
    duplicates_in_test,
    duplicates_left_out,
    parts_of_train,
    split_fit_rows,
    stratified_take,
)
from volta.core.types import (
    Array,
    EncoderKind,
    FitData,
    InputKind,
    OodSet,
    Split,
    SplitDraw,
    Task,
    check_ood_names,
    check_task_name,
    with_severities,
)
from volta.data.arrays import SourceRows

T = TypeVar("T")
CorruptionOrigin: TypeAlias = Literal["none", "official", "generated"]


class LazyMapping(Mapping[str, T]):
    """Named values that are made when first asked for, then kept; names and length cost nothing."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, eq=False)
class RawSets:
    """All sets of a task as its files give them.

    ``parts`` is ``train`` and ``test``, from which :func:`make_task` splits ``val`` and ``cal``, or all four.
    ``source`` says in words where the data came from; ``corruptions`` whether the shifts include those of
    CIFAR-10-C, and whose they are; ``split`` which draw of the rows this is, where the source makes more than one.
    """

    parts: Mapping[str, Split]
    ood: Mapping[str, OodSet] = field(default_factory=dict)
    shifts: Mapping[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    source: str = ""
    corruptions: CorruptionOrigin = "none"
    split: SplitDraw = field(default_factory=SplitDraw)

    def inputs(self) -> LazyMapping[Array]:
        """Return the inputs of every set in a stable order: parts, then ``ood:NAME``, then ``shift:NAME-SEVERITY``.

        A set is read or made only when it is asked for.
        """
        makers = {name: partial(_part_inputs, self.parts, name) for name in self.parts}
        makers |= {f"ood:{name}": partial(_part_inputs, self.ood, name) for name in self.ood}
        makers |= {f"shift:{name}": partial(_part_inputs, self.shifts, name) for name in self.shifts}
        return LazyMapping(makers)


def _part_inputs(sets: Mapping[str, Split] | Mapping[str, OodSet], name: str) -> Array:
    return sets[name].inputs


Rows = NDArray[np.int64]
LIMIT_TRAIN, LIMIT_TEST = "limit_train", "limit_test"


def limited_rows(labels: Rows, n_rows: int | None, task: str, purpose: str = LIMIT_TEST) -> Rows | None:
    """Return which rows of a labelled set are kept; None where all are. Sets with equal labels keep the same ones.

    Training rows keep every class that they can; of test rows each is as likely to be kept as any other, so that they
    stay as calibration samples are.
    """
    if n_rows is None or n_rows >= len(labels):
        return None
    every_class = purpose == LIMIT_TRAIN
    rows, _ = stratified_take(labels, n_rows, rng(SPLIT_SEED, task, purpose), every_class=every_class)
    return rows


def limit_split(split: Split, n_rows: int | None, task: str, purpose: str = LIMIT_TEST) -> Split:
    """Return at most ``n_rows`` rows of a labelled set; of sets with equal labels, as shifted tests have, the same."""
    rows = limited_rows(split.labels, n_rows, task, purpose)
    return split if rows is None else split.take(rows)


def limit_ood(ood_set: OodSet, n_rows: int | None, task: str, name: str) -> OodSet:
    """Return at most ``n_rows`` rows of an OOD set."""
    if n_rows is None or n_rows >= len(ood_set.inputs):
        return ood_set
    rows = np.sort(rng(SPLIT_SEED, LIMIT_TEST, task, name).permutation(len(ood_set.inputs))[:n_rows])
    return replace(ood_set, inputs=ood_set.inputs[rows])


def limit_sets(raw: RawSets, n_rows: int | None, task: str) -> RawSets:
    """Return the sets with at most ``n_rows`` rows in test, in each OOD set and in each shifted set."""
    if n_rows is None:
        return raw
    return replace(
        raw,
        parts={**raw.parts, "test": limit_split(raw.parts["test"], n_rows, task)},
        ood={name: limit_ood(part, n_rows, task, name) for name, part in raw.ood.items()},
        shifts=LazyMapping({name: partial(_limited_shift, raw.shifts, name, n_rows, task) for name in raw.shifts}),
    )


def _limited_shift(shifts: Mapping[str, Split], name: str, n_rows: int, task: str) -> Split:
    return limit_split(shifts[name], n_rows, task)


@dataclass(frozen=True, eq=False)
class DividedRows:
    """Labelled rows as train, val, cal and test: each part's rows and their class numbers."""

    classes: Array
    class_names: tuple[str, ...]
    parts: Mapping[str, tuple[SourceRows, NDArray[np.int64]]]


def divide_rows(
    given: Mapping[str, SourceRows], name: str, source: str = "", *, n_classes: int | None = None
) -> DividedRows:
    """Return train, val, cal and test of the task ``name``; what is not ``given`` is drawn from the training rows.

    Columns follow those of the training rows, by name. ``source`` begins the names of the sets in errors; more than
    ``n_classes`` classes are an error.
    """
    prefix = f"{source} " if source else ""
    train = given["train"]
    for part, rows in given.items():
        if not len(rows):
            raise InputError(f"{source or 'the task'} has no rows in {part}; fill it or leave the split out")
    given = {part: rows.in_columns(train, f"{prefix}{part}") for part, rows in given.items()}
    classes = class_values(train.known_labels, f"{prefix}train labels")
    if n_classes is not None and len(classes) > n_classes:
        raise InputError(
            f"{source} has {len(classes):,} classes, the limit is {n_classes:,} (--limit n_classes=...); "
            "is the label column the right one?"
        )
    names = tuple(str(value) for value in classes.tolist())
    numbers = {
        part: class_numbers(rows.known_labels, classes, f"{prefix}{part} labels") for part, rows in given.items()
    }
    needed = parts_of_train(given)
    check_class_sizes({"train": numbers["train"]}, names, needed)

    def duplicates_of(part: str) -> NDArray[np.int64] | None:
        inputs = given[part].inputs
        return duplicate_groups(inputs.reshape(len(inputs), -1), numbers[part], given[part].rows, n_parts=needed)

    drawn = complete_parts(numbers, rng(SPLIT_SEED, name, "splits"), source or "the arrays", duplicates_of)
    parts = {part: (given[origin].take(rows), numbers[origin][rows]) for part, (origin, rows) in drawn.items()}
    return DividedRows(classes, names, parts)


def division_notes(given: Mapping[str, SourceRows], divided: DividedRows) -> list[str]:
    """Return what a user should know of the parts: small classes, rows left out, test rows that also train."""
    numbers = [labels for _, labels in divided.parts.values()]
    notes = [small_classes(numbers, divided.class_names), duplicates_left_out(given.values(), numbers)]
    test, train = (divided.parts[part][0] for part in ("test", "train"))
    if "test" in given and test.inputs.ndim == 2:
        notes.append(duplicates_in_test(test.inputs[test.rows], train.inputs[train.rows]))
    return [note for note in notes if note]


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
    given = {part: _labelled_rows(value, part) for part, value in parts.items() if value is not None}
    train = given["train"]
    divided = divide_rows(given, name)
    for note in division_notes(given, divided):
        warnings.warn(note, VoltaWarning, stacklevel=3)
    splits = {part: rows.split(labels) for part, (rows, labels) in divided.parts.items()}
    for part in ("cal", "test"):
        splits[part] = replace(splits[part], weights=None)
    shifted = {}
    for key, value in with_severities(shifts).items():
        rows = _labelled_rows(value, f"shift {key}").in_columns(train, f"shift {key}")
        labels = class_numbers(rows.known_labels, divided.classes, f"shift {key} labels")
        shifted[key] = Split(rows.inputs, labels)
    return Task(
        name=name,
        fit=FitData(splits["train"], splits["val"], splits["cal"], n_classes=len(divided.class_names), encoder=encoder),
        test=splits["test"],
        ood={key: _ood_set(value, key, key in near, train) for key, value in ood.items()},
        shifts=shifted,
        class_names=divided.class_names,
        source="arrays",
    )


def _labelled_rows(value: Labelled, name: str) -> SourceRows:
    weights = None
    if isinstance(value, Split):
        if value.weights is not None:
            weights = check_weights(value.weights, f"{name} weights")
            weights /= weights.mean()
        value = (value.inputs, value.labels)
    if not isinstance(value, tuple) or len(value) != 2:
        raise InputError(f"{name} is a {type(value).__name__}; pass a pair of inputs (n, d) and labels (n,)")
    rows = as_rows(value[0], name)
    labels = as_label_array(value[1], len(rows), name)
    return SourceRows(rows, labels, np.arange(len(rows)), column_names(value[0]), weights)


def _ood_set(value: Any, name: str, near: bool, train: SourceRows) -> OodSet:
    rows, near = (value.inputs, near or value.near) if isinstance(value, OodSet) else (value, near)
    inputs = as_rows(rows, f"ood {name}")
    found = SourceRows(inputs, None, np.arange(len(inputs)), column_names(rows))
    return OodSet(found.in_columns(train, f"ood {name}").inputs, near)


Normalise = tuple[tuple[float, ...], tuple[float, ...]]
HALF: Normalise = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
SCALED = "columns are scaled by mean and deviation of the training rows"
_LARGE_BYTES = 1 << 26
_CHUNK = 1 << 14


@dataclass(frozen=True)
class Preparation:
    """How a task is split and preprocessed: ``held_out`` is the share of the training rows kept for val and cal."""

    encoder: EncoderKind
    held_out: float
    normalise: Normalise | None = None
    augment: bool = False
    paper_epochs: int = 100


def make_task(name: str, raw: RawSets, preparation: Preparation, kind: InputKind) -> Task:
    """Split ``raw`` and attach the preprocessing.

    Where ``raw`` has only train and test, ``held_out`` of the training rows are drawn from the split seed, half of them
    ``val``, stratified by class, and half ``cal``, plainly at random. Rows depend on the labels alone, so pixels and
    features of one source are split alike.
    """
    train, val, cal = _fit_splits(name, raw, preparation.held_out)
    pixels = kind == "pixels"
    return Task(
        name=name,
        fit=FitData(
            train,
            val,
            cal,
            n_classes=len(raw.class_names),
            encoder=preparation.encoder,
            kind=kind,
            normalise=preparation.normalise if pixels else None,
            augment=preparation.augment and pixels,
            paper_epochs=preparation.paper_epochs,
        ),
        test=raw.parts["test"],
        ood=raw.ood,
        shifts=raw.shifts,
        class_names=raw.class_names,
        source=raw.source,
        split=raw.split,
    )


def resplit(task: Task, seed: int) -> Task:
    """Return ``task`` with train, val and cal drawn again from all its fit rows, as many of each as before.

    All methods with one seed see the same rows; the rows are read into memory. Test rows, OOD sets and shifts stay.
    Duplicates stay in one part and calibrate once, the parts' shares of the distinct rows being as before.
    """
    fit = task.fit
    parts = (fit.train, fit.val, fit.cal)
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(len(part)) if part.weights is None else part.weights for part in parts])
    inputs, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "labels"))
    whole = Split(inputs, labels, weights)
    n_val, n_cal = len(fit.val), len(fit.cal)
    duplicates = duplicate_groups(whole.inputs.reshape(len(whole), -1), whole.labels, n_parts=3)
    if duplicates is not None:
        numbers_of = np.split(duplicates, np.cumsum([len(part) for part in parts])[:-1])
        distinct = [len(np.unique(numbers)) for numbers in numbers_of]
        n_val, n_cal = (round(n_rows / sum(distinct) * (int(duplicates.max()) + 1)) for n_rows in distinct[1:])
    rows = split_fit_rows(whole.labels, n_val, n_cal, rng(seed, task.name, "resplit"), duplicates)
    train, val, cal = (whole.take(part) for part in rows)
    # Calibration rows count as they were drawn.
    cal = replace(cal, weights=None)
    return replace(task, fit=replace(fit, train=train, val=val, cal=cal), split=SplitDraw(seed))


def scale_task(task: Task, scale: ScaleName, cache: ArrayCache) -> Task:
    """Return ``task`` with its columns scaled on its training rows, as the classifier scales them; pixels stay.

    Every method of a benchmark then sees the same scaled rows, and ``source`` says so. Large sets that lie on disk are
    scaled into ``cache`` and stay there.
    """
    fit = task.fit
    if scale == "none" or fit.kind == "pixels":
        return task
    scaler = fit_scaler(fit.train.inputs, scale, fit.encoder)
    if scaler.kind == "none":
        return task

    def scaled(rows: Array) -> Array:
        return _scaled_rows(rows, scaler, cache)

    def scaled_split(split: Split) -> Split:
        return replace(split, inputs=scaled(split.inputs))

    return replace(
        task,
        fit=replace(fit, train=scaled_split(fit.train), val=scaled_split(fit.val), cal=scaled_split(fit.cal)),
        test=scaled_split(task.test),
        ood={name: OodSet(scaled(part.inputs), part.near) for name, part in task.ood.items()},
        shifts={name: scaled_split(part) for name, part in task.shifts.items()},
        source=f"{task.source}; {SCALED}" if task.source else SCALED,
    )


def _scaled_rows(rows: Array, scaler: Scaler, cache: ArrayCache) -> Array:
    if not isinstance(rows, np.memmap) or rows.nbytes < _LARGE_BYTES or not cache.writable:
        return scaler.apply(rows)
    centre, deviation = np.asarray(scaler.centre), np.asarray(scaler.scale)
    parts = {"scaled": hash_array(rows), "centre": hash_array(centre), "scale": hash_array(deviation)}

    def make(path: Path) -> dict[str, str]:
        write_rows(path, np.dtype(np.float32), rows.shape, (scaler.apply(piece) for piece in row_chunks(rows, _CHUNK)))
        return {}

    return cache.obtain(parts | {"limit": scaler.limit}, make).array


def _fit_splits(name: str, raw: RawSets, share: float) -> tuple[Split, Split, Split]:
    parts = raw.parts
    if "val" in parts and "cal" in parts:
        return parts["train"], parts["val"], parts["cal"]
    if set(parts) != {"train", "test"}:
        raise InputError(
            f"{name} has the sets {', '.join(parts)}; expected train and test, or train, val, cal and test"
        )
    whole = parts["train"]
    split_rng = rng(SPLIT_SEED, name, "splits")
    n_held_out = round(len(whole) * share)
    rows = split_fit_rows(whole.labels, n_held_out // 2, n_held_out - n_held_out // 2, split_rng)
    return whole.take(rows.train), whole.take(rows.val), whole.take(rows.cal)
