"""Arrays written piece by piece to npy files named by their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.files import hash_file, write_rows
from volta.core.sealed import seal_of_file
from volta.core.types import Array, InputKind
from volta.data.formats.precision import feature_dtype
from volta.data.formats.source_rows import SourceRows
from volta.data.importing.task_record import ArrayReference, StoredSplit

_CHUNK_BYTES = 1 << 24
_CHANNELS = (1, 3)


class ArrayWriter:
    """Writes the arrays of one task, all of one row shape: features in the `feature_dtype` of the first set, images as
    (n, 3, h, w) uint8.
    """

    def __init__(self, folder: Path, skip_bad: bool) -> None:
        self._folder = folder
        self._skip_bad = skip_bad
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] = np.dtype(np.uint8)
        self.notes: list[str] = []
        self.ranges: dict[str, tuple[float, float]] = {}
        folder.mkdir(parents=True)

    def set_kind(self, inputs: Array, where: str) -> InputKind:
        """Return whether a task with these inputs has features or pixels, and hold every later set to their shape."""
        self._shape = _target_shape(inputs, where)
        if len(self._shape) > 1:
            return "pixels"
        self._dtype = feature_dtype(inputs)
        return "features"

    def clean(self, rows: SourceRows, where: str) -> SourceRows:
        """Return the rows without NaN and infinities, or refuse them unless bad rows are to be left out."""
        if rows.inputs.dtype.kind != "f":
            return rows
        finite = np.ones(len(rows), bool)
        for piece in _pieces(rows):
            with np.errstate(over="ignore"):
                values = rows.inputs[rows.rows[piece]].astype(np.float32)
            finite[piece] = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if finite.all():
            return rows
        n_bad, first = int((~finite).sum()), int(np.argmin(finite))
        if not self._skip_bad:
            value = rows.inputs[rows.rows[first]]
            column = int(np.argmin(np.isfinite(value.astype(np.float32).reshape(-1))))
            raise InputError(
                f"{where}: {n_bad} rows hold NaN or values beyond float32, the first is row {first}, column {column}; "
                "impute them, or pass --skip-bad to leave them out"
            )
        self.notes.append(f"left out {n_bad} rows of {where} that hold NaN or infinities, the first is row {first}")
        return rows.take(np.flatnonzero(finite))

    def labelled(self, rows: SourceRows, labels: NDArray[np.int64], where: str, name: str) -> StoredSplit:
        """Write inputs and class numbers; return references to both."""
        whole = SourceRows(labels, None, np.arange(len(labels)))
        return StoredSplit(self.inputs(rows, where, name), self._write(whole, (), np.dtype(np.int64)))

    def inputs(self, rows: SourceRows, where: str, name: str) -> ArrayReference:
        """Write inputs; return a reference. Their least and largest value is kept in ``ranges`` under ``name``."""
        if not len(rows):
            raise InputError(f"{where} has no rows; give at least one")
        shape = _target_shape(rows.inputs, where)
        if shape != self._shape:
            raise InputError(
                f"{where} has rows of shape {shape}, but the task's are {self._shape}; sets of a task must match"
            )
        return self._write(rows, shape, self._dtype, name)

    def _write(self, rows: SourceRows, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "") -> ArrayReference:
        part = self._folder / ".part.npy"
        pieces = (_as_target(self._seen(rows.inputs[rows.rows[piece]], name), shape) for piece in _pieces(rows))
        write_rows(part, dtype, (len(rows), *shape), pieces)
        digest = hash_file(part)
        stored = f"{digest[:32]}.npy"
        part.replace(self._folder / stored)
        seal = seal_of_file(self._folder / stored)
        return ArrayReference(stored, digest, seal, (len(rows), *shape), dtype.str)

    def _seen(self, values: Array, name: str) -> Array:
        if name:
            low, high = self.ranges.get(name, (np.inf, -np.inf))
            self.ranges[name] = (min(low, float(values.min())), max(high, float(values.max())))
        return np.asarray(values)


def _pieces(rows: SourceRows) -> list[slice]:
    step = max(1, _CHUNK_BYTES // max(1, rows.inputs[:1].nbytes))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _target_shape(inputs: Array, where: str) -> tuple[int, ...]:
    """Return the shape of one stored row: (d,) for a matrix, (3, h, w) for 8-bit images however their channels lie."""
    if inputs.ndim == 2:
        return (inputs.shape[1],)
    if inputs.ndim not in (3, 4) or inputs.dtype != np.uint8:
        raise InputError(
            f"{where} has shape {inputs.shape} and {inputs.dtype}; "
            "expected (n, d) features, or 8-bit images (n, h, w, 3) or (n, 3, h, w)"
        )
    if inputs.ndim == 3:
        return (3, *inputs.shape[1:])
    first, last = inputs.shape[1] in _CHANNELS, inputs.shape[3] in _CHANNELS
    if first == last:
        raise InputError(f"{where} has shape {inputs.shape}: which axis holds the 1 or 3 channels cannot be told")
    return (3, *inputs.shape[2:]) if first else (3, *inputs.shape[1:3])


def _as_target(values: Array, shape: tuple[int, ...]) -> Array:
    if len(shape) < 3:
        return values
    if values.ndim == 3:
        values = values[:, None]
    elif values.shape[1] not in _CHANNELS:
        values = values.transpose(0, 3, 1, 2)
    return np.broadcast_to(values, (len(values), *shape))
