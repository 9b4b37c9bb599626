"""Parquet files of others: walked once in a process of its own, since Arrow ends the process over some damaged ones."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from volta.core.contained import contained
from volta.core.errors import MissingDataError
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits

TRIED_BYTES = 1 << 24
"""Files up to this size are read to their end in the trial; of larger ones the metadata are."""


def try_parquet(path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a file whose metadata, or rows where it is small, cannot be read; once while the file stays the same."""
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; check the path")
    status = path.stat()
    _try(path.resolve(), status.st_mtime_ns, status.st_size, limits)


@lru_cache(maxsize=64)
def _try(path: Path, changed: int, size: int, limits: Limits) -> None:
    contained(f"{__name__}:walk", path, {"source": str(path), "to_the_end": size <= TRIED_BYTES}, limits)


def walk(source: str, to_the_end: bool) -> None:
    """Read what a file says of all its columns, and its rows; what :func:`try_parquet` runs in another process."""
    from pyarrow import parquet

    with (
        reading(source, "is not a Parquet file that can be read", "save it again"),
        parquet.ParquetFile(source) as file,
    ):
        metadata = file.metadata
        for group in range(metadata.num_row_groups):
            columns = metadata.row_group(group)
            for index in range(columns.num_columns):
                columns.column(index).to_dict()
        if to_the_end:
            for _ in file.iter_batches():
                pass
