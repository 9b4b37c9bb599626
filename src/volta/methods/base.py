"""The contract of a method and of post-hoc methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeAlias, final

from volta.core.checks import check_count, check_features, check_labels, check_number
from volta.core.errors import InputError, NotFittedError
from volta.core.types import Array, FitData, InputKind, Prediction
from volta.methods import graphs
from volta.methods.scores import entropy, mean_softmax
from volta.networks.network import Network
from volta.networks.outputs import FitOutputs, LabelledOutputs, Outputs, SplitName, check_split_name, plain_splits
from volta.networks.recipe import PROTOCOLS, ProtocolName
from volta.networks.trainer import Trainer

Origin = Literal["volta", "paper", "extra"]

StackedPrediction: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""From float64 rows (n_fits, n, d), scaled for each fit, to probabilities and uncertainty of each fit and row."""

MAX_PASSES = 10_000
"""So many passes or samples a prediction may average: a file that asks for more is to keep its reader busy."""

Check: TypeAlias = Callable[[Any, str], object]
"""Refuses a parameter's value that makes no sense; called with the value and the parameter's name."""

at_least_0: Check = partial(check_number, zero=True)
pass_count: Check = partial(check_count, most=MAX_PASSES)


def checked(**checks: Check) -> Mapping[str, Check]:
    """Return what checks each parameter, by its name: a method's ``checks``."""
    return MappingProxyType(checks)


def optional(check: Check) -> Check:
    """Return a check that None passes."""
    return lambda value, name: None if value is None else check(value, name)


def each(check: Check) -> Check:
    """Return a check of every value in a tuple."""
    return lambda values, name: [check(value, name) for value in values]


class Method(ABC):
    """Parameters are dataclass fields; what ``fit`` learns ends in ``_``; :mod:`volta.methods.saving` keeps both."""

    title: ClassVar[str]
    """What readers know it by; the class's name where it is not given."""

    origin: ClassVar[Origin]
    paper_inputs: ClassVar[InputKind] = "pixels"
    """What the method trains on in the ``paper`` protocol where a task has both pixels and features."""

    shares_network: ClassVar[bool] = False
    """Whether the method starts from the network that post-hoc methods share."""

    standard: ClassVar[bool] = True
    """Whether a run that names no methods has it."""

    protocols: ClassVar[tuple[ProtocolName, ...]] = PROTOCOLS
    """The protocols whose networks give what the method needs."""

    single_precision: ClassVar[bool] = False
    """Whether scores are products in float32, which depend in their digits on how many rows are predicted together."""

    learned_types: ClassVar[tuple[type, ...]] = ()
    """The frozen dataclasses among what ``fit`` learns; loading a file builds no others."""

    checks: ClassVar[Mapping[str, Check]] = checked()
    """What checks each parameter, by its name."""

    input_shape_: tuple[int, ...] | None

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before anything is computed; by default by ``checks``."""
        for name, check in self.checks.items():
            check(getattr(self, name), name)

    @final
    def fit(self, data: FitData, trainer: Trainer) -> Self:
        """Forget any earlier fit, check parameters and ``data`` and learn from it."""
        self.check_parameters()
        for name, split in (("train", data.train), ("val", data.val), ("cal", data.cal)):
            check_features(split.inputs, f"{name} inputs")
            check_labels(split.labels, data.n_classes, f"{name} labels")
        self._forget()
        self._fit(data, trainer)
        self.input_shape_ = data.input_shape
        return self

    @final
    def predict(self, inputs: Array) -> Prediction:
        """Return probabilities, uncertainty and OOD scores for ``inputs``."""
        if (shape := self.input_shape_) is None:
            raise InputError(f"{self.title} was fitted from outputs, without a network; call predict_outputs")
        check_features(inputs, "inputs")
        if tuple(inputs.shape[1:]) != tuple(shape):
            raise InputError(f"inputs has rows of shape {tuple(inputs.shape[1:])}; the method was fitted on {shape}")
        return self._predict(inputs)

    @abstractmethod
    def _fit(self, data: FitData, trainer: Trainer) -> None: ...

    @abstractmethod
    def _predict(self, inputs: Array) -> Prediction: ...

    @classmethod
    def stacked(cls, methods: Sequence[Self]) -> StackedPrediction | None:
        """Return what predicts a few rows by several fits at once, quicker than one after another; None for none."""
        return None

    @final
    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} is not fitted; call fit before using it")
        if name == "title":
            return type(self).__name__
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class MeanSoftmax(Method):
    """p = the mean softmax of networks of its own, ``networks_`` or ``network_``; u = entropy of p."""

    def _predict(self, inputs: Array) -> Prediction:
        probs = mean_softmax(network.outputs(inputs).logits for network in self._networks)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the networks and the formula on their logits, for ONNX graphs."""
        return graphs.entropy_graph(self._networks)

    @property
    def _networks(self) -> list[Network]:
        return vars(self).get("networks_") or [self.network_]


class PostHoc(Method):
    """A method on a network's outputs: of the network all such methods share, or of anyone's own."""

    shares_network = True
    network_: Network

    @final
    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data)

        def of(name: SplitName) -> LabelledOutputs:
            split = getattr(data, check_split_name(name))
            return LabelledOutputs(trainer.outputs(self.network_, data, name), split.labels, split.weights)

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
        >>> from volta.methods.calibrated import Temperature
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
