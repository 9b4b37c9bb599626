"""Rows as a source gives them, before they are a task's splits: labels may be any names, rows may be a selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array, OodSet, Split

SPLIT_NAMES: dict[str, str] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "cal": "cal",
    "calib": "cal",
    "calibration": "cal",
    "test": "test",
    "testing": "test",
}
"""What sources call their splits."""


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
class SourceRows:
    """Rows ``rows`` of ``inputs``, with a label of any kind for each, or none."""

    inputs: Array
    labels: Array | None
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.labels) != len(self.rows):
            raise InputError(
                f"labels has {len(self.labels)} rows but inputs has {len(self.rows)}; pass one label a row"
            )

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: NDArray[np.int64]) -> SourceRows:
        """Return a selection; nothing is copied."""
        labels = None if self.labels is None else self.labels[index]
        return SourceRows(self.inputs, labels, self.rows[index])


@dataclass(frozen=True, eq=False)
class RawSets:
    """All sets of a task as its files give them.

    ``parts`` is ``train`` and ``test``, from which :func:`volta.data.prepare.make_task` splits ``val`` and ``cal``,
    or all four. ``source`` says in words where the data came from; ``corruptions`` whether the shifts include those of
    CIFAR-10-C, and whose they are.
    """

    parts: Mapping[str, Split]
    ood: Mapping[str, OodSet] = field(default_factory=dict)
    shifts: Mapping[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    source: str = ""
    corruptions: CorruptionOrigin = "none"

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
