"""A metric: how often the true class is among the two most probable."""

from __future__ import annotations

import numpy as np

from volta.metrics import Metric


def top2_accuracy(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows whose class is among their two most probable."""
    top = np.argsort(-probs, axis=1, kind="stable")[:, :2]
    return float((top == labels[:, None]).any(axis=1).mean())


TOP2_ACCURACY = Metric(
    name="top2_accuracy",
    label="top-2 accuracy",
    family="prediction",
    function=top2_accuracy,
    higher_is_better=True,
    needs=("probs", "labels"),
    formula="mean [y among the two largest p_k]",
    convention="ties go to the lower class number",
    others="none known",
    margin=0.01,
)
