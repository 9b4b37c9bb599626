"""Checksummed files: arrays with a JSON header as safetensors, and JSON objects.

A file counts as the same while device, number, size and times are. Those of large files are remembered beside them,
so that data larger than memory are read through once and not by every process: a changed file is read through again,
and what a disk changed by itself, times and all, is found by ``volta data verify``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeGuard

import numpy as np

from volta.core.errors import StoreError, VoltaError, reason
from volta.core.files import canonical_json, hash_file, open_file, open_named, open_to_write, read_file, write_atomic
from volta.core.types import Array

JsonObject: TypeAlias = dict[str, object]
"""A JSON object about to be written, or just read."""
_LARGEST = (1 << 64) - 1
"""Beyond this a whole number fits no array and no float."""


@dataclass(frozen=True)
class JsonFields:
    """One JSON object of a file.

    ``where`` names the file and, inside it, the object; ``remedy`` is what a reader is told to do about a bad value.
    """

    values: Mapping[str, object]
    where: str
    remedy: str

    @classmethod
    def of(cls, value: object, where: str, remedy: str) -> JsonFields:
        """Return the fields of a JSON object; refuse anything else."""
        if not isinstance(value, dict):
            raise StoreError(f"{where} is {_shown(value)}, expected an object; {remedy}")
        return cls(value, where, remedy)

    def get(self, name: str) -> object:
        """Return a value of any type; one that is absent is None."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.optional_text(name)
        return self._refuse(name, "a text") if value is None else value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None where it is null or absent."""
        value = self.get(name)
        return value if value is None or isinstance(value, str) else self._refuse(name, "a text")

    def integer(self, name: str) -> int:
        """Return a whole number."""
        value = self.optional_integer(name)
        return self._refuse(name, "a whole number") if value is None else value

    def optional_integer(self, name: str) -> int | None:
        """Return a whole number, or None where it is null or absent."""
        value = self.get(name)
        if value is None or _is_integer(value):
            return value
        return self._refuse(name, "a whole number")

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self.optional_number(name)
        return self._refuse(name, "a finite number") if value is None else value

    def optional_number(self, name: str) -> float | None:
        """Return a finite number, or None where it is null or absent."""
        value = self.get(name)
        if value is None:
            return None
        return float(value) if _is_number(value) else self._refuse(name, "a finite number")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._list(name)
        return tuple(value if isinstance(value, str) else self._refuse(name, "a list of texts") for value in values)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        values = self._list(name)
        whole = tuple(value for value in values if _is_integer(value))
        return whole if len(whole) == len(values) else self._refuse(name, "a list of whole numbers")

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        wanted = "a list of finite numbers"
        values = self._list(name)
        return tuple(float(value) if _is_number(value) else self._refuse(name, wanted) for value in values)

    def optional_flag(self, name: str) -> bool | None:
        """Return true or false, or None where it is null or absent."""
        value = self.get(name)
        return value if value is None or isinstance(value, bool) else self._refuse(name, "true or false")

    def fields(self, name: str) -> JsonFields:
        """Return an object inside this one."""
        return JsonFields.of(self.get(name), f"{self.where}: {name}", self.remedy)

    def list_of_fields(self, name: str) -> list[JsonFields]:
        """Return a list of objects inside this one."""
        values = self._list(name)
        return [JsonFields.of(value, f"{self.where}: {name}[{i}]", self.remedy) for i, value in enumerate(values)]

    def refuse_unknown(self, known: set[str]) -> None:
        """Refuse names other than ``known``: what they mean would be lost in silence."""
        for name in self.values:
            if name not in known:
                raise StoreError(f"{self.where} has {name!r}, which this volta does not know; {self.remedy}")

    def _list(self, name: str) -> list[object]:
        value = self.get(name)
        return value if isinstance(value, list) else self._refuse(name, "a list")

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        came = _shown(self.values[name]) if name in self.values else "missing"
        raise StoreError(f"{self.where}: {name} is {came}, expected {wanted}; {self.remedy}")


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and -_LARGEST <= value <= _LARGEST


def _is_number(value: object) -> TypeGuard[int | float]:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


KIND_NAME, FORMAT = "file_kind", "file_format"
"""Under which names a file says of what kind and version it is."""


@dataclass(frozen=True)
class FileKind:
    """One kind of file of ours.

    ``name`` stands in the file and in errors; ``version`` grows when the format changes; ``remedy`` is what a reader is
    told to do about a file that cannot be used; ``max_bytes`` bounds what is read into memory.
    """

    name: str
    version: int
    remedy: str
    max_bytes: int = 1 << 26

    def refused(self, path: Path | str, why: str) -> StoreError:
        """Return the error for a file of this kind that cannot be used."""
        return StoreError(f"{path} {why}; {self.remedy}")

    @contextmanager
    def making(self, path: Path | str) -> Iterator[None]:
        """Turn whatever is raised while values are made of a file's content into the error for such a file.

        A seal tells damage, not who wrote the file: what a stranger's says may fit nothing of ours.
        """
        try:
            yield
        except StoreError:
            raise
        except (Exception, MemoryError) as error:
            raise self.refused(path, f"does not hold a {self.name} as we write them ({reason(error)})") from error

    def check(self, path: Path | str, stored: JsonFields) -> None:
        """Refuse a file that says it is of another kind or version."""
        name, version = stored.get(KIND_NAME), stored.get(FORMAT)
        if name != self.name:
            raise self.refused(path, f"is not a {self.name}, but says it is {_shown(name)}")
        if not isinstance(version, int) or isinstance(version, bool):
            raise self.refused(path, f"is not a {self.name}: its format is {_shown(version)}")
        if version > self.version:
            raise StoreError(
                f"{path} was written by a newer version of volta (format {version}, this one reads {self.version}); "
                "upgrade volta-uq"
            )
        if version < self.version:
            raise self.refused(
                path, f"was written by an older version of volta (format {version}, this one reads {self.version})"
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


MAX_DEPTH = 32
MAX_VALUES = 1 << 21
"""Values of one text, counted by what parts them: a few bytes of it become a hundred in memory."""
_OPENING, _CLOSING = b'{\n  "seal": "', b'",\n'
_OWN = ("seal", KIND_NAME, FORMAT)
_PARTING = (b",", b"{", b"[")
# We write characters as they are; an escaped half of a pair cannot be written again.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def write_object(path: Path, kind: FileKind, value: Mapping[str, object]) -> None:
    """Write a JSON object whole or not at all; equal values give equal bytes."""
    data = checksummed_object(kind, value)
    write_atomic(Path(path), lambda file: file.write(data))


def write_note(path: Path, kind: FileKind, value: Mapping[str, object]) -> None:
    """Write a JSON object that may be lost, in place and without waiting for the disk; its seal tells a torn one."""
    with open_to_write(Path(path)) as file:
        file.write(checksummed_object(kind, value))


def read_object(path: Path, kind: FileKind) -> JsonFields:
    """Return the object of a file that :func:`write_object` wrote; every other file is refused."""
    try:
        data = read_file(Path(path), kind.max_bytes)
    except VoltaError:
        raise
    except OSError as error:
        raise kind.refused(path, f"cannot be read: {error.strerror or error}") from error
    return object_without_checksum(data, path, kind)


def checksummed_object(kind: FileKind, value: Mapping[str, object]) -> bytes:
    """Return the bytes of a sealed file; the seal is the SHA-256 of all of them with 64 zeros in its place."""
    if taken := sorted({*_OWN} & {*value}):
        raise StoreError(f"a {kind.name} cannot hold {taken[0]!r}, under which every sealed file says something else")
    text = canonical_json({**value, KIND_NAME: kind.name, FORMAT: kind.version}, indent=2)
    rest = _CLOSING + text.removeprefix("{\n").encode() + b"\n"
    return _OPENING + _checksum_line(rest) + rest


def object_without_checksum(data: bytes, path: Path | str, kind: FileKind) -> JsonFields:
    """Return the object of a sealed file's bytes; ``path`` names them in errors."""
    start = len(_OPENING) + len(_NO_CHECKSUM)
    if not data.startswith(_OPENING) or data[start : start + len(_CLOSING)] != _CLOSING:
        raise kind.refused(path, f"is not a sealed {kind.name}: it is damaged, or an older version of volta wrote it")
    if _checksum_line(data[start:]) != data[len(_OPENING) : start]:
        raise kind.refused(path, "was altered or damaged after it was written: its bytes do not match its checksum")
    stored = JsonFields.of(parse_object(data, path, kind), str(path), kind.remedy)
    kind.check(path, stored)
    return JsonFields(
        {name: value for name, value in stored.values.items() if name not in _OWN}, str(path), kind.remedy
    )


def parse_object(data: bytes, path: Path | str, kind: FileKind) -> Any:
    """Return the value of a JSON text, which is refused where it is none, too deep, or holds what we never write."""
    if sum(map(data.count, _PARTING)) > MAX_VALUES:
        raise kind.refused(path, f"holds more than {MAX_VALUES:,} values, which no such file does")
    try:
        value = json.loads(data, parse_constant=_no_number)
    except RecursionError as error:
        raise kind.refused(path, f"is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise kind.refused(path, f"is damaged ({error})") from error
    if _HALF_CHARACTER.search(data):
        raise kind.refused(path, "holds half a character")
    # Every saved model passes here, so it is written for speed.
    level = [inner for inner in (value,) if type(inner) is dict or type(inner) is list]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return value
    raise kind.refused(path, f"is nested deeper than {MAX_DEPTH} levels")


def _checksum_line(rest: bytes) -> bytes:
    digest = hashlib.sha256(_OPENING)
    digest.update(_NO_CHECKSUM)
    digest.update(rest)
    return digest.hexdigest().encode()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"it holds {text}")


PIECE = 1 << 20
LARGE_BYTES = 1 << 30
SEEN = FileKind("note of a checked file", 1, "delete it", max_bytes=1 << 12)

_Identity = tuple[int, ...]
_known: dict[tuple[str, str], tuple[_Identity, str]] = {}


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; worked out once a process while the file stays the same."""
    return _once("sha256", path, hash_file)


def checksum_line_of_file(path: Path) -> str:
    """Return the seal of a file: the SHA-256 of the CRC-32 of each MiB, which finds damage at a CRC's speed."""
    with open_file(path) as file:
        sums = []
        buffer = memoryview(bytearray(PIECE))
        while n_read := file.readinto(buffer):  # type: ignore[attr-defined]
            sums.append(zlib.crc32(buffer[:n_read]))
    return checksum_line_of_sums(sums)


def checksum_line_of_sums(sums: list[int]) -> str:
    """Return the seal that the CRC-32 of each MiB give."""
    return hashlib.sha256(b"".join(value.to_bytes(4, "little") for value in sums)).hexdigest()


def check_checksum_line(path: Path, seal: str, *, large_bytes: int = LARGE_BYTES) -> bool:
    """Tell whether a file has the seal that was noted when it was written."""
    identity = _identity(path)
    is_large = identity[2] >= large_bytes
    if is_large and _remembered(path, identity, seal):
        return True
    same = _once("seal", path, checksum_line_of_file) == seal
    if is_large and same:
        # Where the folder cannot be written, the next process reads the file through again.
        with suppress(OSError):
            write_object(_note(path), SEEN, {"identity": list(identity), "array_seal": seal})
    return same


def _once(how: str, path: Path, compute: Callable[[Path], str]) -> str:
    identity = _identity(path)
    found = _known.get((how, str(path)))
    if found is None or found[0] != identity:
        found = identity, compute(path)
        _known[how, str(path)] = found
    return found[1]


def _identity(path: Path) -> _Identity:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a file but a link, folder, pipe or device; remove it")
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remembered(path: Path, identity: _Identity, seal: str) -> bool:
    try:
        stored = read_object(_note(path), SEEN)
        return stored.integers("identity") == identity and stored.text("array_seal") == seal
    except OSError:
        return False


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.seen")


_HEADER = "volta"
_NO_CHECKSUM = b"0" * 64
_MAX_HEADER = 1 << 26
_MAX_SIDES = 32
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


def write_checksummed(path: Path, kind: FileKind, tensors: Mapping[str, Array], header: Mapping[str, object]) -> None:
    """Write ``tensors`` and ``header`` to a file of ``kind``, whole or not at all."""
    data = pack_checksummed(kind, tensors, header)
    write_atomic(Path(path), lambda file: file.write(data))


def pack_checksummed(kind: FileKind, tensors: Mapping[str, Array], header: Mapping[str, object]) -> bytearray:
    """Return the bytes of a sealed file.

    The seal is the SHA-256 of the CRC-32 of each MiB of the file, with 64 zeros in the seal's own place: it is there to
    find damage, and a SHA-256 of everything would take longer than all the rest of loading a large model. It stands in
    the metadata, so that the file is an ordinary safetensors file to every other reader.
    """
    from safetensors.numpy import save

    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    text = canonical_json({**header, KIND_NAME: kind.name, FORMAT: kind.version})
    data = bytearray(save(contiguous, {_HEADER: text, "seal": _NO_CHECKSUM.decode()}))
    found = _CHECKSUM.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    if found is None:
        raise StoreError(f"a {kind.name} could not be sealed: safetensors wrote no seal field")
    data[found.start(1) : found.end(1)] = _checksum_of(data)
    return data


def read_checksummed(path: Path, kind: FileKind) -> tuple[JsonFields, dict[str, Array]]:
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
    return unpack_checksummed(data, path, kind)


def unpack_checksummed(data: Array, path: Path | str, kind: FileKind) -> tuple[JsonFields, dict[str, Array]]:
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
    _check_checksum(path, data, start)
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


def _check_checksum(path: Path | str, data: Array, start: int) -> None:
    found = _CHECKSUM.search(data.data, 8, start)
    if found is not None:
        sealed, place = found.group(1), data[found.start(1) : found.end(1)]
        place[:] = np.frombuffer(_NO_CHECKSUM, dtype=np.uint8)
        if _checksum_of(data.data) == sealed:
            return
    raise StoreError(f"{path} was altered or damaged after it was saved: its bytes do not match its checksum")


def _checksum_of(data: bytearray | memoryview) -> bytes:
    """Return the seal of bytes that have zeros in its place."""
    view = memoryview(data)
    sums = [zlib.crc32(view[start : start + PIECE]) for start in range(0, len(view), PIECE)]
    return checksum_line_of_sums(sums).encode()


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
