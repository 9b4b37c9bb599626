"""GEN: generalised entropy of the largest probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count, check_number
from volta.core.types import Prediction
from volta.methods.pieces import cached_slices
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, row_max, row_sums, softmax_and_doubt
from volta.networks.outputs import Outputs


@dataclass
class Gen(PostHoc):
    """u = Σ_k [p_k (1 − p_k)]^γ over the ``top`` largest probabilities; p = softmax(l).

    ``top`` cuts off the long tail of improbable classes, which a small γ would make count as much as probable ones.
    1 − max p is summed from the other classes, so that it does not vanish where max p rounds to 1.
    Reference: Liu et al. (2023), GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection.
    """

    title = "GEN"
    origin = "extra"
    standard = False

    gamma: float = 0.1
    top: int = 100

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_number(self.gamma, "gamma")
        check_count(self.top, "top")

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and its generalised entropy."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        return Prediction(probs, generalised_entropy(probs, doubt, self.gamma, self.top))


def generalised_entropy(probs: Floats, doubt: Floats, gamma: float, top: int) -> Floats:
    """Return Σ [p (1 − p)]^γ over each row's ``top`` largest p; ``doubt`` is 1 − max p without cancellation."""
    summed: Floats = np.empty(len(probs))
    n_tail = max(0, probs.shape[1] - top)
    for rows in cached_slices(probs):
        largest = np.partition(probs[rows], n_tail, axis=1)[:, n_tail:] if n_tail else probs[rows]
        rest = np.where(largest < row_max(largest)[:, None], 1.0 - largest, doubt[rows, None])
        rest *= largest
        summed[rows] = row_sums(rest**gamma)
    return summed
