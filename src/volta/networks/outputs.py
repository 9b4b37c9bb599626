"""What a network gives for rows, as plain arrays: from a network trained here or from anyone's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_features, check_labels, check_same_length, check_weights, without_graph
from volta.core.errors import InputError

SplitName: TypeAlias = Literal["train", "val", "cal"]

_FIND = "find what produced it, or drop the row"
_RULED_OUT = (
    f"{_FIND}; where it is the log of a probability of 0, mix in a little of all classes first, of n rows and K "
    "classes: np.log((1 - e) * probs + e / K) with e = 1 / (n + 1)"
)


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The linear layer that makes logits from features: logits = features · weightᵀ + bias.

    ``weight`` is (n_classes, width) and ``bias`` (n_classes,), as PyTorch keeps them; other libraries keep the
    transpose of ``weight``.
    """

    weight: NDArray[Any]
    bias: NDArray[Any]

    def __post_init__(self) -> None:
        weight, bias = check_features(self.weight, "last_layer.weight"), np.asarray(without_graph(self.bias))
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise InputError(
                f"last_layer has weight {weight.shape} and bias {bias.shape}; expected (n_classes, width) and "
                "(n_classes,): transpose the weight where your library keeps (width, n_classes)"
            )
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a network gives for n rows; everything a post-hoc method may use of it.

    >>> import numpy as np
    >>> Outputs(np.array([[2.0, -1.0]]), features=np.ones((1, 3))).need_features().shape
    (1, 3)

    Parameters
    ----------
    logits
        (n, n_classes), kept as float64.
    features
        (n, width) penultimate vectors, what the last layer sees; kept as float32, which networks compute in.
    last_layer
        The layer between the two, for methods that look into it.
    """

    logits: NDArray[np.float64]
    features: NDArray[np.float32] | None = None
    last_layer: LastLayer | None = None

    def __post_init__(self) -> None:
        if getattr(self.logits, "ndim", 2) == 1:
            raise _single(self.logits.shape)
        object.__setattr__(self, "logits", _rows(self.logits, "logits", np.float64, _RULED_OUT))
        if self.n_classes == 1:
            raise _single(self.logits.shape)
        if self.features is not None:
            object.__setattr__(self, "features", _rows(self.features, "features", np.float32, _FIND))
            check_same_length(logits=self.logits, features=self.features)
        if self.last_layer is not None:
            width = self.need_features().shape[1]
            if (shape := self.last_layer.weight.shape) != (self.n_classes, width):
                raise InputError(f"last_layer.weight is {shape}; logits and features ask for {(self.n_classes, width)}")

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def n_classes(self) -> int:
        """Number of logits a row."""
        return int(self.logits.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory held by the rows."""
        return self.logits.nbytes + (0 if self.features is None else self.features.nbytes)

    def need_features(self) -> NDArray[np.float32]:
        """Return the features, or say that they are missing."""
        if self.features is None:
            raise InputError("outputs hold no features, which are needed here; pass Outputs(logits, features=...)")
        return self.features

    def need_last_layer(self) -> LastLayer:
        """Return the last layer, or say that it is missing."""
        if self.last_layer is None:
            raise InputError(
                "outputs hold no last_layer, which is needed here; "
                "pass Outputs(logits, features, last_layer=LastLayer(weight, bias))"
            )
        return self.last_layer


class NetworkOutputs(Outputs):
    """Outputs of a network of this package for few rows, which need no check: that costs as much as computing them."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True, eq=False)
class LabelledOutputs:
    """A network's outputs on rows whose classes are known: ``labels`` (n,) are integers in 0 … n_classes − 1.

    ``weights`` (n,), where there are any: how much each row counts in what is fitted on it.
    """

    outputs: Outputs
    labels: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        labels = check_labels(self.labels, self.outputs.n_classes).astype(np.int64, copy=False)
        check_same_length(logits=self.outputs, labels=labels)
        object.__setattr__(self, "labels", labels)
        if self.weights is not None:
            weights = check_weights(self.weights)
            check_same_length(labels=labels, weights=weights)
            object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class FitOutputs:
    """What a post-hoc method learns from.

    ``of("train")``, ``of("val")`` or ``of("cal")`` gives a split's outputs and labels; where they come from a network
    they are computed when they are asked for. ``random_state`` decides what the method draws.
    """

    of: Callable[[SplitName], LabelledOutputs]
    random_state: int


def plain_splits(
    train: LabelledOutputs | None, val: LabelledOutputs | None, cal: LabelledOutputs | None
) -> Callable[[SplitName], LabelledOutputs]:
    """Return the function that gives a split, or says that there is none; all must come from one network."""
    named = {"train": train, "val": val, "cal": cal}
    shapes = {
        name: (split.outputs.n_classes, None if split.outputs.features is None else split.outputs.features.shape[1])
        for name, split in named.items()
        if split is not None
    }
    if len(set(shapes.values())) > 1:
        raise InputError(f"the splits' (n_classes, width) differ: {shapes}; pass outputs of one network")

    def of(name: SplitName) -> LabelledOutputs:
        split = named[check_split_name(name)]
        if split is None:
            raise InputError(f"the method learns from {name} rows and there are none; pass {name}=LabelledOutputs(...)")
        return split

    return of


def check_split_name(name: SplitName) -> SplitName:
    """Return the name of a split, or say which there are."""
    if name not in get_args(SplitName):
        raise InputError(f"outputs.of is asked for {name!r}; the splits are {', '.join(get_args(SplitName))}")
    return name


def _single(shape: tuple[int, ...]) -> InputError:
    return InputError(
        f"logits has shape {tuple(shape)}; expected (n_samples, n_classes): where a network gives one logit z for two "
        "classes, pass np.column_stack([np.zeros_like(z), z])"
    )


def _rows(values: NDArray[Any], name: str, dtype: type[np.floating[Any]], remedy: str) -> NDArray[Any]:
    array = check_features(values, name, remedy=remedy)
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; expected one row of numbers a sample")
    return array.astype(dtype, copy=False)
