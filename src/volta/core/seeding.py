"""Random numbers as arguments: every draw comes from a generator made from named integers."""

from __future__ import annotations

import hashlib

import numpy as np

from volta.core.errors import InputError

SPLIT_SEED = 42
PAPER_SEEDS = (42, 123, 456)
_FURTHER_SEEDS = 1004
"""The seeds after the paper's are 1004, 1005, ...: any five in a row differ modulo 5, see :class:`SplitDraw`."""


SEED_LIMIT = 1 << 63


def check_seed(seed: object, where: str) -> int:
    """Return a seed as an int, or refuse what is no whole number of at least 0 and below 2^63."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < SEED_LIMIT:
        raise InputError(f"{where} is {seed!r}; seeds are whole numbers of at least 0 and below 2^63")
    return int(seed)


def first_seeds(n_seeds: int) -> tuple[int, ...]:
    """Return the first ``n_seeds`` of the one list of seeds that runs take theirs from: the paper's, then fixed ones.

    >>> first_seeds(5)
    (42, 123, 456, 1004, 1005)
    """
    return (*PAPER_SEEDS, *range(_FURTHER_SEEDS, _FURTHER_SEEDS + n_seeds))[:n_seeds]


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed that depends on a run's ``seed`` and on what it is for, as ``"mc_dropout", 3``.

    Different names give independent streams.
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for one purpose of one run."""
    return np.random.default_rng(derive_seed(seed, *names))
