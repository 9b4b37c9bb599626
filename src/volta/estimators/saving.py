"""A fitted classifier as one sealed file, and back. Nothing is pickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.estimators.calibration import CALIBRATION_TYPES
from volta.estimators.explanation import KeptRows, Reference
from volta.methods.base import Method
from volta.methods.registry import METHODS
from volta.methods.saving import load_method, parameters_of, save_method
from volta.networks.training_log import TrainingLog

STATE_TYPES = (*CALIBRATION_TYPES, KeptRows, Reference, TrainingLog)


def save_classifier(
    path: Path,
    method: Method,
    parameters: dict[str, Any],
    state: dict[str, Any],
    classes: NDArray[Any],
    further_types: tuple[type, ...] = (),
) -> None:
    """Write a fitted method, the constructor's parameters, the learned state and the labels.

    ``further_types``: dataclasses that the state may hold besides those that every classifier has.
    """
    named = {name: _named(value) if isinstance(value, Method) else value for name, value in parameters.items()}
    labels = classes if classes.dtype.kind in "iufb" else plain_classes(classes)
    extra = {"parameters": named, "state": state, "classes": labels}
    save_method(method, registered_name(method), path, extra, extra_types=(*STATE_TYPES, *further_types))


def load_classifier(
    path: Path, further_types: tuple[type, ...] = ()
) -> tuple[Method, dict[str, Any], dict[str, Any], NDArray[Any]]:
    """Return what :func:`save_classifier` wrote, in its order."""
    method, extra = load_method(path, METHODS, extra_types=(*STATE_TYPES, *further_types))
    if "parameters" not in extra:
        raise InputError(f"{path} holds a bare method, not a classifier; load it with volta.methods.saving")
    parameters = {
        name: METHODS[value["method"]](**value["parameters"])
        if isinstance(value, dict) and "method" in value
        else value
        for name, value in extra["parameters"].items()
    }
    return method, parameters, extra["state"], np.asarray(extra["classes"])


def registered_name(method: Method) -> str:
    """Return the name a method's class has in METHODS; a file can hold no other."""
    for name, kind in METHODS.items():
        if kind is type(method):
            return name
    raise InputError(f"method is a {type(method).__name__}, which METHODS does not list; only those can be saved")


def plain_classes(classes: NDArray[Any]) -> list[Any]:
    """Return the labels as plain numbers or strings, or say that they are neither."""
    if classes.dtype.kind in "iufb":
        return list(classes.tolist())
    if not all(isinstance(label, str) for label in classes):
        raise InputError("labels are neither all numbers nor all strings; make them so before fit to save them")
    return [str(label) for label in classes]


def _named(method: Method) -> dict[str, Any]:
    return {"method": registered_name(method), "parameters": parameters_of(method)}
