"""What a method costs, measured the same way for all: latency, size, peak memory."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

import numpy as np

from volta.core.types import Array
from volta.methods.base import Method
from volta.methods.saving import count_values

N_BATCHES = 5
BATCH_ROWS = 256
BYTES_PER_VALUE = 4
MEGA = 1e6


def measure_efficiency(method: Method, inputs: Array) -> dict[str, float]:
    """Return latency per row (median and 95th percentile), size and peak memory of a fitted method.

    Latency: 5 batches of 256 rows of ``inputs`` (repeated if there are fewer) after one warm-up batch, ms a row.
    Size: every number the method keeps × 4 bytes. Peak memory: how much the process's resident memory grew at most
    when those batches were predicted once more.
    """
    rows = np.resize(np.arange(len(inputs)), N_BATCHES * BATCH_ROWS)
    batches = [np.ascontiguousarray(inputs[part]) for part in np.split(rows, N_BATCHES)]
    method.predict(batches[0])
    milliseconds = []
    for batch in batches:
        started = time.perf_counter()
        method.predict(batch)
        milliseconds.append((time.perf_counter() - started) * 1e3 / BATCH_ROWS)
    before = _reset_peak()
    for batch in batches:
        method.predict(batch)
    return {
        "latency_ms": float(np.median(milliseconds)),
        "latency_p95_ms": float(np.percentile(milliseconds, 95)),
        "size_mb": count_values(method) * BYTES_PER_VALUE / MEGA,
        "peak_mb": max(0.0, _peak_bytes() - before) / MEGA,
    }


def _reset_peak() -> float:
    """Reset the kernel's high-water mark where it allows that, and return the memory held now.

    Memory that was freed but is still held goes back to the system first: drawing on it would not show as growth.
    """
    if sys.platform == "linux" and hasattr(own := ctypes.CDLL(None), "malloc_trim"):
        own.malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _peak_bytes()
    return _status_bytes("VmRSS:")


def _peak_bytes() -> float:
    if Path("/proc/self/status").is_file():
        return _status_bytes("VmHWM:")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def _status_bytes(field: str) -> float:
    # The process's own name is among the lines, in whatever letters it has.
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    return 0.0
