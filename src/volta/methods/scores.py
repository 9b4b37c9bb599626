"""Scores of logits and probabilities that several methods share; all in float64."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.methods.pieces import cached_slices

Floats = NDArray[np.float64]


def softmax(logits: Floats, scale: float = 1.0) -> Floats:
    """Return exp(c l_k) / Σ_j exp(c l_j) for each row, c = ``scale``."""
    probs: Floats = np.empty(logits.shape)
    for rows in cached_slices(logits):
        part = np.multiply(logits[rows], scale, out=probs[rows])
        part -= part.max(axis=1, keepdims=True)
        np.exp(part, out=part)
        part /= part.sum(axis=1, keepdims=True)
    return probs


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
    summed: Floats = np.empty(len(probs))
    for rows in cached_slices(probs):
        logs = np.log(np.maximum(probs[rows], np.finfo(np.float64).tiny))
        summed[rows] = -np.einsum("ij,ij->i", probs[rows], logs)
    return np.maximum(summed, 0.0)


def log_sum_exp(logits: Floats) -> Floats:
    """Return log Σ_k exp(l_k) of each row, where each row has a finite value."""
    summed: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        largest = logits[rows].max(axis=1)
        summed[rows] = largest + np.log(np.exp(logits[rows] - largest[:, None]).sum(axis=1))
    return summed


def at_labels(values: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return each row's value at its true class."""
    return values[np.arange(len(values)), labels]


def energy(logits: Floats) -> Floats:
    """Return the free energy −log Σ_k exp(l_k) of each row; higher is more OOD."""
    return -log_sum_exp(logits)


def one_minus_max_softmax(logits: Floats, scale: float = 1.0) -> Floats:
    """Return 1 − max_k softmax(c l)_k, c = ``scale``, without cancellation: the sum of the other classes' shares."""
    doubt: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        shifted = logits[rows] * scale
        shifted -= shifted.max(axis=1, keepdims=True)
        np.exp(shifted, out=shifted)
        shifted[np.arange(len(shifted)), shifted.argmax(axis=1)] = 0.0
        others = shifted.sum(axis=1)
        doubt[rows] = others / (1.0 + others)
    return doubt
