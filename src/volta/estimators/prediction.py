"""A method's prediction of rows in the user's units, the same whichever rows stand beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.core.scaling import Scaler
from volta.core.types import Array, Prediction

if TYPE_CHECKING:
    from volta.methods.base import Method

BLOCK_ROWS = 32


def predict_rows(method: Method, scaler: Scaler, rows: Array) -> Prediction:
    """Scale and predict rows (n, d), in whole blocks: the last row is repeated and what it gives is cut off again.

    Matrix products round differently for whole blocks of rows and for what is left over; with whole blocks alone, a row
    gets the same bits by itself and among others.
    """
    n_rows = len(rows)
    n_added = -n_rows % BLOCK_ROWS
    scaled = np.empty((n_rows + n_added, rows.shape[1]), dtype=np.float32)
    scaler.apply(rows, out=scaled[:n_rows])
    scaled[n_rows:] = scaled[n_rows - 1]
    whole = method.predict(scaled)
    return Prediction(
        whole.probs[:n_rows],
        whole.uncertainty[:n_rows],
        whole.ood_score[:n_rows],
        None if whole.sets is None else whole.sets[:n_rows],
    )
