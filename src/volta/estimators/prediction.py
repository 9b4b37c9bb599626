"""A method's prediction of rows in the user's units, the same whichever rows stand beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.core.scaling import Scaler
from volta.core.types import Array, Prediction

if TYPE_CHECKING:
    from volta.methods.base import Method


def predict_rows(method: Method, scaler: Scaler, rows: Array) -> Prediction:
    """Scale and predict rows (n, d) in float64.

    Matrix products round differently for one row and for many; in float64 that is far too little to be seen.
    """
    return method.unchecked_predict(scaler.apply(rows, np.float64))
