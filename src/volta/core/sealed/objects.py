"""Sealed JSON files: one object each, the seal on a line of its own before everything else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from volta.core.errors import StoreError, VoltaError
from volta.core.files import canonical_json, write_atomic
from volta.core.json_fields import JsonFields
from volta.core.sealed.kind import FORMAT, KIND_NAME, FileKind
from volta.core.sealed.links import open_to_write, read_file

MAX_DEPTH = 32
MAX_VALUES = 1 << 21
"""Values of one text, counted by what parts them: a few bytes of it become a hundred in memory."""
_OPENING, _CLOSING = b'{\n  "seal": "', b'",\n'
_UNSEALED = b"0" * 64
_OWN = ("seal", KIND_NAME, FORMAT)
_PARTING = (b",", b"{", b"[")
# We write characters as they are; an escaped half of a pair cannot be written again.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def write_object(path: Path, kind: FileKind, value: Mapping[str, object]) -> None:
    """Write a JSON object whole or not at all; equal values give equal bytes."""
    data = sealed_object(kind, value)
    write_atomic(Path(path), lambda file: file.write(data))


def write_note(path: Path, kind: FileKind, value: Mapping[str, object]) -> None:
    """Write a JSON object that may be lost, in place and without waiting for the disk; its seal tells a torn one."""
    with open_to_write(Path(path)) as file:
        file.write(sealed_object(kind, value))


def read_object(path: Path, kind: FileKind) -> JsonFields:
    """Return the object of a file that :func:`write_object` wrote; every other file is refused."""
    try:
        data = read_file(Path(path), kind.max_bytes)
    except VoltaError:
        raise
    except OSError as error:
        raise kind.refused(path, f"cannot be read: {error.strerror or error}") from error
    return unsealed_object(data, path, kind)


def sealed_object(kind: FileKind, value: Mapping[str, object]) -> bytes:
    """Return the bytes of a sealed file; the seal is the SHA-256 of all of them with 64 zeros in its place."""
    if taken := sorted({*_OWN} & {*value}):
        raise StoreError(f"a {kind.name} cannot hold {taken[0]!r}, under which every sealed file says something else")
    text = canonical_json({**value, KIND_NAME: kind.name, FORMAT: kind.version}, indent=2)
    rest = _CLOSING + text.removeprefix("{\n").encode() + b"\n"
    return _OPENING + _seal(rest) + rest


def unsealed_object(data: bytes, path: Path | str, kind: FileKind) -> JsonFields:
    """Return the object of a sealed file's bytes; ``path`` names them in errors."""
    start = len(_OPENING) + len(_UNSEALED)
    if not data.startswith(_OPENING) or data[start : start + len(_CLOSING)] != _CLOSING:
        raise kind.refused(path, f"is not a sealed {kind.name}: it is damaged, or an older version of volta wrote it")
    if _seal(data[start:]) != data[len(_OPENING) : start]:
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


def _seal(rest: bytes) -> bytes:
    digest = hashlib.sha256(_OPENING)
    digest.update(_UNSEALED)
    digest.update(rest)
    return digest.hexdigest().encode()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"it holds {text}")
