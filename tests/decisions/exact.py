"""Exact laws of what the guarantees promise, for checks that fail by chance hardly ever."""

from __future__ import annotations

import numpy as np
from scipy import stats

TAIL = 1e-8


def binomial_range(n_draws, probability, tail=TAIL):
    """Return the counts that Bin(n_draws, probability) stays within, but for ``tail`` on each side."""
    law = stats.binom(n_draws, probability)
    return law.ppf(tail), law.isf(tail)


def beta_binomial_range(n_draws, n_rows, a, b, tail=TAIL):
    """Return the range of Σ over draws of Bin(n_rows, B), B ~ Beta(a, b): rows within a conformal threshold.

    The law of the sum is the n_draws-fold convolution of the beta-binomial law.
    """
    if b == 0:
        return n_draws * n_rows, n_draws * n_rows
    if a == 0:
        return 0, 0
    return _sum_range([stats.betabinom(n_rows, a, b).pmf(np.arange(n_rows + 1))] * n_draws, tail)


def poisson_binomial_range(probabilities, tail=TAIL):
    """Return the range of a sum of independent 0/1 draws with the given probabilities."""
    return _sum_range([np.array([1 - p, p]) for p in probabilities], tail)


def _sum_range(laws, tail):
    size = sum(len(law) - 1 for law in laws) + 1
    unique, counts = np.unique(np.stack(laws), axis=0, return_counts=True)
    transform = np.prod([np.fft.rfft(law, size) ** count for law, count in zip(unique, counts, strict=True)], axis=0)
    below = np.cumsum(np.maximum(np.fft.irfft(transform, size), 0))
    return int(np.searchsorted(below, tail)), int(np.searchsorted(below, 1 - tail))
