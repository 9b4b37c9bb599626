"""A method's prediction of rows, with the same numbers whichever rows stand beside them.

Matrix products round differently for one row and for many, in the last bits. Decisions compare scores with those of
calibration rows, and rows that are equal must come out equal: data of few distinct rows would otherwise lose its ties,
and with them what is promised. Methods that sample (`mc_dropout`, `volta` with passes) are the exception: they draw by
a row's place among others, and a row alone may be decided otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.core.checks import CHUNK_ELEMENTS
from volta.core.received import received
from volta.core.scaling import Scaler
from volta.core.types import Array, Prediction
from volta.decisions.set_scores import Floats
from volta.networks.outputs import Outputs

if TYPE_CHECKING:
    from volta.methods.base import Method
    from volta.methods.post_hoc import PostHoc

BLOCK_ROWS = 32
_DROPPED_BITS = 20
_DECIMALS = 12
_LARGEST = 1e290


def exact_rows(scaler: Scaler, rows: Array) -> Floats | None:
    """Return rows (n, d) as the input guard sees them, or None where there are so many that a copy is large."""
    return scaler.exact(rows) if rows.size <= CHUNK_ELEMENTS else None


def predict_rows(
    method: Method, scaler: Scaler, rows: Array, n_classes: int, exact: Floats | None = None
) -> Prediction:
    """Scale and predict rows (n, d) in float64; see :func:`settled`. ``exact`` are their `exact_rows`, if known.

    A method that computes in single precision gets whole blocks: the last row is repeated, what it gives cut off again.
    """
    n_rows = len(rows)
    limit = scaler.limit
    scaled = scaler.apply(rows, np.float64) if exact is None else np.minimum(np.maximum(exact, -limit), limit)
    if not method.single_precision:
        return settled(received(method, method.unchecked_predict, scaled, n_classes))
    return settled(_first(received(method, method.unchecked_predict, _in_blocks(scaled), n_classes), n_rows))


def predict_outputs(method: PostHoc, outputs: Outputs, n_classes: int) -> Prediction:
    """Predict rows by a network's outputs, in whole blocks: features are in single precision; see :func:`settled`."""
    features = None if outputs.features is None else _in_blocks(outputs.features)
    blocks = Outputs(_in_blocks(outputs.logits), features, outputs.last_layer)
    return settled(_first(received(method, method.predict_outputs, blocks, n_classes), len(outputs)))


def _in_blocks(rows: Array) -> Array:
    """Return rows (n, d) with the last one repeated up to a whole number of blocks."""
    n_missing = -len(rows) % BLOCK_ROWS
    return np.concatenate([rows, np.repeat(rows[-1:], n_missing, axis=0)]) if n_missing else rows


def _first(whole: Prediction, n_rows: int) -> Prediction:
    return Prediction(
        whole.probs[:n_rows],
        whole.uncertainty[:n_rows],
        whole.ood_score[:n_rows],
        None if whole.sets is None else whole.sets[:n_rows],
    )


def settled(prediction: Prediction) -> Prediction:
    """Return the prediction without the last bits, which depend on how many rows there are."""
    uncertainty = settled_scores(_bounded(prediction.uncertainty))
    same = prediction.ood_score is prediction.uncertainty
    found: Prediction = object.__new__(Prediction)
    # The prediction was checked when it was made, and nothing here makes a number infinite: it is not checked again.
    found.__dict__.update(
        probs=without_last_bits(prediction.probs),
        uncertainty=uncertainty,
        ood_score=uncertainty if same else settled_scores(_bounded(prediction.ood_score)),
        sets=prediction.sets,
    )
    return found


def _bounded(scores: Floats) -> Floats:
    """Return scores, whatever numbers a method gives, in float64 and so that rounding to decimals keeps them finite."""
    return np.minimum(np.maximum(np.asarray(scores, dtype=np.float64), -_LARGEST), _LARGEST)


def settled_scores(scores: Floats) -> Floats:
    """Return scores to 12 decimals and 10 digits: 1 minus a number close to 1 has few digits that mean anything."""
    return without_last_bits(scores.round(_DECIMALS))


def without_last_bits(values: Floats) -> Floats:
    """Return float64 numbers rounded to their first 33 bits, about ten digits.

    >>> 0.1 + 0.2 == 0.3, bool((without_last_bits(np.array([0.1 + 0.2])) == without_last_bits(np.array([0.3])))[0])
    (False, True)
    """
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return ((bits + (1 << (_DROPPED_BITS - 1))) & -(1 << _DROPPED_BITS)).view(np.float64)
