"""Methods that go wrong while they are fitted; a run names one as ``tests.bench.faulty:Boom``."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from volta.methods.softmax import Softmax


@dataclass
class Boom(Softmax):
    """Raises until the environment says that it is repaired."""

    title = "Boom"

    def fit_outputs(self, outputs):
        if "MENDED" not in os.environ:
            raise RuntimeError("the method is broken")


@dataclass
class Odd(Softmax):
    """Learns a number that JSON cannot hold."""

    title = "Odd"
    knob: float = 1.0

    def fit_outputs(self, outputs):
        self.knob = float("nan")


@dataclass
class Writes(Softmax):
    """Meets a full disk."""

    title = "Writes"

    def fit_outputs(self, outputs):
        raise OSError(28, os.strerror(28))


@dataclass
class Hog(Softmax):
    """Is killed, as the system kills what takes all memory."""

    title = "Hog"

    def fit_outputs(self, outputs):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Probe(Softmax):
    """Raises if a library may use more than one thread."""

    title = "Probe"

    def fit_outputs(self, outputs):
        import scipy.linalg  # noqa: F401
        import torch
        from threadpoolctl import threadpool_info

        wide = [pool["filepath"] for pool in threadpool_info() if pool["num_threads"] > 1]
        if wide or torch.get_num_threads() > 1:
            raise RuntimeError(f"more than one thread in {wide}")
