"""Rows as a source gives them, before they are a task's splits: labels may be any names, rows may be a selection."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array

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


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Rows ``rows`` of ``inputs``, with a label of any kind for each, or none.

    ``columns``: the names of the inputs' columns, one each, where the source names them.
    """

    inputs: Array
    labels: Array | None
    rows: NDArray[np.int64]
    columns: tuple[str, ...] | None = None

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
        return SourceRows(self.inputs, labels, self.rows[index], self.columns)

    def in_columns(self, columns: tuple[str, ...] | None, where: str) -> SourceRows:
        """Return the rows with their columns in the order of ``columns``, by name where both sides have names."""
        if columns is None or self.columns is None or columns == self.columns:
            return self
        own = set(self.columns)
        missing = [name for name in columns if name not in own]
        unknown = [name for name in self.columns if name not in set(columns)]
        if missing or unknown:
            what = f"lacks the column {missing[0]!r}" if missing else f"has a column {unknown[0]!r}"
            which = "which the training rows have" if missing else "which the training rows lack"
            raise InputError(f"{where} {what}, {which}; give every set the same columns, in any order")
        place = {name: at for at, name in enumerate(self.columns)}
        return replace(self, inputs=self.inputs[:, [place[name] for name in columns]], columns=columns)
