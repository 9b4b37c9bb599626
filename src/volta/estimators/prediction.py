"""A method's prediction of rows, with the same numbers whichever rows stand beside them.

Matrix products round differently for one row and for many, in the last bits. Decisions compare scores with those of
calibration rows, and rows that are equal must come out equal: data of few distinct rows would otherwise lose its ties,
and with them what is promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.core.scaling import Scaler
from volta.core.types import Array, Prediction
from volta.decisions.set_scores import Floats

if TYPE_CHECKING:
    from volta.methods.base import Method

BLOCK_ROWS = 32
_DROPPED_BITS = 20
_DECIMALS = 12


def predict_rows(method: Method, scaler: Scaler, rows: Array) -> Prediction:
    """Scale and predict rows (n, d) in float64; see :func:`settled`.

    A method that computes in single precision gets whole blocks: the last row is repeated, what it gives cut off again.
    """
    n_rows = len(rows)
    scaled = scaler.apply(rows, np.float64)
    if not method.single_precision:
        return settled(method.unchecked_predict(scaled))
    whole = method.unchecked_predict(np.concatenate([scaled, np.repeat(scaled[-1:], -n_rows % BLOCK_ROWS, axis=0)]))
    return settled(
        Prediction(
            whole.probs[:n_rows],
            whole.uncertainty[:n_rows],
            whole.ood_score[:n_rows],
            None if whole.sets is None else whole.sets[:n_rows],
        )
    )


def settled(prediction: Prediction) -> Prediction:
    """Return the prediction without the last bits, which depend on how many rows there are."""
    return Prediction(
        without_last_bits(prediction.probs),
        settled_scores(prediction.uncertainty),
        settled_scores(prediction.ood_score),
        prediction.sets,
    )


def settled_scores(scores: Floats) -> Floats:
    """Return scores to 12 decimals and 10 digits: 1 minus a number close to 1 has few digits that mean anything."""
    return without_last_bits(np.round(scores, _DECIMALS))


def without_last_bits(values: Floats) -> Floats:
    """Return float64 numbers rounded to their first 33 bits, about ten digits.

    >>> 0.1 + 0.2 == 0.3, bool((without_last_bits(np.array([0.1 + 0.2])) == without_last_bits(np.array([0.3])))[0])
    (False, True)
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return ((bits + (1 << (_DROPPED_BITS - 1))) & -(1 << _DROPPED_BITS)).view(np.float64)
