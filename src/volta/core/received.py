"""A method's prediction where it is received: a mistake in it is the method's, and the error says whose."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, Protocol, TypeVar

import numpy as np

from volta.core.errors import InputError, PredictionError
from volta.core.types import Prediction

Rows = TypeVar("Rows", bound=Sized)


class Titled(Protocol):
    """Whoever predicts, by the name that readers know it by."""

    @property
    def title(self) -> str:
        """Its name for readers."""


def received(method: Titled, predict: Callable[[Rows], Prediction], rows: Rows, n_classes: int) -> Prediction:
    """Return ``predict(rows)``, a `Prediction` of as many rows and of ``n_classes``, or say what ``method`` gave.

    Types and shapes alone are looked at: that values are finite was seen when the prediction was made.
    """
    try:
        found = predict(rows)
    except PredictionError as error:
        raise InputError(f"{method.title}: {error}") from error
    if not isinstance(found, Prediction):
        kind = type(found).__name__  # type: ignore[unreachable]
        raise InputError(f"{method.title} gave a {kind}; expected a volta.Prediction(probs, uncertainty)")
    n_rows = len(rows)
    _check(method, "probs", found.probs, (n_rows, n_classes))
    _check(method, "uncertainty", found.uncertainty, (n_rows,))
    if found.ood_score is not found.uncertainty:
        _check(method, "ood_score", found.ood_score, (n_rows,))
    if found.sets is not None:
        _check(method, "sets", found.sets, (n_rows, n_classes))
    return found


def _check(method: Titled, name: str, values: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(values, np.ndarray):
        raise InputError(f"{method.title} gave {name} as a {type(values).__name__}; expected a NumPy array")
    if values.shape != shape:
        raise InputError(f"{method.title} gave {name} of shape {values.shape}; expected {shape}")
