"""SIRC: the softmax's doubt, raised where a feature score says that a row is OOD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Array, Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, softmax_and_doubt
from volta.methods.subspaces import MinorSpace, fit_minor_space
from volta.methods.vectors import column_means
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Sirc(PostHoc):
    """u = log(1 − S₁) + log(1 + exp(−b (S₂ − a))), S₁ = max softmax(l); p = softmax(l).

    S₂ is a feature score, higher where ID: minus the length outside the main half of the training vectors' principal
    directions (``second="residual"``) or ‖f‖₁ (``second="norm"``). a = mean − 3σ and b = 1/σ of S₂ on validation rows,
    so that S₂ speaks only where it is unusual and errors among ID rows keep the softmax's order: one score for
    selective prediction when OOD rows come too.
    Reference: Xia & Bouganis (2022), Augmenting Softmax Information for Selective Classification with OOD Data.
    """

    title = "SIRC"
    origin = "extra"
    standard = False
    learned_types = (MinorSpace,)

    second: Literal["residual", "norm"] = "residual"

    def check_parameters(self) -> None:
        """Refuse a second score of another name."""
        if self.second not in ("residual", "norm"):
            raise InputError(f"second is {self.second!r}; pass 'residual' or 'norm'")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the residual space on training rows, a and b on validation rows."""
        features = outputs.of("train").outputs.need_features()
        self.minor_ = fit_minor_space(features, column_means(features))
        scores = self._second(outputs.of("val").outputs.need_features())
        spread = float(scores.std())
        self.low_ = float(scores.mean()) - 3.0 * spread
        self.slope_ = 1.0 / spread if spread > 0.0 else 0.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the combined score."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        unusual = np.logaddexp(0.0, -self.slope_ * (self._second(outputs.need_features()) - self.low_))
        return Prediction(probs, np.log(np.maximum(doubt, np.finfo(np.float64).tiny)) + unusual)

    def _second(self, features: Array) -> Floats:
        if self.second == "norm":
            return np.asarray(np.abs(features).sum(axis=1, dtype=np.float64))
        return -self.minor_.lengths(features)
