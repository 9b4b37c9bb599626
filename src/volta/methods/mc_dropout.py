"""MC Dropout: the mean softmax of several passes with dropout on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count, check_fraction
from volta.core.seeding import rng
from volta.core.types import Array, FitData, Prediction
from volta.methods.base import MAX_PASSES, Method
from volta.methods.scores import entropy, mean_softmax
from volta.networks.trainer import Trainer


@dataclass
class McDropout(Method):
    """p = (1/T) Σ_t softmax(l_t) over T passes with dropout on; u = entropy of p.

    Masks are drawn from the run's seed, so that the same rows in the same order give the same prediction.
    Reference: Gal & Ghahramani (2016), Dropout as a Bayesian Approximation.

    Parameters
    ----------
    dropout
        Rate in training and at test.
    n_passes
        T.
    """

    title = "MC Dropout"
    origin = "paper"
    shares_network = True

    dropout: float = 0.2
    n_passes: int = 10

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_fraction(self.dropout, "dropout")
        check_count(self.n_passes, "n_passes", most=MAX_PASSES)

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data, dropout=self.dropout)
        self.seed_ = trainer.seed

    def _predict(self, inputs: Array) -> Prediction:
        generators = [rng(self.seed_, "mc_dropout", index) for index in range(self.n_passes)]
        probs = np.empty((len(inputs), self.network_.spec.n_classes))
        for rows, passes in self.network_.sampled_logits(inputs, generators):
            probs[rows] = mean_softmax(passes)
        return Prediction(probs, entropy(probs))
