"""A trained network: its weights, and what it gives for rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import erf
from torch import Tensor, nn

from volta.core.types import Array
from volta.networks.modules import Encoder, Identity, Linear, Mlp, PrototypeHead, Prototypes, cut, sampled_from
from volta.networks.outputs import LastLayer, NetworkOutputs, Outputs
from volta.networks.recipe import TrainingLog
from volta.networks.spec import Classifier, NetworkSpec, spec_from_json
from volta.networks.training import EVAL_ROWS, InputRows

FEW_ROWS = 16

Floats: TypeAlias = NDArray[np.float64]


class NetworkArrays:
    """Weights of networks of one kind as float64 arrays, for few rows: PyTorch spends its time on the calls there.

    Arrays of several networks have a further first axis.

    `benchmarks/latency.py` keeps it: without it `decide` of one row takes 1.4 times as long (30 columns), and with the
    paper's MLP twice as long.
    """

    def __init__(self, classifiers: Sequence[Classifier], n_hidden: int, is_mlp: bool) -> None:
        parts = [self._of(classifier, n_hidden, is_mlp) for classifier in classifiers]
        found = parts[0] if len(parts) == 1 else _stacked(parts)
        self._rectified, self._hidden, self._projections, self._residual, self._prototypes, self._layer = found

    def _of(self, classifier: Classifier, n_hidden: int, is_mlp: bool) -> tuple[Any, ...]:
        body: Any = classifier.body
        rectified = [_affine(layer) for layer in body if isinstance(layer, nn.Linear)] if is_mlp else []
        layers = list(getattr(body, "layers", ()))
        hidden = [self._of_hidden(*layers[start : start + 2]) for start in range(0, 4 * n_hidden, 4)]
        projections = [_affine(layer) for layer in layers[4 * n_hidden :]]
        residual = getattr(body, "residual", None)
        head = classifier.head
        prototypes = last = None
        if isinstance(head, PrototypeHead):
            vectors = _array(head.prototypes)
            directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            prototypes = directions.T / math.exp(float(head.log_temperature.detach()))
        else:
            layer = cast(LastLayer, head.last_layer())
            last = np.ascontiguousarray(layer.weight.T, dtype=np.float64), layer.bias.astype(np.float64)[None]
        return rectified, hidden, projections, None if residual is None else _affine(residual), prototypes, last

    @staticmethod
    def _of_hidden(linear: nn.Linear, norm: nn.LayerNorm) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
        """Return a linear layer whose outputs have mean 0, and LayerNorm's weights times √½, as GELU needs them."""
        weight, bias = _array(linear.weight), _array(linear.bias)
        weight, bias = weight - weight.mean(axis=0), bias - bias.mean()
        gain, shift = math.sqrt(0.5) * _array(norm.weight), math.sqrt(0.5) * _array(norm.bias)
        share = np.full((linear.out_features, 1), 1.0 / linear.out_features)
        return np.ascontiguousarray(weight.T), bias[None], gain[None], shift[None], share, norm.eps

    def outputs(self, inputs: Floats) -> tuple[Floats, Floats]:
        """Return logits and penultimate vectors. With t = y/√2, GELU(y) = √½ (t + t erf(t))."""
        rows = inputs
        for weight, bias in self._rectified:
            rows = rows @ weight
            rows += bias
            rows = np.maximum(rows, 0.0)
        for weight, bias, gain, shift, share, eps in self._hidden:
            rows = rows @ weight
            rows += bias
            deviation = (rows * rows) @ share
            deviation += eps
            rows /= np.sqrt(deviation, out=deviation)
            rows *= gain
            rows += shift
            curved: Floats = erf(rows)
            curved *= rows
            curved += rows
            curved *= math.sqrt(0.5)
            rows = curved
        for weight, bias in self._projections:
            rows = rows @ weight
            rows += bias
        if self._residual is not None:
            past = inputs @ self._residual[0]
            past += self._residual[1]
            rows = rows + past
        if self._prototypes is not None:
            lengths = np.sqrt(np.add.reduce(rows * rows, axis=-1, keepdims=True))
            return (rows / np.maximum(lengths, 1e-12)) @ self._prototypes, rows
        weight, bias = cast(tuple[Floats, Floats], self._layer)
        logits: Floats = rows @ weight
        logits += bias
        return logits, rows


def _affine(layer: nn.Linear) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(_array(layer.weight).T), _array(layer.bias)[None]


def _stacked(parts: list[Any]) -> Any:
    """Return parts of one form, tuples or lists of arrays, as one such part of arrays with a further first axis."""
    if isinstance(parts[0], np.ndarray):
        return np.stack(parts)
    if isinstance(parts[0], tuple | list):
        return [_stacked(list(each)) for each in zip(*parts, strict=True)]
    return parts[0]


def stack_networks(networks: Sequence[Network]) -> NetworkArrays | None:
    """Return networks of one kind for few rows (n_networks, n, d) at once; None where only PyTorch can run them."""
    first = networks[0]
    if any(
        network.spec != first.spec or network.device.type != "cpu" or not network.has_arrays for network in networks
    ):
        return None
    return first.arrays_of([network.classifier for network in networks])


def _array(values: Any) -> Floats:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Network:
    """A trained classifier. ``key`` is a hash of all that decided its weights."""

    spec: NetworkSpec
    classifier: Classifier
    log: TrainingLog
    key: str
    device: torch.device

    def outputs(self, inputs: Array) -> Outputs:
        """Return logits, penultimate vectors and the last layer where it is linear, in evaluation mode.

        Feature rows in float64 are computed in float64 on a processor, so that a row gets the same numbers by itself
        and among others, far beyond float32; all other inputs are computed in float32, as networks are trained.
        """
        if not (inputs.dtype == np.float64 and inputs.ndim == 2 and self.device.type == "cpu"):
            return self._run(self.classifier, InputRows(inputs, self.device).eval_batches(), len(inputs))
        if len(inputs) > FEW_ROWS or self._arrays is None:
            starts = range(0, len(inputs), EVAL_ROWS)
            pieces = (torch.from_numpy(np.array(inputs[start : start + EVAL_ROWS])) for start in starts)
            return self._run(self._wide, pieces, len(inputs))
        logits, encoded = self._arrays.outputs(inputs)
        return NetworkOutputs(logits, encoded.astype(np.float32), self._last_layer)

    @torch.inference_mode()
    def _run(self, classifier: Classifier, batches: Iterator[Tensor], n_rows: int) -> Outputs:
        if classifier.training:
            classifier.eval()
        logits = np.empty((n_rows, self.spec.n_classes), dtype=np.float64)
        features = np.empty((n_rows, self.spec.body.width), dtype=np.float32)
        start = 0
        for batch in batches:
            encoded = classifier.body(batch)
            stop = start + len(batch)
            features[start:stop] = encoded.cpu().numpy()
            logits[start:stop] = classifier.head(encoded).cpu().numpy()
            start = stop
        return Outputs(logits, features, self._last_layer)

    @cached_property
    def temperature(self) -> float:
        """τ of a head of prototypes as training left it."""
        return cast(PrototypeHead, self.classifier.head).temperature

    @cached_property
    def _wide(self) -> Classifier:
        """The classifier in float64."""
        return copy.deepcopy(self.classifier).double().eval()

    @cached_property
    def _arrays(self) -> NetworkArrays | None:
        return self.arrays_of([self.classifier]) if self.has_arrays else None

    @property
    def has_arrays(self) -> bool:
        """Whether NumPy can run the network."""
        return isinstance(self.spec.head, Prototypes | Linear) and isinstance(self.spec.body, Encoder | Mlp | Identity)

    def arrays_of(self, classifiers: Sequence[Classifier]) -> NetworkArrays:
        """Return the weights of classifiers of this network's kind."""
        body = self.spec.body
        n_hidden = len(body.hidden) if isinstance(body, Encoder) else 0
        return NetworkArrays(classifiers, n_hidden, isinstance(body, Mlp))

    @cached_property
    def _last_layer(self) -> LastLayer | None:
        return self.classifier.head.last_layer()

    def sampled_logits(
        self, inputs: Array, generators: Sequence[np.random.Generator]
    ) -> Iterator[tuple[slice, list[NDArray[np.float64]]]]:
        """Walk the rows in pieces, with the logits of one pass a generator: dropout on, all else in evaluation mode.

        What lies before the first dropout layer is computed once for all passes.
        """
        first, rest = cut(self.classifier.eval().body)
        start = 0
        for batch in InputRows(inputs, self.device).eval_batches():
            passes = []
            with torch.inference_mode():
                shared = first(batch)
                for random in generators:
                    with sampled_from(random):
                        passes.append(self.classifier.head(rest(shared)).cpu().double().numpy())
            rows = slice(start, start + len(batch))
            yield rows, passes
            start = rows.stop

    def __getstate__(self) -> dict[str, Any]:
        """Leave out of copies and pickles what is computed again once it is needed."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def copy(self) -> Classifier:
        """Return a classifier with the same weights and memory of its own."""
        classifier = self.spec.build(seed=0)
        classifier.load_state_dict(self.classifier.state_dict())
        return classifier.to(self.device).eval()

    def tensors(self) -> dict[str, Array]:
        """Return the weights as arrays by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.classifier.state_dict().items()}

    def to_json(self) -> dict[str, Any]:
        """Return all but the weights as a JSON value."""
        return {"spec": self.spec.to_json(), "log": asdict(self.log), "key": self.key}


def network_from_parts(value: dict[str, Any], tensors: dict[str, Array], device: torch.device) -> Network:
    """Return the network that :meth:`Network.to_json` and :meth:`Network.tensors` described."""
    spec = spec_from_json(value["spec"])
    spec.check_shapes({name: array.shape for name, array in tensors.items()})
    classifier = spec.build(seed=0)
    classifier.load_state_dict({name: torch.from_numpy(_writable(array)) for name, array in tensors.items()})
    log = msgspec.convert(value["log"], TrainingLog)
    if device.type != "cpu":
        # It is built on the processor; walking through it for nothing is a part of what loading costs.
        classifier = classifier.to(device)
    return Network(spec, classifier.eval(), log, value["key"], device)


def _writable(array: Array) -> Array:
    """Return an array that torch takes without a warning; it is copied from in any case."""
    return array if array.flags.writeable else np.array(array)
