"""Random numbers as arguments: every draw comes from a generator made from named integers."""

from __future__ import annotations

import hashlib

import numpy as np

SPLIT_SEED = 42


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed that depends on ``seed`` and on what it is for.

    Parameters
    ----------
    seed
        The run's seed.
    names
        What the numbers are for, e.g. ``("mc_dropout", 3)``. Different names give independent streams.
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for one purpose of one run."""
    return np.random.default_rng(derive_seed(seed, *names))
