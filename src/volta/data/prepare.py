"""From raw sets to a Task: its splits, fixed or drawn anew for a seed, and the preprocessing it trains with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from volta.core.cache import ArrayCache
from volta.core.copies import copy_groups
from volta.core.errors import InputError
from volta.core.files import hash_array, write_rows
from volta.core.mapped import row_chunks
from volta.core.scaling import ScaleName, Scaler, fit_scaler
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import split_fit_rows
from volta.core.types import Array, EncoderKind, FitData, InputKind, OodSet, Split, SplitDraw, Task
from volta.data.raw_sets import RawSets

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
    """Return ``task`` with train, val and cal drawn anew from all its fit rows, as many of each as before.

    All methods with one seed see the same rows; the rows are read into memory. Test rows, OOD sets and shifts stay.
    Copies of one row stay in one part and calibrate once, the parts' shares of the distinct rows being as before.
    """
    fit = task.fit
    parts = (fit.train, fit.val, fit.cal)
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(len(part)) if part.weights is None else part.weights for part in parts])
    inputs, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "labels"))
    whole = Split(inputs, labels, weights)
    n_val, n_cal = len(fit.val), len(fit.cal)
    copies = copy_groups(whole.inputs.reshape(len(whole), -1), whole.labels, n_parts=3)
    if copies is not None:
        own = np.split(copies, np.cumsum([len(part) for part in parts])[:-1])
        distinct = [len(np.unique(numbers)) for numbers in own]
        n_val, n_cal = (round(n_rows / sum(distinct) * (int(copies.max()) + 1)) for n_rows in distinct[1:])
    rows = split_fit_rows(whole.labels, n_val, n_cal, rng(seed, task.name, "resplit"), copies)
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
