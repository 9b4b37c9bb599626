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
