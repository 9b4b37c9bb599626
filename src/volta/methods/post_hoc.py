"""Post-hoc methods: what a trained network gives for rows, turned into a prediction."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self, final

from volta.core.types import Array, FitData, Prediction
from volta.methods.base import Method
from volta.networks.network import Network
from volta.networks.outputs import (
    FitOutputs,
    LabelledOutputs,
    Outputs,
    SplitName,
    check_split_name,
    plain_splits,
)
from volta.networks.trainer import Trainer


class PostHoc(Method):
    """A method on a network's outputs: of the network all such methods share, or of anyone's own."""

    shares_network = True
    network_: Network

    @final
    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data)

        def of(name: SplitName) -> LabelledOutputs:
            split = getattr(data, check_split_name(name))
            return LabelledOutputs(trainer.outputs(self.network_, split.inputs), split.labels, split.weights)

        self.fit_outputs(FitOutputs(of, trainer.seed))

    @final
    def _predict(self, inputs: Array) -> Prediction:
        return self.predict_outputs(self.network_.outputs(inputs))

    @final
    def fit_from_outputs(
        self,
        *,
        train: LabelledOutputs | None = None,
        val: LabelledOutputs | None = None,
        cal: LabelledOutputs | None = None,
        random_state: int = 42,
    ) -> Self:
        """Fit on a network's outputs and labels alone; pass the splits the method learns from.

        >>> import numpy as np
        >>> from volta.methods.temperature import Temperature
        >>> logits = np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
        >>> val = LabelledOutputs(Outputs(logits), np.array([0, 0, 1, 1]))
        >>> Temperature().fit_from_outputs(val=val).predict_outputs(Outputs(logits[:1])).probs.round(2)
        array([[0.75, 0.25]])
        """
        self.check_parameters()
        self._forget()
        self.fit_outputs(FitOutputs(plain_splits(train, val, cal), random_state))
        self.input_shape_ = None
        return self

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Learn from the network's outputs on the fit rows; by default nothing."""

    @abstractmethod
    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Turn the network's outputs into a prediction."""
