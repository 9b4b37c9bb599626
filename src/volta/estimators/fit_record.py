"""What a fitted classifier remembers of the rows it was made from: how many, of which classes, and their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta._version import __version__
from volta.core.files import hash_array
from volta.core.types import Split

PACKAGES = ("numpy", "scikit-learn", "torch")


@dataclass(frozen=True)
class FitRecord:
    """Rows that a classifier was fitted on, part by part (``train``, ``val``, ``cal``), and what made it.

    ``class_counts``: part → rows of each class, in the order of ``classes_``; ``data_hash``: part → SHA-256 over
    features and class numbers as they were used; ``files``: name → SHA-256 of the files they were read from, where they
    were; ``label``: the column that held the classes; ``versions``: package → version. Where ``n_folds`` is not 0
    there were few rows: ``train`` are all but the calibration rows, they steer too, in so many folds, and ``val`` are
    those of them that another fit left out, to join OOD scores and order a policy's thresholds.
    """

    class_counts: dict[str, tuple[int, ...]]
    data_hash: dict[str, str]
    versions: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    label: str | None = None
    n_folds: int = 0

    def n_rows(self, part: str) -> int:
        """Return how many rows a part has."""
        return sum(self.class_counts[part])


def record_fit(parts: Mapping[str, Split], classes: NDArray[Any], n_folds: int) -> FitRecord:
    """Describe the parts of a fit; rows are in the user's units, those in ``train`` are all that trained."""
    return FitRecord(
        class_counts={
            name: tuple(np.bincount(part.labels, minlength=len(classes)).tolist()) for name, part in parts.items()
        },
        data_hash={name: _hash(part) for name, part in parts.items()},
        versions={"volta-uq": __version__, **{name: found for name in PACKAGES if (found := _version(name))}},
        n_folds=n_folds,
    )


def _hash(part: Split) -> str:
    return hashlib.sha256(f"{hash_array(part.inputs)}{hash_array(part.labels)}".encode()).hexdigest()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
