"""The types that flow through the package: Split, FitData, Task, Prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.files import canonical_json, hash_array, hash_text

Array: TypeAlias = NDArray[Any]
EncoderKind: TypeAlias = Literal["tabular", "vision"]
InputKind: TypeAlias = Literal["features", "pixels"]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows with labels.

    ``inputs`` is (n, d) features or (n, 3, h, w) pixels in [0, 1] or uint8; ``labels`` is (n,) int64 in 0..K-1.
    """

    inputs: Array
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InputError(
                f"labels has {len(self.labels)} rows but inputs has {len(self.inputs)}; pass one label a row"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Split:
        """Return the named rows as a new split."""
        return Split(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class FitData:
    """All that a method may see: it holds no test row and no test label.

    ``val`` steers early stopping and temperatures; ``cal``, a plain random draw, is kept for conformal sets and
    thresholds, so that their guarantees rest on rows nothing else was tuned on. For pixels, ``normalise`` is the (mean,
    std) per channel and ``augment`` asks for flips and crops in training. ``paper_epochs`` is the baselines' longest
    training in the paper.
    """

    train: Split
    val: Split
    cal: Split
    n_classes: int
    encoder: EncoderKind = "tabular"
    kind: InputKind = "features"
    normalise: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    augment: bool = False
    paper_epochs: int = 100

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(self.train.inputs.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of every value that training can depend on."""
        parts = {
            name: [hash_array(split.inputs), hash_array(split.labels)]
            for name, split in (("train", self.train), ("val", self.val), ("cal", self.cal))
        }
        settings = [self.n_classes, self.encoder, self.kind, self.normalise, self.augment, self.paper_epochs]
        return hash_text(canonical_json([parts, settings]))


@dataclass(frozen=True)
class SplitDraw:
    """Which draw of a task's rows this is.

    ``seed`` is the run's seed that train, val and cal were drawn from, None for the fixed split that all seeds share;
    ``fold`` is the part, from 0 to ``n_folds`` − 1, that the test rows are, where they rotate with the seed.
    """

    seed: int | None = None
    fold: int | None = None
    n_folds: int | None = None


@dataclass(frozen=True, eq=False)
class OodSet:
    """Rows of no known class; ``near`` marks the semantically close ones, all others are far."""

    inputs: Array
    near: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """One in-distribution set with its splits, its OOD sets and its shifted test sets.

    ``source`` says in words which files the data came from, ``split`` which draw of their rows this is; neither is part
    of the fingerprint.
    """

    name: str
    fit: FitData
    test: Split
    ood: Mapping[str, OodSet] = field(default_factory=dict)
    shifts: Mapping[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    source: str = ""
    split: SplitDraw = field(default_factory=SplitDraw)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Hash of each part of the data, by set name as in ``results.csv``."""
        parts = {"fit": self.fit.fingerprint, "test": _hash_split(self.test)}
        parts |= {f"ood:{name}": f"{hash_array(part.inputs)}{part.near}" for name, part in self.ood.items()}
        parts |= {f"shift:{name}": _hash_split(part) for name, part in self.shifts.items()}
        return parts

    @property
    def fingerprint(self) -> str:
        """One hash over all parts."""
        return hash_text(canonical_json(self.hashes))


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of n rows.

    ``probs`` (n, K) float64 with rows that sum to 1; ``uncertainty`` (n,) higher where less certain; ``ood_score`` (n,)
    higher where more OOD, the uncertainty unless the method passes a score of its own; ``sets`` (n, K) bool prediction
    sets where the method makes them.
    """

    probs: NDArray[np.float64]
    uncertainty: NDArray[np.float64]
    ood_score: NDArray[np.float64] = None  # type: ignore[assignment]
    sets: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.ood_score is None:
            object.__setattr__(self, "ood_score", self.uncertainty)  # type: ignore[unreachable]

    def __len__(self) -> int:
        return len(self.probs)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The most probable class of each row."""
        return np.asarray(self.probs.argmax(axis=1), dtype=np.int64)


def _hash_split(split: Split) -> str:
    return hash_text(hash_array(split.inputs) + hash_array(split.labels))
