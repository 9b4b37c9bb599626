"""Tests run several at a time, so every library keeps to one thread, here and in the processes that tests start."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
