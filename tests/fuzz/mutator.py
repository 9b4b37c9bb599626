"""A small mutator: bytes changed the way disks, transfers and attackers change them, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable

_EDGES = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"9" * 12,
)

_SWELLING = 0.02
_SWOLLEN_BYTES = 1 << 18


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with one to four changes; most are small, so that a parser gets far before it meets them."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_CHANGES)(data, rng)
    return _swell(data, rng) if rng.random() < _SWELLING else data


def _swell(data: bytes, rng: random.Random) -> bytes:
    """Repeat a few bytes until they are many: what a reader does to each of them, or to each pair, then counts."""
    at = rng.randrange(max(1, len(data)))
    piece = data[at : at + rng.randrange(1, 9)] or b"0"
    return data[:at] + piece * (_SWOLLEN_BYTES // len(piece)) + data[at:]


def _flip_bit(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(1, len(data)))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :] if data else data


def _set_byte(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(1, len(data)))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _set_edge(data: bytes, rng: random.Random) -> bytes:
    at, value = rng.randrange(max(1, len(data))), rng.choice(_EDGES)
    return data[:at] + value + data[at + len(value) :]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(max(1, len(data)))]


def _delete(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(max(1, len(data))), rng.choice((1, 2, 4, 64, 512))
    return data[:at] + data[at + length :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(1, len(data)))
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4, 64, 512))) + data[at:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(max(1, len(data))), rng.choice((1, 8, 64, 512))
    return data[: at + length] + data[at:]


def _zero(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(max(1, len(data))), rng.choice((8, 64, 512))
    return data[:at] + bytes(min(length, len(data) - at)) + data[at + length :]


def _head_or_tail(data: bytes, rng: random.Random) -> bytes:
    """Change a byte near an end, where headers and directories lie."""
    at = min(len(data) - 1, rng.randrange(96)) if rng.random() < 0.5 else max(0, len(data) - 1 - rng.randrange(96))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :] if data else data


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_edge,
    _truncate,
    _delete,
    _insert,
    _repeat,
    _zero,
    _head_or_tail,
)
