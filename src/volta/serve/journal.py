"""Lines on disk that a kill leaves whole."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from volta.core.errors import StoreError
from volta.core.files import write_atomic

T = TypeVar("T")
LONGEST_LOG = 1 << 24
"""A journal that is longer is folded into a file of what its lines come to."""
REMEDY = "restore the folder, or name a new one with --state"


class Journal(Generic[T]):
    """Lines of JSON, each behind its CRC-32, appended and synced; a last line that a crash cut off is dropped."""

    def __init__(self, path: Path, content: type[T]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(content)
        self._size = 0
        self._file: int | None = None

    def read(self) -> Iterator[T]:
        """Walk the lines that are there; afterwards lines can be appended."""
        damaged, start = 0, 0
        if self.path.exists():
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    text = line[9:-1]
                    if line.endswith(b"\n") and line[:9] == b"%08x " % zlib.crc32(text):
                        if damaged:
                            raise StoreError(f"{self.path} is damaged in line {damaged}; {REMEDY}")
                        start += len(line)
                        yield self._decode(text, number)
                    else:
                        damaged = damaged or number
        self._size = start
        self._open()

    def _decode(self, text: bytes, number: int) -> T:
        try:
            return self._decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{self.path} line {number} was written by another version of volta ({error}); {REMEDY}"
            ) from error

    def append(self, records: Sequence[T]) -> None:
        """Write lines and return when they are on disk; all of them, or none and an error."""
        if self._file is None:
            raise StoreError(f"{self.path} is closed; start the service again")
        data = _lines(records)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def replace(self, records: Sequence[T]) -> None:
        """Put these lines in the place of all."""
        data = _lines(records)
        write_atomic(self.path, lambda file: file.write(data))
        self.close()
        self._size = len(data)
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        os.ftruncate(self._file, self._size)

    @property
    def n_bytes(self) -> int:
        """How long the file is."""
        return self._size

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lines(records: Sequence[object]) -> bytes:
    texts = [msgspec.json.encode(record) for record in records]
    return b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)
