"""Arrays and a JSON header in one safetensors file with a checksum over all of its bytes. Nothing is pickled."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from volta.core.errors import StoreError, VoltaError
from volta.core.files import canonical_json, write_atomic
from volta.core.json_fields import JsonFields
from volta.core.sealed.checksums import PIECE, seal_of_sums
from volta.core.sealed.kind import FORMAT, KIND_NAME, FileKind
from volta.core.sealed.links import open_named
from volta.core.sealed.objects import parse_object
from volta.core.types import Array

_HEADER = "volta"
_UNSEALED = b"0" * 64
_MAX_HEADER = 1 << 26
_MAX_SIDES = 32
_SEAL = re.compile(rb'"seal":"([0-9a-f]{64})"')
_DTYPES = {
    name: np.dtype(kind)
    for name, kind in {
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
    }.items()
}


def write_sealed(path: Path, kind: FileKind, tensors: Mapping[str, Array], header: Mapping[str, object]) -> None:
    """Write ``tensors`` and ``header`` to a file of ``kind``, whole or not at all."""
    data = pack_sealed(kind, tensors, header)
    write_atomic(Path(path), lambda file: file.write(data))


def pack_sealed(kind: FileKind, tensors: Mapping[str, Array], header: Mapping[str, object]) -> bytearray:
    """Return the bytes of a sealed file.

    The seal is the SHA-256 of the CRC-32 of each MiB of the file, with 64 zeros in the seal's own place: it is there to
    find damage, and a SHA-256 of everything would take longer than all the rest of loading a large model. It stands in
    the metadata, so that the file is an ordinary safetensors file to every other reader.
    """
    from safetensors.numpy import save

    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    text = canonical_json({**header, KIND_NAME: kind.name, FORMAT: kind.version})
    data = bytearray(save(contiguous, {_HEADER: text, "seal": _UNSEALED.decode()}))
    found = _SEAL.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    if found is None:
        raise StoreError(f"a {kind.name} could not be sealed: safetensors wrote no seal field")
    data[found.start(1) : found.end(1)] = _seal_of(data)
    return data


def read_sealed(path: Path, kind: FileKind) -> tuple[JsonFields, dict[str, Array]]:
    """Return the header and the arrays of a file that :func:`write_sealed` wrote.

    A file that is not one, that was saved in another format, that is cut off or that differs from what was written in a
    single bit is refused. The arrays share one block of memory. ``path`` may be a link: it was named, not found.
    """
    try:
        with open_named(path) as file:
            # Told from its first bytes, before memory is taken for all of it.
            _check_start(file.peek(9)[:9], path, kind)  # type: ignore[attr-defined]
            data = np.fromfile(file, dtype=np.uint8)
    except VoltaError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise kind.refused(path, "needs more memory than there is") from error
    return unpack_sealed(data, path, kind)


def unpack_sealed(data: Array, path: Path | str, kind: FileKind) -> tuple[JsonFields, dict[str, Array]]:
    """Return the header and the arrays of a sealed file's bytes, (n,) uint8, which it writes to."""
    start = 8 + _check_start(data[:9].tobytes(), path, kind)
    if len(data) < start:
        raise StoreError(f"{path} is cut off within its header, or not a {kind.name}; copy it again")
    described = JsonFields.of(parse_object(data[8:start].tobytes(), path, kind), f"{path}: header", kind.remedy)
    if "__metadata__" not in described.values:
        raise StoreError(f"{path} is not a {kind.name}, or its header was altered")
    text = described.fields("__metadata__").text(_HEADER).encode()
    header = JsonFields.of(parse_object(text, path, kind), f"{path}: header", kind.remedy)
    kind.check(path, header)
    fields = {name: described.fields(name) for name in described.values if name != "__metadata__"}
    places = {name: _place(field) for name, field in fields.items()}
    expected = start + max((last for _, last in places.values()), default=0)
    if len(data) < expected:
        raise StoreError(f"{path} is cut off: it has {len(data)} of {expected} bytes; copy it again")
    _check_seal(path, data, start)
    arrays = {name: _array(data, start, place, fields[name]) for name, place in places.items()}
    return header, arrays


def _check_start(first: bytes, path: Path | str, kind: FileKind) -> int:
    """Return the length of the header, as the first nine bytes have it; refuse what cannot be a file of ours."""
    length = int.from_bytes(first[:8], "little")
    if first[8:9] != b"{":
        raise StoreError(f"{path} is not a {kind.name}: it does not begin as a safetensors file")
    if length > _MAX_HEADER:
        raise kind.refused(path, f"has a header of {length:,} bytes")
    return length


def _check_seal(path: Path | str, data: Array, start: int) -> None:
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
    sums = [zlib.crc32(view[start : start + PIECE]) for start in range(0, len(view), PIECE)]
    return seal_of_sums(sums).encode()


def _place(described: JsonFields) -> tuple[int, int]:
    match described.integers("data_offsets"):
        case (first, last) if 0 <= first <= last:
            return first, last
    raise StoreError(f"{described.where}: data_offsets are no place in the file; {described.remedy}")


def _array(data: Array, start: int, place: tuple[int, int], described: JsonFields) -> Array:
    first, last = place
    dtype, shape = described.text("dtype"), described.integers("shape")
    known = _DTYPES.get(dtype)
    # The product of a long list of large numbers would take hours.
    if len(shape) > _MAX_SIDES or min(shape, default=0) < 0:
        raise StoreError(f"{described.where} has a shape of {len(shape)} sides or one below 0; {described.remedy}")
    if known is None or math.prod(shape) * known.itemsize != last - first:
        raise StoreError(f"{described.where} is no array of {dtype} with shape {shape}; {described.remedy}")
    return data[start + first : start + last].view(known).reshape(shape)
