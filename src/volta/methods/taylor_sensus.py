"""Taylor-Sensus: cross-entropy with a penalty on the variance of the logits."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import FitData
from volta.methods.base import MeanSoftmax, at_least_0, checked
from volta.networks.objectives import VariancePenalty
from volta.networks.trainer import Trainer


@dataclass
class TaylorSensus(MeanSoftmax):
    """Trained with cross-entropy + weight · mean_i Var_k(l_ik); p = softmax(l); u = entropy of p."""

    title = "Taylor-Sensus"
    origin = "paper"
    checks = checked(weight=at_least_0)

    weight: float = 0.1

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data, objective=VariancePenalty(self.weight))
