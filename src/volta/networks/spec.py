"""A network as data: what is needed to build it again, in this process or from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.networks.modules import (
    AnyEncoder,
    Cnn,
    Encoder,
    Epinet,
    Epistemic,
    EvenEncoder,
    Head,
    HeadModule,
    Hyperbolic,
    Identity,
    Linear,
    Mlp,
    Prototypes,
    Shape,
    Wide,
    seeded_draws,
)

_PARTS: dict[str, type[Any]] = {
    part.__name__: part
    for part in (Cnn, Encoder, EvenEncoder, Identity, Mlp, Wide, Epinet, Epistemic, Hyperbolic, Linear, Prototypes)
}

_FLATTENED = 8
"""A convolutional body flattens up to this many values for each value of its input."""
_HARMLESS_VALUES = 1 << 26
_MOST_LAYERS = 1000
"""Layers of one unit take little room in a file, and each half a millisecond and 10 kB to make."""


class Classifier(nn.Module):
    """A body and a head: ``body`` gives the penultimate vector, ``head`` the logits."""

    def __init__(self, body: nn.Module, head: HeadModule) -> None:
        super().__init__()
        self.body = body
        self.head: HeadModule = head

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.head(self.body(inputs))
        return logits


@dataclass(frozen=True)
class NetworkSpec:
    """Body, head and sizes of a network."""

    body: AnyEncoder
    head: Head
    input_shape: Shape
    n_classes: int

    def build(self, seed: int) -> Classifier:
        """Return the module with weights drawn from ``seed``; torch's global generator is left as it was."""
        with seeded_draws(seed):
            return Classifier(self.body.build(self.input_shape), self.head.build(self.body.width, self.n_classes))

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse weights of other shapes than this network has, before memory is taken for a large one."""
        layers = getattr(self.body, "hidden", ())
        if isinstance(layers, tuple) and len(layers) > _MOST_LAYERS:
            raise InputError(f"the network has {len(layers):,} layers; {_MOST_LAYERS:,} is the most")
        sizes = [
            math.prod(self.input_shape) * _FLATTENED,
            self.n_classes,
            *_integers(asdict(self.body), asdict(self.head)),
        ]
        if math.prod(sorted(sizes)[-2:]) <= _HARMLESS_VALUES:
            # Such a network costs little, and torch compares the shapes.
            return
        with torch.device("meta"):
            wanted = {name: tuple(value.shape) for name, value in self.build(seed=0).state_dict().items()}
        if wanted != dict(shapes):
            other = next(name for name in {**wanted, **shapes} if wanted.get(name) != shapes.get(name))
            raise InputError(f"{other} has shape {shapes.get(other)}, the network's has {wanted.get(other)}")

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value from which :func:`spec_from_json` makes an equal spec."""
        return {
            "body": part_to_json(self.body),
            "head": part_to_json(self.head),
            "input_shape": list(self.input_shape),
            "n_classes": self.n_classes,
        }


def part_to_json(part: Any) -> dict[str, Any]:
    """Return a frozen dataclass as JSON with its class name."""
    return {"type": type(part).__name__, **asdict(part)}


def _integers(*values: Any) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, dict):
            found += _integers(*value.values())
        elif isinstance(value, list | tuple):
            found += _integers(*value)
        elif isinstance(value, int):
            found.append(value)
    return found


def spec_from_json(value: dict[str, Any]) -> NetworkSpec:
    """Return the spec that :meth:`NetworkSpec.to_json` described.

    A function, and not a method: it names every layer there is, none of which a network's own code depends on.
    """
    body, head = _part_from_json(value["body"]), _part_from_json(value["head"])
    return NetworkSpec(body, head, tuple(value["input_shape"]), int(value["n_classes"]))


def _part_from_json(value: dict[str, Any]) -> Any:
    return msgspec.convert(value, _PARTS[value["type"]])
