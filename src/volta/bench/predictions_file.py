"""A cell's predictions on disk: an npz that its record holds the checksum of, read with its arrays checked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from volta.bench.eval_set import VAL, EvalSet
from volta.core.errors import InputError, StoreError
from volta.core.sealed import checksum_of
from volta.core.types import Array
from volta.data.formats.array_files import read_npz

REMEDY = "run volta bench again to compute it anew"
_TABLES = ("probs", "sets")
_NEEDED = {"ood": ("ood_score",), "test": ("probs", "labels", "uncertainty")}
_KINDS = {"labels": "iu", "probs": "f", "uncertainty": "fiu", "ood_score": "fiu", "sets": "biu", "id": "iuUS"}


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Return an npz with fixed time stamps, so that equal arrays give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), part.getvalue())
    return buffer.getvalue()


def check_checksum(path: Path, expected: str) -> None:
    """Refuse predictions other than those that a record was made of: damaged ones, and those of another cell."""
    try:
        found = checksum_of(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; {REMEDY}") from error
    if found != expected:
        raise StoreError(f"{path} is not what its record was made of: its checksum is another one; {REMEDY}")


def read_predictions(path: Path, names: Collection[str] | None = None) -> dict[str, Array]:
    """Return the arrays, all of them or those named that there are, each as a cell's can be."""
    try:
        arrays = read_npz(path, wanted=None if names is None else names.__contains__)
        by_set: dict[str, dict[str, Array]] = {}
        for key, values in arrays.items():
            set_name, _, kind = key.rpartition("/")
            by_set.setdefault(set_name, {})[kind] = values
        for set_name, parts in by_set.items():
            _check_set(set_name, parts, whole=names is None)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}; {REMEDY}") from error
    except InputError as error:
        raise StoreError(f"{path} is damaged ({error}); {REMEDY}") from error
    return arrays


def _check_set(name: str, parts: Mapping[str, Array], *, whole: bool) -> None:
    kind = VAL if name == VAL else EvalSet.parse(name).kind
    for part, values in parts.items():
        if values.dtype.kind not in _KINDS.get(part, "") or values.ndim != 1 + (part in _TABLES):
            raise InputError(f"{name}/{part} has shape {values.shape} and {values.dtype}")
    if len({len(values) for values in parts.values()}) > 1:
        raise InputError(f"the arrays of {name} have different numbers of rows")
    needed = ("probs", "labels") if kind == VAL else _NEEDED["ood" if kind == "ood" else "test"]
    if whole and (missing := [part for part in needed if part not in parts]):
        raise InputError(f"{name} has no {missing[0]}")
