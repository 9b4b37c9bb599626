"""Memory-mapped arrays read so that the process holds little of them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RELEASE_BYTES = 1 << 26


def row_chunks(array: NDArray[Any], rows: int) -> Iterator[NDArray[Any]]:
    """Walk an array in pieces of at most ``rows`` rows, giving pages of a memory map back after each 64 MiB."""
    held = 0
    for start in range(0, len(array), rows):
        piece = array[start : start + rows]
        yield piece
        held += piece.nbytes
        if held >= _RELEASE_BYTES:
            release(array)
            held = 0
    release(array)


def release(array: NDArray[Any]) -> None:
    """Let go of the pages of a read-only memory map; they stay in the kernel's cache and come back when touched.

    Pages that were read otherwise count as this process's memory until something else needs them.
    """
    mapping = getattr(array, "_mmap", None)
    if isinstance(array, np.memmap) and mapping is not None and array.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def file_position(array: NDArray[Any]) -> tuple[str, int] | None:
    """Return the file and the byte at which a memory-mapped, contiguous array (or a slice of one) begins, else None."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(array, np.memmap) or mapping is None or array.filename is None or not array.flags.c_contiguous:
        return None
    begins = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    address = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    return str(array.filename), begins + array.ctypes.data - address
