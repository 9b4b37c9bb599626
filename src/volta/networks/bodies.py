"""Bodies: from an input row to the penultimate vector. Each is a frozen description that builds its module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.networks.layers import Dropout
from volta.networks.sampling import first_dropout
from volta.networks.wide import Even, Prepare, Wide

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Mlp:
    """Linear layers of the given sizes, each with ReLU and dropout (the paper's tabular network)."""

    hidden: tuple[int, ...] = (256, 128, 64)
    dropout: float = 0.2

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return self.hidden[-1]

    def build(self, input_shape: Shape) -> nn.Module:
        """Return the module for feature rows."""
        layers: list[nn.Module] = []
        size = _n_features(input_shape)
        for wider in self.hidden:
            layers += [nn.Linear(size, wider), nn.ReLU(), Dropout(self.dropout)]
            size = wider
        return nn.Sequential(*layers)


@dataclass(frozen=True)
class Encoder:
    """VOLTA's encoder g: linear, LayerNorm, GELU, dropout for each hidden size; then an optional linear projection and
    an optional linear residual from the input. The L2 normalisation belongs to the head that needs it.
    """

    hidden: tuple[int, ...] = (512, 256)
    dropout: float = 0.1
    projection: int | None = None
    residual: bool = True

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return self.projection or self.hidden[-1]

    def build(self, input_shape: Shape) -> nn.Module:
        """Return the module for feature rows."""
        return _EncoderModule(self, _n_features(input_shape))


class _EncoderModule(nn.Module):
    def __init__(self, spec: Encoder, n_features: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        size = n_features
        for wider in spec.hidden:
            layers += [nn.Linear(size, wider), nn.LayerNorm(wider), nn.GELU(), Dropout(spec.dropout)]
            size = wider
        if spec.projection is not None:
            layers.append(nn.Linear(size, spec.projection))
        self.layers = nn.Sequential(*layers)
        self.residual = nn.Linear(n_features, spec.width) if spec.residual else None

    def forward(self, inputs: Tensor) -> Tensor:
        encoded: Tensor = self.layers(inputs)
        return encoded if self.residual is None else encoded + self.residual(inputs)

    def before_dropout(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what the layers give up to the first dropout, and the residual."""
        residual = None if self.residual is None else self.residual(inputs)
        return self.layers[: first_dropout(self.layers)](inputs), residual

    def after_dropout(self, shared: tuple[Tensor, Tensor | None]) -> Tensor:
        """Return the encoding from that."""
        hidden, residual = shared
        encoded: Tensor = self.layers[first_dropout(self.layers) :](hidden)
        return encoded if residual is None else encoded + residual


@dataclass(frozen=True)
class EvenEncoder(Even):
    """VOLTA's encoder on prepared inputs x."""

    hidden: tuple[int, ...]
    dropout: float
    projection: int | None
    residual: bool

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return self._encoder.width

    def build(self, input_shape: Shape) -> nn.Module:
        """Return the module for feature rows."""
        return nn.Sequential(Prepare(self), self._encoder.build(input_shape))

    @property
    def _encoder(self) -> Encoder:
        return Encoder(self.hidden, self.dropout, self.projection, self.residual)


@dataclass(frozen=True)
class Cnn:
    """The paper's pixel network: two blocks of two 3×3 convolutions, then a 256-wide linear layer.

    Pixels in [0, 1] are shifted by ``mean`` and scaled by ``std`` per channel first.
    """

    dropout: float = 0.0
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return 256

    def build(self, input_shape: Shape) -> nn.Module:
        """Return the module for (channels, height, width) rows whose sides are divisible by 4."""
        if len(input_shape) != 3 or input_shape[1] % 4 or input_shape[2] % 4:
            raise InputError(
                f"inputs have shape {input_shape} a row; the CNN needs (3, h, w) with h and w divisible by 4"
            )
        channels, height, width = input_shape
        layers: list[nn.Module] = [_Standardise(self.mean, self.std)]
        size = channels
        for wider in (64, 128):
            for before in (size, wider):
                layers += [nn.Conv2d(before, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
            layers += [nn.MaxPool2d(2), Dropout(self.dropout)]
            size = wider
        flat = size * (height // 4) * (width // 4)
        layers += [nn.Flatten(), nn.Linear(flat, self.width), nn.ReLU(), Dropout(self.dropout)]
        return nn.Sequential(*layers)


class _Standardise(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return ((pixels - self.mean) / self.std).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class Identity:
    """No body: the head works on the features themselves (a linear probe)."""

    width: int

    def build(self, input_shape: Shape) -> nn.Module:
        """Return the module that gives its input back."""
        _n_features(input_shape)
        return nn.Identity()


Backbone: TypeAlias = Mlp | Encoder | Cnn
Body: TypeAlias = Backbone | EvenEncoder | Identity | Wide


def _n_features(input_shape: Shape) -> int:
    if len(input_shape) != 1:
        raise InputError(f"inputs have shape {input_shape} a row; this network needs flat feature rows (n_samples, d)")
    return input_shape[0]
