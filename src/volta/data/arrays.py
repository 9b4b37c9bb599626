"""npy and npz files whose headers are checked before an array is made, and rows as a source gives them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import column_order
from volta.core.errors import InputError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits
from volta.core.scaling import row_parts
from volta.core.types import Array, Split
from volta.data.download import check_zip

_ROUNDING = 2.0**-24
"""Half the distance of two neighbours in float32, of the larger one."""
_LOST = 1e-4
"""A column whose values are rounded by more than this share of its standard deviation is kept in float64."""


def feature_dtype(rows: Array) -> np.dtype[np.float32] | np.dtype[np.float64]:
    """Return float32, or float64 where rounding rows (n, d) to float32 would blur a column, as it does time stamps.

    >>> seconds = 1.7e9 + np.arange(60.0)[:, None]
    >>> feature_dtype(seconds), feature_dtype(seconds - seconds.mean())
    (dtype('float64'), dtype('float32'))
    """
    if np.can_cast(rows.dtype, np.float32, "safe"):
        return np.dtype(np.float32)
    counts, total, squares, largest = (np.zeros(rows.shape[1]) for _ in range(4))
    # NaN and infinities are refused, or their rows left out, elsewhere; here they say nothing.
    for part in row_parts(rows):
        values = rows[part].astype(np.float64)
        known = np.isfinite(values)
        np.maximum(largest, np.abs(values).max(axis=0, where=known, initial=0.0), out=largest)
        counts += known.sum(axis=0)
        total += values.sum(axis=0, where=known)
    counts = np.maximum(counts, 1.0)
    centre = total / counts
    for part in row_parts(rows):
        values = rows[part].astype(np.float64)
        with np.errstate(over="ignore"):
            squares += np.square(values - centre).sum(axis=0, where=np.isfinite(values))
    deviation = np.sqrt(squares / counts)
    blurred = (largest * _ROUNDING > _LOST * deviation) & (deviation > 1e-12 * largest)
    return np.dtype(np.float64) if blurred.any() else np.dtype(np.float32)


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

    ``columns``: the names of the inputs' columns, one each, where the source names them. ``weights``: one a row.
    """

    inputs: Array
    labels: Array | None
    rows: NDArray[np.int64]
    columns: tuple[str, ...] | None = None
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def known_labels(self) -> Array:
        """The labels; an error where there are none."""
        if self.labels is None:
            raise InputError("the source has no labels; a task and its shifts need one a row")
        return self.labels

    def take(self, index: NDArray[np.int64]) -> SourceRows:
        """Return a selection; inputs are not copied."""
        labels, weights = (None if values is None else values[index] for values in (self.labels, self.weights))
        return replace(self, labels=labels, weights=weights, rows=self.rows[index])

    def split(self, numbers: NDArray[np.int64]) -> Split:
        """Return the rows as a split of a task, with class ``numbers`` as labels."""
        return Split(self.inputs[self.rows], numbers, self.weights)

    def in_columns(self, train: SourceRows, where: str) -> SourceRows:
        """Return the rows with their columns in the order of the training rows, by name where both have names."""
        order = column_order(self.columns, train.columns, where)
        if self.inputs.ndim == train.inputs.ndim == 2 and self.inputs.shape[1] != train.inputs.shape[1]:
            raise InputError(
                f"{where} has {self.inputs.shape[1]} columns but train has {train.inputs.shape[1]}; sets of a task "
                "must match"
            )
        return self if order is None else replace(self, inputs=self.inputs[:, order], columns=train.columns)


class ArrayHeader(NamedTuple):
    """What an npy file says of its array before the values."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def read_header(file: IO[bytes], limits: Limits) -> ArrayHeader:
    """Return an array's header, read by NumPy; the file is at the values then."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return ArrayHeader(*read(file, max_header_size=limits.header_bytes))


def no_objects(dtype: np.dtype[Any], where: str) -> None:
    """Refuse an array of Python objects: reading it would unpickle them."""
    if dtype.hasobject:
        raise InputError(
            f"{where} holds Python objects, which would have to be unpickled; "
            "save labels as numbers or fixed-width text"
        )


def read_npz(
    path: Path, limits: Limits = DEFAULT_LIMITS, wanted: Callable[[str], bool] | None = None
) -> dict[str, Array]:
    """Return the arrays of an npz, or those whose names are ``wanted``; nothing is unpickled.

    The directory is checked before an array is read; zip compares the checksum of each array.
    """
    with parse_errors(path, "cannot be read", "it is damaged or not an npz"):
        _check_magic(path, b"PK", "is not an npz; a single array has to be called .npy")
        members = check_zip(path, limits, "cannot be read as an npz")
        arrays = {}
        with zipfile.ZipFile(path) as archive:
            for member in members:
                name = member.filename.removesuffix(".npy")
                if wanted is None or wanted(name):
                    with archive.open(member) as file:
                        header = read_header(file, limits)
                        no_objects(header.dtype, f"{path} array {name!r}")
                        # A damaged header may ask for any amount of memory.
                        if math.prod(header.shape) * header.dtype.itemsize > member.file_size:
                            raise InputError(
                                f"{path} array {name!r} cannot be read: its header names more values than "
                                "the file holds; it is damaged, save it again"
                            )
                        file.seek(0)
                        arrays[name] = np.lib.format.read_array(
                            file, allow_pickle=False, max_header_size=limits.header_bytes
                        )
        return arrays


def read_npy(path: Path, limits: Limits = DEFAULT_LIMITS) -> Array:
    """Return an npy file as a read-only memory map."""
    with parse_errors(path, "is not a npy file that can be read", "it is damaged; save it again"):
        _check_magic(path, b"\x93NUMPY", "is not a npy file; an npz has to be called .npz")
        with path.open("rb") as file:
            no_objects(read_header(file, limits).dtype, str(path))
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False, max_header_size=limits.header_bytes)
        return array


def _check_magic(path: Path, magic: bytes, problem: str) -> None:
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for a writer.
        raise InputError(f"{path} is no file but a folder, pipe or device; name a file")
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:
            raise InputError(f"{path} {problem}")
