"""Scores of logits and probabilities that several methods share; all in float64."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError

Floats = NDArray[np.float64]


def softmax(logits: Floats) -> Floats:
    """Return exp(l_k) / Σ_j exp(l_j) for each row."""
    shifted: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def mean_softmax(many_logits: Iterable[Floats]) -> Floats:
    """Return the mean of softmax over several logits of the same rows, holding one at a time."""
    total: Floats | None = None
    count = 0
    for logits in many_logits:
        probs = softmax(logits)
        total = probs if total is None else np.add(total, probs, out=total)
        count += 1
    if total is None:
        raise InputError("many_logits is empty; pass at least one array of logits")
    return total / count


def entropy(probs: Floats) -> Floats:
    """Return −Σ_k p_k log p_k of each row, with 0 log 0 = 0."""
    logs = np.log(np.maximum(probs, np.finfo(np.float64).tiny))
    summed: Floats = -np.einsum("ij,ij->i", probs, logs)
    return np.maximum(summed, 0.0)


def log_sum_exp(logits: Floats) -> Floats:
    """Return log Σ_k exp(l_k) of each row, where each row has a finite value."""
    largest = logits.max(axis=1)
    summed: Floats = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    return summed


def energy(logits: Floats) -> Floats:
    """Return the free energy −log Σ_k exp(l_k) of each row; higher is more foreign."""
    return -log_sum_exp(logits)


def one_minus_max_softmax(logits: Floats) -> Floats:
    """Return 1 − max_k softmax(l)_k without cancellation: the sum of the other classes' shares."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    top = shifted.argmax(axis=1)
    shifted[np.arange(len(shifted)), top] = 0.0
    others: Floats = shifted.sum(axis=1)
    return others / (1.0 + others)
