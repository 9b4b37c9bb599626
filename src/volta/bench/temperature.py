"""One temperature fitted to a method's own validation predictions, from its stored arrays; torch is not needed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from volta.bench.eval_set import TEST, VAL
from volta.core.types import Array
from volta.methods.scaling import CalibrationWarning, fit_temperature
from volta.methods.scores import softmax

VAL_PROBS, TEST_PROBS = f"{VAL}/probs", f"{TEST}/probs"


def tempered_probs(arrays: Mapping[str, Array]) -> NDArray[np.float64] | None:
    """Return the test probabilities p^(1/T), renormalised, with the T that minimises NLL on the validation rows.

    Where no finite T > 0 is best (every validation row right, say), T is 1. None where no validation predictions are
    stored, as in runs of an earlier version.
    """
    if VAL_PROBS not in arrays or TEST_PROBS not in arrays:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = fit_temperature(_log(arrays[VAL_PROBS]), arrays[f"{VAL}/labels"].astype(np.int64))
    return softmax(_log(arrays[TEST_PROBS]), fitted.beta)


def _log(probs: Array) -> NDArray[np.float64]:
    floored = np.maximum(probs, np.finfo(np.float64).tiny)
    return np.asarray(np.log(floored), dtype=np.float64)
