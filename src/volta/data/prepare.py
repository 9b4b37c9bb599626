"""From raw sets to a Task: its splits, fixed or drawn anew for a seed, and the preprocessing it trains with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from volta.core.errors import InputError
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import EncoderKind, FitData, InputKind, Split, SplitDraw, Task
from volta.data.raw_sets import RawSets
from volta.data.splits import split_fit_rows

Normalise = tuple[tuple[float, ...], tuple[float, ...]]
HALF: Normalise = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


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
    """
    fit = task.fit
    parts = (fit.train, fit.val, fit.cal)
    whole = Split(np.concatenate([part.inputs for part in parts]), np.concatenate([part.labels for part in parts]))
    rows = split_fit_rows(whole.labels, len(fit.val), len(fit.cal), rng(seed, task.name, "resplit"))
    train, val, cal = (whole.take(part) for part in rows)
    return replace(task, fit=replace(fit, train=train, val=val, cal=cal), split=SplitDraw(seed))


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
