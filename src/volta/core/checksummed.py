"""Files of ours with a checksum: JSON objects, and arrays with a JSON header as safetensors.

Every file names its kind and version. Dataclasses are the schema of what is read: msgspec checks each value's type.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from volta.core.errors import StoreError, VoltaError, reason
from volta.core.files import canonical_json, hash_file, read_file, write_atomic
from volta.core.types import Array

T = TypeVar("T")
_KIND, _FORMAT = "file_kind", "file_format"
_NO_CHECKSUM = b"0" * 64


@dataclass(frozen=True)
class FileKind:
    """A kind of file of ours.

    ``name`` stands in the file and in errors; ``version`` grows when the format changes; ``remedy`` says what to do
    about a file that cannot be used; ``max_bytes`` bounds what is read into memory.
    """

    name: str
    version: int
    remedy: str
    max_bytes: int = 1 << 26

    def error(self, path: Path | str, problem: str) -> StoreError:
        """Return the error for a file of this kind that cannot be used."""
        return StoreError(f"{path} {problem}; {self.remedy}")

    @contextmanager
    def parsing(self, path: Path | str) -> Iterator[None]:
        """Turn every exception but our own into the error for a file with other content than this kind has.

        A checksum finds damage; it does not tell who wrote the file.
        """
        try:
            yield
        except StoreError:
            raise
        except (Exception, MemoryError) as error:
            why = str(error) if isinstance(error, msgspec.MsgspecError) else reason(error)
            raise self.error(path, f"does not hold a {self.name} as volta writes them ({why})") from error

    def fields(self, content: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of a file with this content: its own, kind and version."""
        return {**content, _KIND: self.name, _FORMAT: self.version}

    def check(self, path: Path | str, data: bytes) -> None:
        """Refuse the JSON text of a file of another kind or version."""
        with self.parsing(path):
            stored = msgspec.json.decode(data, type=_Header)
        if stored.file_kind != self.name:
            raise self.error(path, f"is not a {self.name}, but says it is {stored.file_kind!r:.60}")
        if stored.file_format > self.version:
            raise StoreError(
                f"{path} was written by a newer version of volta (format {stored.file_format}, this one reads "
                f"{self.version}); upgrade volta-uq"
            )
        if stored.file_format < self.version:
            raise self.error(
                path,
                f"was written by an older version of volta (format {stored.file_format}, this one reads "
                f"{self.version})",
            )


@dataclass(frozen=True)
class _Header:
    file_kind: str
    file_format: int


def _custom(kind: type[Any], value: object) -> Any:
    """Return a value of a type that msgspec does not know, such as a subclass of str or a path."""
    return kind(value)


def _builtin(value: object) -> object:
    for kind in (str, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"a file cannot hold a {type(value).__name__}")


_OPENING, _CLOSING = b'{\n  "seal": "', b'",\n'


def write_object(path: Path, kind: FileKind, value: object) -> None:
    """Write a dataclass or dictionary as JSON, whole or not at all; equal values give equal bytes."""
    data = encode_object(kind, value)
    write_atomic(Path(path), lambda file: file.write(data))


def read_object(path: Path, kind: FileKind, content: type[T]) -> T:
    """Return what :func:`write_object` wrote, as the type ``content``; every other file is refused."""
    try:
        data = read_file(Path(path), kind.max_bytes)
    except VoltaError:
        raise
    except OSError as error:
        raise kind.error(path, f"cannot be read: {error.strerror or error}") from error
    return decode_object(data, path, kind, content)


def encode_object(kind: FileKind, value: object) -> bytes:
    """Return the bytes of a file; its checksum is the SHA-256 of all of them with 64 zeros in its place."""
    text = canonical_json(kind.fields(msgspec.to_builtins(value, enc_hook=_builtin)), indent=2)
    rest = _CLOSING + text.removeprefix("{\n").encode() + b"\n"
    return _OPENING + _sha256(_OPENING, _NO_CHECKSUM, rest) + rest


def decode_object(data: bytes, path: Path | str, kind: FileKind, content: type[T]) -> T:
    """Return the object in a file's bytes as the type ``content``; ``path`` names them in errors."""
    start = len(_OPENING) + len(_NO_CHECKSUM)
    if not data.startswith(_OPENING) or data[start : start + len(_CLOSING)] != _CLOSING:
        raise kind.error(path, "has no checksum: it is damaged, or an older version of volta wrote it")
    if _sha256(_OPENING, _NO_CHECKSUM, data[start:]) != data[len(_OPENING) : start]:
        raise kind.error(path, "was altered or damaged after it was written: its bytes do not match its checksum")
    kind.check(path, data)
    with kind.parsing(path):
        value = msgspec.json.decode(data, type=content, dec_hook=_custom)
    if isinstance(value, dict):
        for name in ("seal", _KIND, _FORMAT):
            del value[name]
    return value


def _sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).hexdigest().encode()


_PIECE_BYTES = 1 << 20
_Status = tuple[int, ...]
_known: dict[tuple[Callable[[Path], str], Path], tuple[_Status, str]] = {}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; computed once a process while the file stays the same."""
    return _once(hash_file, path)


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file has the checksum that :func:`checksum_of_file` gave when it was written."""
    return _once(checksum_of_file, path) == checksum


def checksum_of_file(path: Path) -> str:
    """Return the SHA-256 of the CRC-32 of each MiB of a file, which finds damage at a CRC's speed."""
    sums = bytearray()
    buffer = memoryview(bytearray(_PIECE_BYTES))
    with path.open("rb") as file:
        while n_read := file.readinto(buffer):
            sums += zlib.crc32(buffer[:n_read]).to_bytes(4, "little")
    return hashlib.sha256(sums).hexdigest()


def _once(compute: Callable[[Path], str], path: Path) -> str:
    """Return ``compute(path)``, again only where device, number, size or times of the file have changed."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a file but a link, folder, pipe or device; remove it")
    state = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    known = _known.get((compute, path))
    if known is None or known[0] != state:
        known = _known[compute, path] = state, compute(path)
    return known[1]


_MAX_HEADER = 1 << 26
_CHECKSUM = re.compile(rb'"seal":"([0-9a-f]{64})"')
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


@dataclass(frozen=True)
class _StoredArray:
    """An array in safetensors' header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def write_arrays(path: Path, kind: FileKind, arrays: Mapping[str, Array], header: Mapping[str, object]) -> None:
    """Write ``arrays`` and ``header`` to a file of ``kind``, whole or not at all."""
    data = encode_arrays(kind, arrays, header)
    write_atomic(Path(path), lambda file: file.write(data))


def read_arrays(path: Path, kind: FileKind, content: type[T]) -> tuple[T, dict[str, Array]]:
    """Return the header as the type ``content``, and the arrays, of a file that :func:`write_arrays` wrote.

    Refused are files that are none of ours, of another version, cut off, or changed in a single bit. The arrays share
    one block of memory. ``path`` may be a link: the user named it.
    """
    try:
        with Path(path).open("rb") as file:
            # Another kind of file is refused by its first bytes, before memory is taken for all of it.
            _header_bytes(file.peek(9)[:9], path, kind)
            data = np.fromfile(file, dtype=np.uint8)
    except VoltaError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise kind.error(path, "needs more memory than there is") from error
    return decode_arrays(data, path, kind, content)


def encode_arrays(kind: FileKind, arrays: Mapping[str, Array], header: Mapping[str, object]) -> bytearray:
    """Return the bytes of a safetensors file with ``header`` and a checksum in its metadata.

    The checksum is that of :func:`checksum_of_file`, with 64 zeros in its own place. A SHA-256 of everything would take
    longer than all the rest of loading a large model.
    """
    from safetensors.numpy import save

    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = canonical_json(kind.fields(header))
    data = bytearray(save(contiguous, {"volta": text, "seal": _NO_CHECKSUM.decode()}))
    place = _CHECKSUM.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    if place is None:
        raise StoreError(f"a {kind.name} got no checksum: safetensors wrote no field for it")
    data[place.start(1) : place.end(1)] = _checksum_of(data)
    return data


def decode_arrays(data: Array, path: Path | str, kind: FileKind, content: type[T]) -> tuple[T, dict[str, Array]]:
    """Return the header and the arrays in a file's bytes, (n,) uint8 that can be written to."""
    start = 8 + _header_bytes(data[:9].tobytes(), path, kind)
    if len(data) < start:
        raise StoreError(f"{path} is cut off within its header, or not a {kind.name}; copy it again")
    with kind.parsing(path):
        described = msgspec.json.decode(data[8:start].tobytes(), type=dict[str, msgspec.Raw])
    if "__metadata__" not in described:
        raise StoreError(f"{path} is not a {kind.name}, or its header was altered")
    with kind.parsing(path):
        text = msgspec.json.decode(described.pop("__metadata__"), type=dict[str, str])["volta"].encode()
        stored = {name: msgspec.json.decode(raw, type=_StoredArray) for name, raw in described.items()}
    kind.check(path, text)
    expected = start + max((array.data_offsets[1] for array in stored.values()), default=0)
    if len(data) < expected:
        raise StoreError(f"{path} is cut off: it has {len(data)} of {expected} bytes; copy it again")
    _check_checksum(path, data, start)
    with kind.parsing(path):
        header = msgspec.json.decode(text, type=content, dec_hook=_custom)
        arrays = {}
        for name, array in stored.items():
            first, last = array.data_offsets
            arrays[name] = data[start + first : start + last].view(_DTYPES[array.dtype]).reshape(array.shape)
    return header, arrays


def _header_bytes(first: bytes, path: Path | str, kind: FileKind) -> int:
    """Return the length of the header from the first nine bytes; refuse what cannot be a file of ours."""
    length = int.from_bytes(first[:8], "little")
    if first[8:9] != b"{":
        raise StoreError(f"{path} is not a {kind.name}: it does not begin as a safetensors file")
    if length > _MAX_HEADER:
        raise kind.error(path, f"has a header of {length:,} bytes")
    return length


def _check_checksum(path: Path | str, data: Array, start: int) -> None:
    match = _CHECKSUM.search(data.data, 8, start)
    if match is not None:
        checksum, place = match.group(1), data[match.start(1) : match.end(1)]
        place[:] = np.frombuffer(_NO_CHECKSUM, dtype=np.uint8)
        if _checksum_of(data.data) == checksum:
            return
    raise StoreError(f"{path} was altered or damaged after it was saved: its bytes do not match its checksum")


def _checksum_of(data: bytearray | memoryview) -> bytes:
    view = memoryview(data)
    pieces = (view[start : start + _PIECE_BYTES] for start in range(0, len(view), _PIECE_BYTES))
    return _sha256(*(zlib.crc32(piece).to_bytes(4, "little") for piece in pieces))
