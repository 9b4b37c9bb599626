"""Writers of tables: rows come in pieces, and none is kept in memory."""

from __future__ import annotations

import csv
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from volta.core.types import Array
from volta.data.formats.parquet_table import pyarrow_for


class TableWriter(Protocol):
    """Takes rows piece by piece: name → (n,) array, or (n, width), the same names each time."""

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows."""

    def finish(self) -> None:
        """Write what stands at the file's end; not called after an error."""

    def close(self) -> None:
        """Let go of the file, whatever happened."""


class CsvWriter:
    """A header and a line a row; (n, width) becomes NAME_0, NAME_1, …; numbers read back the same."""

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, delimiter=delimiter, lineterminator="\n")
        self._names: list[str] | None = None

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add lines."""
        flat = dict(_flat(columns))
        if self._names is None:
            self._names = list(flat)
            self._writer.writerow(self._names)
        self._writer.writerows(zip(*(flat[name].tolist() for name in self._names), strict=True))

    def finish(self) -> None:
        """Write what the buffer holds."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetWriter:
    """A row group a piece; (n, width) becomes a column of lists."""

    def __init__(self, path: Path) -> None:
        self._arrow = pyarrow_for("writing")
        self._path = path
        self._writer: Any = None

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add a row group."""
        from pyarrow import parquet

        table = self._arrow.table({name: self._column(values) for name, values in columns.items()})
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        """Write the footer."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _column(self, values: Array) -> Any:
        if values.ndim > 1:
            flat = self._arrow.array(np.ascontiguousarray(values).reshape(-1))
            return self._arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
        return self._arrow.array(values.tolist() if values.dtype.kind in "OU" else values)


class NpzWriter:
    """An array a column, stored without compression; pieces wait in nameless files until their number is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: dict[str, _Waiting] = {}

    def write(self, columns: Mapping[str, Array]) -> None:
        """Add rows to every array."""
        for name, values in columns.items():
            if name not in self._waiting:
                self._waiting[name] = _Waiting(self._path.parent)
            self._waiting[name].add(values.astype(np.str_) if values.dtype.kind == "O" else values)

    def finish(self) -> None:
        """Join the pieces into the archive."""
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, waiting in self._waiting.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    waiting.move_to(file)

    def close(self) -> None:
        """Let go of what waits."""
        for waiting in self._waiting.values():
            waiting.file.close()


class _Waiting:
    """The pieces of one array, in a file that has no name and so goes with the process."""

    def __init__(self, folder: Path) -> None:
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._n_pieces = 0
        self._n_rows = 0
        self._dtype: np.dtype[Any] | None = None
        self._row_shape: tuple[int, ...] = ()

    def add(self, values: Array) -> None:
        np.save(self.file, values)
        self._n_pieces += 1
        self._n_rows += len(values)
        self._row_shape = values.shape[1:]
        # Text is as wide as the widest piece has it.
        self._dtype = values.dtype if self._dtype is None else np.promote_types(self._dtype, values.dtype)

    def move_to(self, file: IO[bytes]) -> None:
        if self._dtype is None:
            return
        shape = (self._n_rows, *self._row_shape)
        description = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_2_0(file, description)
        self.file.seek(0)
        for _ in range(self._n_pieces):
            piece = np.load(self.file, allow_pickle=False)
            file.write(np.ascontiguousarray(piece, dtype=self._dtype).tobytes())


def _flat(columns: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, values in columns.items():
        if values.ndim == 1:
            yield name, values
        else:
            yield from ((f"{name}_{place}", values[:, place]) for place in range(values.shape[1]))
