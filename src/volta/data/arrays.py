"""npy and npz files whose headers are checked before an array is made, and rows as a source gives them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import column_order
from volta.core.errors import InputError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits
from volta.core.scaling import row_parts
from volta.core.types import Array
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


_NPZ_REMEDY = "it is damaged or not an npz"


@dataclass(frozen=True)
class ArrayHeader:
    """What an npy file says of its array; ``offset`` is where the values begin."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def read_header(file: IO[bytes], where: str, limits: Limits) -> ArrayHeader:
    """Return an array's header; the file stands at the values then."""
    version = np.lib.format.read_magic(file)
    length_bytes = {(1, 0): 2, (2, 0): 4, (3, 0): 4}.get(version)
    if length_bytes is None:
        raise ValueError(f"its format is {version}, expected 1.0 to 3.0")
    prefix = file.read(length_bytes)
    length = int.from_bytes(prefix, "little")
    if length > limits.header_bytes:
        raise InputError(f"{where} is refused: its header has {length:,} bytes, the limit is {limits.header_bytes:,}")
    content = file.read(length)
    if len(content) < length:
        raise ValueError("it is cut off within its header")
    shape, fortran_order, dtype = _parse(version, prefix + content, limits.header_bytes)
    if any(side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    return ArrayHeader(shape, fortran_order, dtype, 8 + length_bytes + length)


def read_npz(
    path: Path, limits: Limits = DEFAULT_LIMITS, wanted: Callable[[str], bool] | None = None
) -> dict[str, Array]:
    """Return the arrays of an npz, or those whose names are ``wanted``; object arrays, which would have to be
    unpickled, are refused.

    The directory is judged first, each header next; every member is read to its end, where its checksum is compared.
    """
    with parse_errors(path, "cannot be read", _NPZ_REMEDY):
        if _starts(path, b"\x93NUMPY"):
            raise InputError(f"{path} is a single array, not an npz; rename it to .npy")
        members = check_zip(path, limits, "cannot be read as an npz")
        arrays = {}
        with zipfile.ZipFile(path) as archive:
            for member in members:
                name = member.filename.removesuffix(".npy")
                if wanted is not None and not wanted(name):
                    continue
                with archive.open(member) as file:
                    arrays[name] = _read_member(file, member.file_size, f"{path} array {name!r}", limits)
        return arrays


def read_npy(path: Path, limits: Limits = DEFAULT_LIMITS) -> Array:
    """Return an npy file as a read-only memory map; a file that is longer or shorter than its array is refused."""
    with parse_errors(path, "is not a npy file that can be read", "it is damaged; save it again"):
        if _starts(path, b"PK"):
            raise InputError(f"{path} is an npz; rename it to .npz")
        with path.open("rb") as file:
            header = read_header(file, str(path), limits)
        check_values(str(path), header, path.stat().st_size)
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False, max_header_size=limits.header_bytes)
        return array


def _read_member(file: IO[bytes], size: int, where: str, limits: Limits) -> Array:
    header = read_header(file, where, limits)
    check_values(where, header, size)
    data = bytearray(header.n_bytes)
    view = memoryview(data)
    position = 0
    while position < len(data):
        chunk = file.read(min(1 << 24, len(data) - position))
        if not chunk:
            raise ValueError(f"{where} is cut off")
        view[position : position + len(chunk)] = chunk
        position += len(chunk)
    if file.read(1):
        raise ValueError(f"{where} is longer than its header says")
    values = np.frombuffer(data, dtype=header.dtype)
    return values.reshape(header.shape, order="F" if header.fortran_order else "C")


def check_values(where: str, header: ArrayHeader, n_bytes: int) -> None:
    """Refuse a file or member of ``n_bytes`` whose header describes another number of bytes, or Python objects."""
    if header.dtype.hasobject:
        raise InputError(
            f"{where} holds Python objects, which would have to be unpickled; "
            "save labels as numbers or fixed-width text"
        )
    if header.offset + header.n_bytes != n_bytes:
        raise InputError(
            f"{where} has {n_bytes:,} bytes, but its header describes {header.offset + header.n_bytes:,} "
            f"(shape {header.shape}, {header.dtype}); it is damaged, save it again"
        )


def _starts(path: Path, magic: bytes) -> bool:
    # Who opens a pipe waits for a writer.
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no file but a folder, pipe or device; name a file")
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


@lru_cache(maxsize=256)
def _parse(version: tuple[int, int], content: bytes, max_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse a header by NumPy's own reader, which evaluates literals and nothing else; a run has few distinct ones."""
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(io.BytesIO(content), max_header_size=max_bytes)
    return shape, fortran_order, dtype
