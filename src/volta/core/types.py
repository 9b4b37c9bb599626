"""The types that flow through the package: Split, FitData, Task, Prediction."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, PredictionError
from volta.core.files import canonical_json, hash_array, hash_text

Source = TypeVar("Source")

_TASK_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.]|-(?!-)){0,62}")
_LONGEST = 200
_OOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")
_SHIFT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*-\d+")


def check_task_name(name: str) -> None:
    """Refuse a task name that is no plain file name."""
    if not _TASK_NAME.fullmatch(name) or name.endswith((".", "-")):
        raise InputError(
            f"name is {name!r}; pass up to 63 lower-case letters and digits, with single - _ . between them"
        )


def check_plain_name(name: str, what: str) -> None:
    """Refuse a name that cannot be part of a file's name: a task's or protocol's in a run, from a user or from a file.

    Runs of external predictions have names of letters of any script; a name never leads out of a folder.
    """
    if not 0 < len(name) <= _LONGEST or name.strip(".") == "" or any(not _is_plain(letter) for letter in name):
        shown = name if len(name) <= _LONGEST else f"{name[:20]}…"
        raise InputError(f"{what} is {shown!r}; use up to {_LONGEST} letters, digits and - _ .")


def _is_plain(letter: str) -> bool:
    return letter.isalnum() or letter in "-_."


def plain_name(name: str) -> str:
    """Return ``name`` with _ in place of every letter that a plain name cannot have."""
    return "".join(letter if _is_plain(letter) else "_" for letter in name)[:_LONGEST]


def check_ood_names(names: Iterable[str], near: Collection[str]) -> None:
    """Refuse OOD sets with a name that is none, and near ones that are not among them."""
    names = list(names)
    for name in names:
        if not _OOD_NAME.fullmatch(name):
            raise InputError(f"ood names a set {name!r}; use letters, digits, _ and .")
    check_near(names, near)


def check_near(names: Iterable[str], near: Collection[str]) -> None:
    """Refuse near OOD sets that are not among the OOD sets."""
    names = list(names)
    if isinstance(near, str):
        raise InputError(f"near is the text {near!r}; pass a list of names, as in [{near!r}]")
    if unknown := sorted(set(near) - set(names)):
        raise InputError(f"near names {unknown[0]!r}, which is not among the ood sets: {', '.join(names) or 'none'}")


def with_severities(shifts: Mapping[str, Source]) -> dict[str, Source]:
    """Return shifted sets under NAME-SEVERITY; a name without a severity has 1."""
    severe = {name if re.search(r"-\d+$", name) else f"{name}-1": source for name, source in shifts.items()}
    for name in severe:
        if not _SHIFT_NAME.fullmatch(name):
            raise InputError(
                f"shifts names a set {name!r}; use NAME-SEVERITY, such as fog-3, of letters, digits, _ and ."
            )
    return severe


Array: TypeAlias = NDArray[Any]
EncoderKind: TypeAlias = Literal["tabular", "vision"]
InputKind: TypeAlias = Literal["features", "pixels"]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows with labels.

    ``inputs`` is (n, d) features or (n, 3, h, w) pixels in [0, 1] or uint8; ``labels`` is (n,) int64 in 0..K-1;
    ``weights``, where there are any, (n,) how much each row counts in what is fitted on it, 1 on average.
    """

    inputs: Array
    labels: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InputError(
                f"labels has {len(self.labels)} rows but inputs has {len(self.inputs)}; pass one label a row"
            )
        if self.weights is not None and len(self.weights) != len(self.labels):
            raise InputError(
                f"weights has {len(self.weights)} rows but labels has {len(self.labels)}; pass one weight a row"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Split:
        """Return the named rows as a new split."""
        return Split(self.inputs[rows], self.labels[rows], None if self.weights is None else self.weights[rows])


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
        for name in ("train", "val"):
            if (weights := getattr(self, name).weights) is not None:
                parts[name].append(hash_array(weights))
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

    @classmethod
    def from_arrays(
        cls,
        train: tuple[Any, Any] | Split,
        test: tuple[Any, Any] | Split | None = None,
        *,
        val: tuple[Any, Any] | Split | None = None,
        cal: tuple[Any, Any] | Split | None = None,
        ood: Mapping[str, Any] | None = None,
        near: Collection[str] = (),
        shifts: Mapping[str, tuple[Any, Any] | Split] | None = None,
        name: str = "arrays",
        encoder: EncoderKind = "tabular",
    ) -> Task:
        """Make a task of arrays in memory.

        ``train``, ``test``, ``val`` and ``cal`` are pairs of inputs (n, d) and labels (n,), numbers or text. What is
        missing is drawn from the training rows, from a fixed seed: a fifth of all rows as test, a fifth for val and
        cal; a lone ``val`` is halved into val and cal. ``ood`` names sets of inputs (n, d); those named in ``near`` are
        near, all others far. ``shifts`` names test sets under a shift, NAME-SEVERITY. ``encoder`` is ``vision`` for
        features of an image backbone. Columns may have any scale: a benchmark scales them on the training rows, alike
        for every method.

        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(100, 4))
        >>> task = Task.from_arrays(train=(rows, np.arange(100) % 2), ood={"far_away": rows + 9.0}, name="mine")
        >>> len(task.fit.train), len(task.fit.val), len(task.fit.cal), len(task.test), sorted(task.ood)
        (60, 10, 10, 20, ['far_away'])
        """
        # Not an import statement, which a fingerprint would follow: how a task is made is in its data's hash.
        make = import_module("volta.data.task_builder").task_from_arrays
        parts = {"train": train, "val": val, "cal": cal, "test": test}
        task: Task = make(parts, ood or {}, shifts or {}, near=near, name=name, encoder=encoder)
        return task

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
    sets where the method makes them. All are finite: NaN is refused, and an infinite score becomes the largest number.
    """

    probs: NDArray[np.float64]
    uncertainty: NDArray[np.float64]
    ood_score: NDArray[np.float64] = None  # type: ignore[assignment]
    sets: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for name in ("probs", "uncertainty", "ood_score"):
                values = getattr(self, name)
                if values is None:
                    object.__setattr__(self, name, self.uncertainty)
                    continue
                # A sum is finite only where all of its terms are; it is the cheapest test of many.
                if not math.isfinite(np.add.reduce(values, axis=None)):
                    object.__setattr__(self, name, _without_infinities(values, name))

    def __len__(self) -> int:
        return len(self.probs)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The most probable class of each row."""
        return np.asarray(self.probs.argmax(axis=1), dtype=np.int64)


def _without_infinities(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return scores with the largest number in place of infinity, which keeps their order; refuse what has none."""
    lost = np.isnan(values) if name != "probs" else ~np.isfinite(values)
    if lost.any():
        row = int(np.argmax(lost.reshape(len(lost), -1).any(axis=1)))
        raise PredictionError(
            f"row {row} has no {name}: the method gives {values[row]}; where inputs are far too large, scale them, "
            "else look for what its formula does to this row, such as a division by 0"
        )
    return np.asarray(np.nan_to_num(values))


def _hash_split(split: Split) -> str:
    return hash_text(hash_array(split.inputs) + hash_array(split.labels))
