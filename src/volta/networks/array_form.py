"""A network on a few rows in NumPy: starting torch's operators takes longer than their work on so few."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from torch import nn

from volta.networks.bodies import Encoder, Identity, Mlp
from volta.networks.heads import Linear, PrototypeHead, Prototypes
from volta.networks.layers import Dropout
from volta.networks.spec import Classifier, NetworkSpec

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
        return _in_turn([_LAYERS[type(layer)](layer) for layer in module if not isinstance(layer, Dropout)])
    if not isinstance(spec.body, Encoder):
        return None
    encode = _in_turn([_LAYERS[type(layer)](layer) for layer in module.layers if not isinstance(layer, Dropout)])
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


def _layer_norm(layer: nn.LayerNorm) -> Step:
    weight, bias, eps, width = _array(layer.weight), _array(layer.bias), layer.eps, layer.normalized_shape[0]

    def apply(rows: Floats) -> Floats:
        rows = rows - np.add.reduce(rows, axis=1, keepdims=True) / width
        variance = np.add.reduce(rows * rows, axis=1, keepdims=True) / width
        rows /= np.sqrt(variance + eps)
        rows *= weight
        rows += bias
        return rows

    return apply


def _gelu(_: nn.GELU) -> Step:
    def apply(rows: Floats) -> Floats:
        share = erf(rows * math.sqrt(0.5))
        share += 1.0
        share *= 0.5
        share *= rows
        return np.asarray(share)

    return apply


def _relu(_: nn.ReLU) -> Step:
    return lambda rows: np.maximum(rows, 0.0)


def _array(values: Any) -> Floats:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


_LAYERS: dict[type[nn.Module], Callable[[Any], Step]] = {
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
    nn.GELU: _gelu,
    nn.ReLU: _relu,
}
