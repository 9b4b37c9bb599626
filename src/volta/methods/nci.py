"""NCI: how well a centred vector agrees with its class's weights, as neural collapse predicts of ID rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_number
from volta.core.types import Prediction
from volta.methods.pieces import cached_slices
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, row_sums, softmax
from volta.methods.vectors import column_means
from volta.networks.outputs import FitOutputs, Outputs

_TINY = 1e-12


@dataclass
class Nci(PostHoc):
    """u = −w_ŷ·(f − μ)/‖f − μ‖ − α ‖f‖₁; p = softmax(l).

    ŷ is the predicted class, w_ŷ its row of the last layer, μ the mean of the training vectors. The second term marks
    vectors near the origin. Departure: α is fixed; the authors tune it on OOD rows, which nothing here may see.
    Reference: Liu & Qin (2025), Detecting Out-of-Distribution Through the Lens of Neural Collapse.
    """

    title = "NCI"
    origin = "extra"
    standard = False

    alpha: float = 1e-3

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_number(self.alpha, "alpha", zero=True)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the training mean and the last layer's weight."""
        train = outputs.of("train").outputs
        self.mean_ = column_means(train.need_features())
        self.weight_ = train.need_last_layer().weight.astype(np.float64)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated agreement."""
        features, top = outputs.need_features(), outputs.logits.argmax(axis=1)
        uncertainty: Floats = np.empty(len(outputs))
        for rows in cached_slices(features):
            vectors = features[rows].astype(np.float64)
            centred = vectors - self.mean_
            along = np.einsum("ij,ij->i", centred, self.weight_[top[rows]])
            along /= np.maximum(np.sqrt(np.einsum("ij,ij->i", centred, centred)), _TINY)
            uncertainty[rows] = -along - self.alpha * row_sums(np.abs(vectors, out=vectors))
        return Prediction(softmax(outputs.logits), uncertainty)
