"""How far a graph's numbers may be from Python's and still be equal to them.

A network computes in float32 in a graph and in float64 in Python. Decisions compare scores with those of calibration
rows, and a row that is equal to one of them must tie with it in the graph too: data of few distinct rows would
otherwise be decided at random. So a score counts as larger than another only where it is larger by more than rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from volta.core.seeding import rng
from volta.decisions import InputGuard
from volta.decisions.set_scores import Floats
from volta.methods.base import Method
from volta.methods.exporting import RowGraph

ABSOLUTE_TIE = 1e-12
"""To so many decimals Python settles scores."""

SMALLEST_PROB = 1e-12
"""Probabilities below this are compared as if they were this large."""

N_PROBES = 256
ROOM = 4.0
LARGEST_TIE = 1e-4


class Rounding(NamedTuple):
    """``scores``: largest relative difference of uncertainties and OOD scores; ``probs``: the same of probabilities.

    The defaults are for graphs that compute in float64 from the same numbers.
    """

    scores: float = 1e-9
    probs: float = 1e-9


def probe_rows(guard: InputGuard) -> Floats:
    """Return random rows, in the units the guard sees, with the training rows' means and covariances."""
    noise = rng(0, "export").normal(size=(N_PROBES, len(guard.centre)))
    return np.asarray(guard.centre + guard.scale * np.linalg.solve(guard.whitening.T, noise.T).T)


def measured_rounding(method: Method, graph: RowGraph, probes: Floats) -> Rounding:
    """Compare graph and Python on ``probes``, rows like the training rows; leave room to spare."""
    rows = probes.astype(np.float32)
    exact = method.unchecked_predict(rows.astype(np.float64))
    with torch.no_grad():
        found = graph.eval()(torch.tensor(rows))
    scores = [(found.uncertainty, exact.uncertainty), (found.ood_score, exact.ood_score)]
    return Rounding(
        _with_room(max(_relative(values.numpy(), own) for values, own in scores), Rounding().scores),
        _with_room(_relative(found.probs.numpy(), np.maximum(exact.probs, SMALLEST_PROB)), Rounding().probs),
    )


def tied_up_to(values: Floats, relative: Floats | float) -> Floats:
    """Return what a score must exceed to be larger than ``values`` and not equal to them but for rounding."""
    return values + np.abs(values) * relative + ABSOLUTE_TIE


def _relative(found: Floats, exact: Floats) -> float:
    beyond = np.maximum(np.abs(found - exact) - ABSOLUTE_TIE, 0.0)
    return float((beyond / np.maximum(np.abs(exact), np.finfo(np.float64).tiny)).max())


def _with_room(difference: float, least: float) -> float:
    return max(least, min(ROOM * difference, LARGEST_TIE))
