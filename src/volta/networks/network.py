"""A trained network: its weights, and what it gives for rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import erf
from torch import Tensor, nn

from volta.core.types import Array
from volta.networks.modules import Encoder, Identity, Linear, Mlp, PrototypeHead, Prototypes, cut, sampled_from
from volta.networks.outputs import LastLayer, Outputs
from volta.networks.recipe import TrainingLog
from volta.networks.spec import Classifier, NetworkSpec, spec_from_json
from volta.networks.training import EVAL_ROWS, InputRows

FEW_ROWS = 16

Floats: TypeAlias = NDArray[np.float64]
Step: TypeAlias = Callable[[Floats], Floats]
"""From rows (n, d) to rows (n, w)."""


def array_form(spec: NetworkSpec, classifier: Classifier) -> tuple[Step, Step] | None:
    """Return body and head in evaluation mode as functions of float64 rows, or None where a part has no such form."""
    body, head = _body(spec, classifier), _head(spec, classifier)
    return None if body is None or head is None else (body, head)


def _body(spec: NetworkSpec, classifier: Classifier) -> Step | None:
    module: Any = classifier.body
    if isinstance(spec.body, Identity):
        return lambda rows: rows
    if isinstance(spec.body, Mlp):
        return _in_turn([_rectified(layer) for layer in module if isinstance(layer, nn.Linear)])
    if not isinstance(spec.body, Encoder):
        return None
    layers = list(module.layers)
    n_hidden = 4 * len(spec.body.hidden)
    steps = [_hidden(linear, norm) for linear, norm in zip(layers[:n_hidden:4], layers[1:n_hidden:4], strict=True)]
    encode = _in_turn(steps + [_linear(layer) for layer in layers[n_hidden:]])
    if module.residual is None:
        return encode
    past = _linear(module.residual)
    return lambda rows: encode(rows) + past(rows)


def _head(spec: NetworkSpec, classifier: Classifier) -> Step | None:
    if isinstance(spec.head, Linear):
        layer = classifier.head.last_layer()
        return None if layer is None else _affine(layer.weight, layer.bias)
    if not isinstance(spec.head, Prototypes):
        return None
    head = cast(PrototypeHead, classifier.head)
    weight = _array(head.prototypes).T / math.exp(float(head.log_temperature.detach()))

    def similarities(rows: Floats) -> Floats:
        lengths = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
        return np.asarray((rows / np.maximum(lengths, 1e-12)) @ weight)

    return similarities


def _in_turn(steps: list[Step]) -> Step:
    def run(rows: Floats) -> Floats:
        for step in steps:
            rows = step(rows)
        return rows

    return run


def _affine(weight: NDArray[Any], bias: NDArray[Any]) -> Step:
    turned, added = np.ascontiguousarray(weight.T, dtype=np.float64), bias.astype(np.float64)

    def apply(rows: Floats) -> Floats:
        product: Floats = rows @ turned
        product += added
        return product

    return apply


def _linear(layer: nn.Linear) -> Step:
    return _affine(_array(layer.weight), _array(layer.bias))


def _rectified(layer: nn.Linear) -> Step:
    apply = _linear(layer)
    return lambda rows: np.maximum(apply(rows), 0.0)


def _hidden(linear: nn.Linear, norm: nn.LayerNorm) -> Step:
    """Return linear, LayerNorm and GELU in one, in few operations.

    Weights whose mean over the outputs is 0 give outputs whose mean is; and with t = y/√2, √½ of which is in the
    norm's weights, GELU(y) = √½ (t + t erf(t)).
    """
    weight, bias, width = _array(linear.weight), _array(linear.bias), linear.out_features
    even = _affine(weight - weight.mean(axis=0), bias - bias.mean())
    gain, shift = math.sqrt(0.5) * _array(norm.weight), math.sqrt(0.5) * _array(norm.bias)
    share, eps = np.full((width, 1), 1.0 / width), norm.eps

    def apply(rows: Floats) -> Floats:
        rows = even(rows)
        deviation = (rows * rows) @ share
        deviation += eps
        rows /= np.sqrt(deviation, out=deviation)
        rows *= gain
        rows += shift
        found: Floats = erf(rows)
        found *= rows
        found += rows
        found *= math.sqrt(0.5)
        return found

    return apply


def _array(values: Any) -> Floats:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


class ExactRows(np.ndarray[Any, np.dtype[np.float64]]):
    """Feature rows (n, d) of float64 that a network is to compute in float64."""


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

        :class:`ExactRows` are computed in float64 on a processor, so that a row gets the same numbers by itself and
        among others, far beyond float32; all other inputs are computed in float32, as networks are trained.
        """
        if not (isinstance(inputs, ExactRows) and self.device.type == "cpu"):
            return self._run(self.classifier, InputRows(inputs, self.device).eval_batches(), len(inputs))
        rows = np.asarray(inputs)
        if len(rows) > FEW_ROWS or self._array_form is None:
            starts = range(0, len(rows), EVAL_ROWS)
            pieces = (torch.from_numpy(np.array(rows[start : start + EVAL_ROWS])) for start in starts)
            return self._run(self._wide, pieces, len(rows))
        body, head = self._array_form
        encoded = body(rows)
        return Outputs.trusted(head(encoded), encoded.astype(np.float32), self._last_layer)

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
    def _array_form(self) -> tuple[Step, Step] | None:
        return array_form(self.spec, self.classifier)

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
                        passes.append(self.classifier.head(rest(shared)).double().cpu().numpy())
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
    log = TrainingLog(**{**value["log"], "val_losses": tuple(value["log"]["val_losses"])})
    if device.type != "cpu":
        # It is built on the processor; walking through it for nothing is a part of what loading costs.
        classifier = classifier.to(device)
    return Network(spec, classifier.eval(), log, value["key"], device)


def _writable(array: Array) -> Array:
    """Return an array that torch takes without a warning; it is copied from in any case."""
    return array if array.flags.writeable else np.array(array)
