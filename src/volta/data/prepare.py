"""From raw sets to a Task: the fixed stratified splits and the preprocessing each task trains with."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.errors import InputError
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import EncoderKind, FitData, InputKind, Split, Task
from volta.data.raw_sets import RawSets
from volta.data.splits import stratified_take

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

    Where ``raw`` has only train and test, ``held_out`` of the training rows are drawn stratified by class from the
    split seed, and half of them, again stratified, are ``val``, the rest ``cal``. Rows depend on the labels alone, so
    pixels and features of one source are split alike.
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
    )


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
    held_out, train = stratified_take(whole.labels, round(len(whole) * share), split_rng)
    val, cal = stratified_take(whole.labels[held_out], len(held_out) // 2, split_rng)
    return whole.take(train), whole.take(held_out[val]), whole.take(held_out[cal])
