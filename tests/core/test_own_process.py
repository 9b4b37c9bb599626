"""Processes of our own keep freed memory for the next arrays of its size."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from volta.core.processes import KEPT_BLOCK_BYTES, N_NEW_OBJECTS

COUNT = """
import gc, resource
import numpy as np
from volta.core.processes import settle
settle()
def faults(n_bytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(n_bytes // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
small = 64 << 20
first, again = faults(small), faults(small)
before = held()
faults(2 * SIZE)
print(first, again, before, held(), gc.get_threshold()[0])
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_blocks_serve_again_and_the_largest_go_back() -> None:
    code = COUNT.replace("SIZE", str(KEPT_BLOCK_BYTES))
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    first, again, before, after, threshold = map(int, printed.split())
    assert again < 0.1 * first
    assert after - before < 0.1 * KEPT_BLOCK_BYTES
    assert threshold == N_NEW_OBJECTS
