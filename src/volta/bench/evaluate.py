"""A fitted method on every set of a task: the arrays that are stored of a cell."""

from __future__ import annotations

import numpy as np

from volta.bench.eval_set import VAL
from volta.core.received import received
from volta.core.types import Array, Prediction, Task
from volta.methods.base import Method
from volta.methods.post_hoc import PostHoc
from volta.networks.trainer import Trainer


def predict_sets(method: Method, task: Task, trainer: Trainer) -> dict[str, Array]:
    """Return what is stored of a cell: predictions on test and shifted rows, OOD scores, probabilities of val rows."""

    def predict(inputs: Array) -> Prediction:
        return _predict(method, inputs, trainer, task.fit.n_classes)

    arrays = _labelled_arrays("test", predict(task.test.inputs), task.test.labels)
    val = task.fit.val
    arrays[f"{VAL}/probs"] = predict(val.inputs).probs
    arrays[f"{VAL}/labels"] = val.labels.astype(np.int32)
    for name, ood_set in task.ood.items():
        arrays[f"ood:{name}/ood_score"] = predict(ood_set.inputs).ood_score
    for name, shifted in task.shifts.items():
        arrays |= _labelled_arrays(f"shift:{name}", predict(shifted.inputs), shifted.labels)
    return arrays


def _predict(method: Method, inputs: Array, trainer: Trainer, n_classes: int) -> Prediction:
    if isinstance(method, PostHoc):
        return received(method, method.predict_outputs, trainer.outputs(method.network_, inputs), n_classes)
    return received(method, method.predict, inputs, n_classes)


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
