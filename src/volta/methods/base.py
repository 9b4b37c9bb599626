"""The contract: a method is fitted on FitData and gives a Prediction for rows. Nothing else is asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final

from volta.core.checks import check_features, check_labels
from volta.core.errors import InputError, NotFittedError
from volta.core.types import Array, FitData, InputKind, Prediction
from volta.networks.network import Network, Outputs
from volta.networks.trainer import Trainer

Origin = Literal["volta", "paper", "extra"]


class Method(ABC):
    """Parameters are dataclass fields; what ``fit`` learns ends in ``_``; :mod:`volta.methods.saving` keeps both."""

    title: ClassVar[str]
    origin: ClassVar[Origin]
    paper_inputs: ClassVar[InputKind] = "pixels"
    """What the method trains on in the ``paper`` protocol where a task has both pixels and features."""

    shares_network: ClassVar[bool] = False
    """Whether the method starts from the network that post-hoc methods share."""

    input_shape_: tuple[int, ...]

    @final
    def fit(self, data: FitData, trainer: Trainer) -> Self:
        """Forget any earlier fit, check ``data`` and learn from it."""
        for name, split in (("train", data.train), ("val", data.val), ("cal", data.cal)):
            check_features(split.inputs, f"{name} inputs")
            check_labels(split.labels, data.n_classes, f"{name} labels")
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._fit(data, trainer)
        self.input_shape_ = data.input_shape
        return self

    @final
    def predict(self, inputs: Array) -> Prediction:
        """Return probabilities, uncertainty and OOD scores for ``inputs``."""
        shape = self.input_shape_
        check_features(inputs, "inputs")
        if tuple(inputs.shape[1:]) != tuple(shape):
            raise InputError(f"inputs has rows of shape {tuple(inputs.shape[1:])}; the method was fitted on {shape}")
        return self._predict(inputs)

    @abstractmethod
    def _fit(self, data: FitData, trainer: Trainer) -> None: ...

    @abstractmethod
    def _predict(self, inputs: Array) -> Prediction: ...

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit before using it")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@dataclass(frozen=True, eq=False)
class FitOutputs:
    """The shared network's outputs on the fit rows, computed when first asked for and then shared."""

    data: FitData
    network: Network
    trainer: Trainer

    def of(self, split: Literal["train", "val", "cal"]) -> Outputs:
        """Return the outputs on one of the fit splits."""
        return self.trainer.outputs(self.network, getattr(self.data, split).inputs)


class PostHoc(Method):
    """A method that works on the outputs of the one network all such methods share per (task, protocol, seed)."""

    shares_network = True
    network_: Network

    @final
    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data)
        self.fit_outputs(FitOutputs(data, self.network_, trainer))

    @final
    def _predict(self, inputs: Array) -> Prediction:
        return self.predict_outputs(self.network_.outputs(inputs))

    @abstractmethod
    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Learn from the network's outputs on the fit rows."""

    @abstractmethod
    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Turn the network's outputs into a prediction."""
