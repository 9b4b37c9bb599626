"""A fitted method on every set of a task: arrays to store, metrics computed from those arrays alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from volta.core.types import Array, Prediction, Task
from volta.methods.base import Method, PostHoc
from volta.metrics import FlooredProbabilityWarning, nll_floored_rows, report
from volta.networks.trainer import Trainer

Metrics = dict[str, dict[str, float]]


def predict_sets(method: Method, task: Task, trainer: Trainer) -> dict[str, Array]:
    """Return what is stored of a cell: predictions on the test rows, OOD scores, predictions on shifted rows."""
    arrays = _labelled_arrays("test", _predict(method, task.test.inputs, trainer), task.test.labels)
    for name, foreign in task.ood.items():
        arrays[f"ood:{name}/ood_score"] = _predict(method, foreign.inputs, trainer).ood_score
    for name, shifted in task.shifts.items():
        arrays |= _labelled_arrays(f"shift:{name}", _predict(method, shifted.inputs, trainer), shifted.labels)
    return arrays


def metrics_of(arrays: dict[str, Array]) -> tuple[Metrics, dict[str, int]]:
    """Return metrics by set name, and how many rows of each set had their true-class probability floored in NLL."""
    metrics: Metrics = {}
    floored: dict[str, int] = {}
    ood = {key.removesuffix("/ood_score"): value for key, value in arrays.items() if key.startswith("ood:")}
    for name in [key.removesuffix("/probs") for key in arrays if key.endswith("/probs")]:
        part = {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")}
        labels = part["labels"].astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlooredProbabilityWarning)
            values = report(
                part["probs"],
                labels,
                part["uncertainty"],
                ood={key.removeprefix("ood:"): scores for key, scores in ood.items()} if name == "test" else {},
                id_ood_score=part.get("ood_score"),
                sets=part.get("sets"),
            )
        metrics[name] = values.pop("test")
        metrics |= values
        floored[name] = nll_floored_rows(part["probs"], labels)
    return metrics, {name: count for name, count in floored.items() if count}


def _predict(method: Method, inputs: Array, trainer: Trainer) -> Prediction:
    if isinstance(method, PostHoc):
        return method.predict_outputs(trainer.outputs(method.network_, inputs))
    return method.predict(inputs)


def _labelled_arrays(name: str, prediction: Prediction, labels: Array) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        f"{name}/labels": labels.astype(np.int32),
        f"{name}/probs": prediction.probs,
        f"{name}/uncertainty": prediction.uncertainty,
    }
    if name == "test":
        arrays[f"{name}/ood_score"] = prediction.ood_score
    if prediction.sets is not None:
        arrays[f"{name}/sets"] = prediction.sets
    return arrays
