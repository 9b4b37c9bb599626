"""Rows as a source gives them, before they are a task's splits: labels may be any names, rows may be a selection."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.given_rows import column_order
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
        order = column_order(self.columns, columns, where)
        return self if order is None else replace(self, inputs=self.inputs[:, order], columns=columns)
