"""npy and npz files: every header is read and its size compared with the file's before an array is made."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from volta.core.errors import InputError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.download.unpack import check_zip

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
    with reading(path, "cannot be read", _NPZ_REMEDY):
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
    with reading(path, "is not a npy file that can be read", "it is damaged; save it again"):
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
