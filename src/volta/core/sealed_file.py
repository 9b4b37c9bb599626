"""Arrays and a JSON header in one safetensors file with a checksum over all of its bytes. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import StoreError
from volta.core.files import canonical_json, write_atomic
from volta.core.types import Array

_HEADER = "volta"
_UNSEALED = b"0" * 64
_PIECE = 1 << 20
_SEAL = re.compile(rb'"seal":"([0-9a-f]{64})"')
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}


def write_sealed(path: Path, tensors: Mapping[str, Array], header: dict[str, Any]) -> None:
    """Write ``tensors`` and ``header``, which must hold a whole number under ``format``, and seal them.

    The seal is the SHA-256 of the CRC-32 of each MiB of the file, with 64 zeros in the seal's own place: it is there to
    find damage, and a SHA-256 of everything would take longer than all the rest of loading a large model. It stands in
    the metadata, so that the file is an ordinary safetensors file to every other reader.
    """
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    data = bytearray(save(contiguous, {_HEADER: canonical_json(header), "seal": _UNSEALED.decode()}))
    found = _SEAL.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    if found is None:
        raise StoreError(f"{path} could not be sealed: safetensors wrote no seal field")
    data[found.start(1) : found.end(1)] = _seal_of(data)
    write_atomic(Path(path), lambda file: file.write(data))


def read_sealed(path: Path, format_version: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a file that :func:`write_sealed` wrote.

    A file that is not one, that was saved in another format, that is cut off or that differs from what was written in a
    single bit is refused. The arrays share one block of memory.
    """
    try:
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    header, arrays, start = _described(path, data)
    _check_format(path, header["format"], format_version)
    _check_seal(path, data, start)
    return header, {name: _array(data, start, value) for name, value in arrays.items()}


def _described(path: Path, data: Array) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return our header, safetensors' description of the arrays, and where their bytes begin."""
    length = int.from_bytes(data[:8].tobytes(), "little") if len(data) >= 8 else 0
    if data[8:9].tobytes() != b"{":
        raise StoreError(f"{path} is not a saved VOLTA method: it does not begin as a safetensors file")
    if len(data) < 8 + length:
        raise StoreError(f"{path} is cut off within its header, or not a saved VOLTA method; copy it again")
    try:
        arrays = json.loads(data[8 : 8 + length].tobytes())
        header = json.loads(arrays.pop("__metadata__")[_HEADER])
        version = header["format"]
        expected = 8 + length + max((value["data_offsets"][1] for value in arrays.values()), default=0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is not a saved VOLTA method, or its header was altered ({error!r})") from error
    if not isinstance(version, int):
        raise StoreError(f"{path} is not a saved VOLTA method: its format is {version!r}")
    if len(data) < expected:
        raise StoreError(f"{path} is cut off: it has {len(data)} of {expected} bytes; copy it again")
    return header, arrays, 8 + length


def _check_format(path: Path, found: int, wanted: int) -> None:
    if found > wanted:
        raise StoreError(
            f"{path} was saved by a newer version of volta (format {found}, this one reads {wanted}); upgrade volta-uq"
        )
    if found < wanted:
        raise StoreError(
            f"{path} was saved by an older version of volta (format {found}, this one reads {wanted}); "
            "fit and save it again"
        )


def _check_seal(path: Path, data: Array, start: int) -> None:
    found = _SEAL.search(data.data, 8, start)
    if found is not None:
        sealed, place = found.group(1), data[found.start(1) : found.end(1)]
        place[:] = np.frombuffer(_UNSEALED, dtype=np.uint8)
        if _seal_of(data.data) == sealed:
            return
    raise StoreError(f"{path} was altered or damaged after it was saved: its bytes do not match its checksum")


def _seal_of(data: bytearray | memoryview) -> bytes:
    """Return the seal of bytes that have zeros in its place."""
    view = memoryview(data)
    sums = [zlib.crc32(view[start : start + _PIECE]) for start in range(0, len(view), _PIECE)]
    return hashlib.sha256(b"".join(value.to_bytes(4, "little") for value in sums)).hexdigest().encode()


def _array(data: Array, start: int, value: dict[str, Any]) -> Array:
    first, last = value["data_offsets"]
    part = data[start + first : start + last]
    return part.view(np.dtype(_DTYPES[value["dtype"]])).reshape(value["shape"])
