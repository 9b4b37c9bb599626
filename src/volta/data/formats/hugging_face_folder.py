"""Folders that Hugging Face ``datasets`` saved with ``save_to_disk``: one set, or one a split."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.contained import contained
from volta.core.errors import InputError, MissingDataError
from volta.core.files import stored_bytes
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.formats.parquet_columns import column_array

MARKS = ("dataset_dict.json", "dataset_info.json")
_STATE = "state.json"


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return any((folder / mark).is_file() for mark in MARKS)


def read_saved_dataset(folder: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, dict[str, Array]]:
    """Return the columns of each split by name; a set without splits is one called ``all``.

    Columns of class numbers become their classes' names. The folder is opened in a process of its own first, which
    tells how much it would become: Arrow files can be compressed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingDataError(
            f"{folder} is a Hugging Face data set; reading it needs: pip install datasets"
        ) from error
    with reading(folder, "cannot be read as a Hugging Face data set", "save it again with save_to_disk"):
        packed = stored_bytes(folder)
        for state in (*folder.glob(_STATE), *folder.glob(f"*/{_STATE}")):
            if state.is_file():
                _check_names(state, limits)
        # What is mapped into memory counts as memory taken.
        room = replace(limits, parser_bytes=limits.parser_bytes + packed)
        total = contained(f"{__name__}:measure", folder, {"source": str(folder.resolve())}, room)
        limits.check_volume(folder, total, packed)
        found: Any = datasets.load_from_disk(str(folder))
        splits: Mapping[str, Any] = found if isinstance(found, Mapping) else {"all": found}
        return {name: _columns(part, folder, f"{folder} {name}", limits) for name, part in splits.items()}


def measure(source: str) -> int:
    """Return how many bytes all rows take; what :func:`read_saved_dataset` runs in another process."""
    import datasets

    with reading(source, "cannot be read as a Hugging Face data set", "save it again with save_to_disk"):
        found: Any = datasets.load_from_disk(source)
        parts = found.values() if isinstance(found, Mapping) else [found]
        return sum(int(part.data.table.nbytes) for part in parts)


def _check_names(state: Path, limits: Limits) -> None:
    """Refuse a set whose list of files leads out of its folder."""
    if state.stat().st_size > limits.header_bytes:
        raise InputError(
            f"{state} is refused: it has more than {limits.header_bytes:,} bytes (--limit header_bytes=...)"
        )
    for file in json.loads(state.read_bytes())["_data_files"]:
        name = file["filename"]
        if Path(name).name != name or "\\" in name or name in ("", "..") or "://" in name:
            raise InputError(f"{state} is refused: it names the file {name!r}, which is not in its folder")


def _columns(part: Any, folder: Path, where: str, limits: Limits) -> dict[str, Array]:
    # Flattening, which a saved set has behind it, would otherwise write a copy of the rows into the folder.
    flat = part if getattr(part, "_indices", None) is None else part.flatten_indices(keep_in_memory=True)
    table = flat.data.table
    columns = {name: column_array(table[name], folder, f"{where} column {name}", limits) for name in table.column_names}
    for name, feature in part.features.items():
        if (names := getattr(feature, "names", None)) is not None and name in columns:
            numbers = columns[name].astype(np.int64)
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(names):
                raise InputError(
                    f"{where} column {name} has class numbers beyond its {len(names)} names; save it again"
                )
            columns[name] = np.array(names)[numbers]
    return columns
