"""Rows as a source gives them, before they are a task's splits: labels may be any names, rows may be a selection."""

from __future__ import annotations

from dataclasses import dataclass

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
