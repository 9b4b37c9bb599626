"""Folders that Hugging Face ``datasets`` saved with ``save_to_disk``: one set, or one a split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.foreign import reading
from volta.core.types import Array
from volta.data.formats.parquet_columns import column_array

MARKS = ("dataset_dict.json", "dataset_info.json")


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return any((folder / mark).is_file() for mark in MARKS)


def read_saved_dataset(folder: Path) -> dict[str, dict[str, Array]]:
    """Return the columns of each split by name; a set without splits is one called ``all``.

    Columns of class numbers become their classes' names.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingDataError(
            f"{folder} is a Hugging Face data set; reading it needs: pip install datasets"
        ) from error
    with reading(folder, "cannot be read as a Hugging Face data set", "save it again with save_to_disk"):
        found: Any = datasets.load_from_disk(str(folder))
        splits: Mapping[str, Any] = found if isinstance(found, Mapping) else {"all": found}
        return {name: _columns(part, f"{folder} {name}") for name, part in splits.items()}


def _columns(part: Any, where: str) -> dict[str, Array]:
    table = part.flatten_indices().data.table
    columns = {name: column_array(table[name], f"{where} column {name}") for name in table.column_names}
    for name, feature in part.features.items():
        if (names := getattr(feature, "names", None)) is not None and name in columns:
            numbers = columns[name].astype(np.int64)
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(names):
                raise InputError(
                    f"{where} column {name} has class numbers beyond its {len(names)} names; save it again"
                )
            columns[name] = np.array(names)[numbers]
    return columns
