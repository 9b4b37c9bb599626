"""A fitted method on every set of a task: the arrays that are stored of a cell."""

from __future__ import annotations

import numpy as np

from volta.bench.eval_set import VAL
from volta.core.types import Array, Prediction, Task
from volta.methods.base import Method
from volta.methods.post_hoc import PostHoc
from volta.networks.trainer import Trainer


def predict_sets(method: Method, task: Task, trainer: Trainer) -> dict[str, Array]:
    """Return what is stored of a cell: predictions on test and shifted rows, OOD scores, probabilities of val rows."""
    arrays = _labelled_arrays("test", _predict(method, task.test.inputs, trainer), task.test.labels)
    val = task.fit.val
    arrays[f"{VAL}/probs"] = _predict(method, val.inputs, trainer).probs
    arrays[f"{VAL}/labels"] = val.labels.astype(np.int32)
    for name, ood_set in task.ood.items():
        arrays[f"ood:{name}/ood_score"] = _predict(method, ood_set.inputs, trainer).ood_score
    for name, shifted in task.shifts.items():
        arrays |= _labelled_arrays(f"shift:{name}", _predict(method, shifted.inputs, trainer), shifted.labels)
    return arrays


def _predict(method: Method, inputs: Array, trainer: Trainer) -> Prediction:
    if isinstance(method, PostHoc):
        return method.predict_outputs(trainer.outputs(method.network_, inputs))
    return method.predict(inputs)


def _labelled_arrays(name: str, prediction: Prediction, labels: Array) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        f"{name}/labels": labels.astype(np.int32),
        f"{name}/probs": prediction.probs,
        f"{name}/uncertainty": prediction.uncertainty,
    }
    if name == "test":
        arrays[f"{name}/ood_score"] = prediction.ood_score
    if prediction.sets is not None:
        arrays[f"{name}/sets"] = prediction.sets
    return arrays
