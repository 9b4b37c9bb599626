"""Tables as npz files: an array a column, streamed from the archive so that none has to fit in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from volta.core.errors import InputError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.download.unpack import check_zip
from volta.data.formats.array_files import ArrayHeader, check_values, read_header
from volta.data.formats.table import AS_STORED, Chunk, Column, ReadAs, Table


class NpzTable(Table):
    """An npz file; arrays may differ in length, those read together may not."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        with reading(path, "cannot be read", "it is damaged or not an npz"):
            members = [
                info for info in check_zip(path, limits, "cannot be read as an npz") if info.filename.endswith(".npy")
            ]
            with zipfile.ZipFile(path) as archive:
                self._sizes = {info.filename.removesuffix(".npy"): info.file_size for info in members}
                opened = {info.filename.removesuffix(".npy"): self._layout(archive, info) for info in members}
        self._layouts = {name: layout for name, layout in opened.items() if layout.shape}
        columns = tuple(
            Column(name, layout.dtype.kind in "biuf", len(layout.shape) > 1, layout.shape[0])
            for name, layout in self._layouts.items()
        )
        super().__init__(path, columns, limits)

    def width(self, name: str) -> int:
        """Return how many numbers a row of an array has."""
        return int(np.prod(self._layouts[name].shape[1:], dtype=np.int64))

    def _chunks(self, columns: Mapping[str, ReadAs], rows: int) -> Iterator[Chunk]:
        n_rows = self._check(columns)
        with reading(self.path, "cannot be read", "it is damaged"), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            opened = {name: stack.enter_context(archive.open(f"{name}.npy")) for name in columns}
            arrays = {name: _Rows(file, read_header(file, name, self.limits)) for name, file in opened.items()}
            for start in range(0, n_rows, rows):
                count = min(rows, n_rows - start)
                found = {name: _as_asked(arrays[name].take(count), columns[name]) for name in columns}
                yield Chunk(self.path, start, found, None, (start + count) / n_rows)

    def _layout(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayHeader:
        with archive.open(member) as file:
            return read_header(file, f"{archive.filename} array {member.filename!r}", self.limits)

    def _check(self, columns: Mapping[str, ReadAs]) -> int:
        lengths = {name: self._layouts[name].shape[0] for name in columns}
        first = next(iter(lengths))
        for name, length in lengths.items():
            layout = self._layouts[name]
            check_values(f"{self.path} array {name!r}", layout, self._sizes[name])
            if columns[name] not in AS_STORED and layout.dtype.kind not in "biuf":
                raise InputError(f"{self.path} array {name!r} is {layout.dtype}, not numbers; encode it as numbers")
            if length != lengths[first]:
                raise InputError(
                    f"{self.path} array {name!r} has {length} rows but {first!r} has {lengths[first]}; save one a row"
                )
        return lengths[first]


class _Rows:
    """Gives an array's rows one after another from its place in the archive."""

    def __init__(self, file: IO[bytes], layout: ArrayHeader) -> None:
        self._file = file
        self._layout = layout
        self._whole = self._read(self._layout.shape[0]) if self._layout.fortran_order else None
        self._position = 0

    def take(self, count: int) -> Array:
        """Return the next ``count`` rows."""
        start, self._position = self._position, self._position + count
        return self._read(count) if self._whole is None else self._whole[start : self._position]

    def _read(self, count: int) -> Array:
        layout = self._layout
        shape = (count, *layout.shape[1:])
        n_bytes = int(np.prod(shape, dtype=np.int64)) * layout.dtype.itemsize
        data = self._file.read(n_bytes)
        if len(data) < n_bytes:
            raise EOFError("it ends too early")
        return np.frombuffer(data, dtype=layout.dtype).reshape(shape, order="F" if layout.fortran_order else "C")


def _as_asked(values: Array, read_as: ReadAs) -> Array:
    if read_as in AS_STORED or values.dtype == np.float64:
        return values
    return values.astype(np.float32 if values.dtype.kind == "f" and values.dtype.itemsize <= 4 else np.float64)
