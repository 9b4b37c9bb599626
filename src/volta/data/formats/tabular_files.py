"""Tables on disk by their file's name: CSV, npz and Parquet, read in chunks and written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from volta.core.errors import InputError, MissingDataError
from volta.core.files import atomic_path
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.data.formats.csv_table import CsvTable
from volta.data.formats.npz_table import NpzTable
from volta.data.formats.parquet_table import ParquetTable
from volta.data.formats.table import Table
from volta.data.formats.table_writers import CsvWriter, NpzWriter, ParquetWriter, TableWriter

READERS: dict[str, Callable[[Path, Limits], Table]] = {
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".csv.gz": CsvTable,
    ".tsv.gz": CsvTable,
    ".npz": NpzTable,
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
}
WRITERS: dict[str, Callable[[Path], TableWriter]] = {
    ".csv": CsvWriter,
    ".tsv": lambda path: CsvWriter(path, "\t"),
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".pq": ParquetWriter,
}


def open_table(path: Path, limits: Limits = DEFAULT_LIMITS) -> Table:
    """Open a table; its name's ending says which kind of file it is.

    ``table.names`` and ``table.columns`` tell what it has, ``table.chunks({"age": "number", "name": "any"})`` walks it
    and :func:`volta.data.formats.table.read_columns` reads columns whole.
    """
    path = Path(path)
    reader = READERS.get(_ending(path))
    if reader is None:
        raise InputError(f"{path} ends in no kind of table; expected one of {', '.join(READERS)}")
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; name a file that ends in one of {', '.join(READERS)}")
    return reader(path, limits)


@contextmanager
def new_table(path: Path, *, overwrite: bool = False) -> Iterator[TableWriter]:
    """Give a writer of ``path``: the file appears when everything is written, and not at all on an error.

    Each ``write`` adds rows: name → (n,) array, or (n, width), the same names and kinds each time.
    """
    path = Path(path)
    check_new_table(path, overwrite=overwrite)
    with atomic_path(path) as temporary:
        writer = WRITERS[_ending(path)](temporary)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


def check_new_table(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a name that no table can have, or that stands already; before any work is done."""
    if _ending(path) not in WRITERS:
        raise InputError(f"--out is {path}; its name has to end in one of {', '.join(WRITERS)}")
    if path.exists() and not overwrite:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def _ending(path: Path) -> str:
    name = path.name.lower()
    endings = [ending for ending in READERS if name.endswith(ending)]
    return max(endings, key=len) if endings else path.suffix.lower()
