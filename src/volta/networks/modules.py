"""Encoders and heads: from an input row to the penultimate vector and to logits; layers with their own randomness."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.core.scaling import row_parts
from volta.core.types import Array
from volta.networks.outputs import LastLayer

_LEVELS = 1 << 16
_LARGEST_WORD = (1 << 64) - 1
_LARGEST_SEED = 1 << 62
_DRAWING = Lock()
_SAMPLED_FROM: ContextVar[np.random.Generator | None] = ContextVar("sampled_from", default=None)


class RandomLayer(nn.Module):
    """A layer that draws from ``random``."""

    random: np.random.Generator

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)


class Dropout(RandomLayer):
    """Inverted dropout: zero each value with probability p, divide the rest by 1 − p.

    Active in training mode, and in evaluation mode within `sampled_from` (Monte Carlo inference). p is realised to
    within 2⁻¹⁷: masks compare 16 random bits with a threshold, several times cheaper than a Bernoulli draw per value.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self._threshold = round(p * _LEVELS)

    def forward(self, values: Tensor) -> Tensor:
        """Return ``values`` with dropout applied where it is active."""
        random = self.random if self.training else _SAMPLED_FROM.get()
        if self._threshold == 0 or random is None:
            return values
        draw = drawn_on_processor if values.device.type == "cpu" else drawn_on_device
        scale = _LEVELS / (_LEVELS - self._threshold)
        return values * draw(values, self._threshold, random).to(values.dtype).mul_(scale)


def drawn_on_processor(values: Tensor, threshold: int, random: np.random.Generator) -> Tensor:
    """Return 1 where 16 random bits are at least ``threshold``, in the shape of ``values``."""
    n_values = values.numel()
    words = random.integers(0, _LARGEST_WORD, size=-(-n_values // 4), dtype=np.uint64, endpoint=True)
    # As uint8, not bool: torch turns bytes into floats several times faster.
    return torch.from_numpy((words.view(np.uint16)[:n_values] >= threshold).view(np.uint8)).view(values.shape)


def drawn_on_device(values: Tensor, threshold: int, random: np.random.Generator) -> Tensor:
    """Return the same, drawn on the device of ``values``: no mask is copied there, only a seed from ``random``."""
    generator = torch.Generator(values.device).manual_seed(int(random.integers(_LARGEST_SEED)))
    return torch.randint(_LEVELS, values.shape, generator=generator, device=values.device) >= threshold


def seed_layers(module: nn.Module, random: np.random.Generator) -> None:
    """Let every layer of ``module`` that draws random numbers draw them from ``random``."""
    for layer in module.modules():
        if isinstance(layer, RandomLayer):
            layer.random = random


@contextmanager
def sampled_from(random: np.random.Generator) -> Iterator[None]:
    """Let dropout layers draw from ``random`` in evaluation mode too, in this thread alone."""
    before = _SAMPLED_FROM.set(random)
    try:
        yield
    finally:
        _SAMPLED_FROM.reset(before)


@contextmanager
def seeded_draws(seed: int) -> Iterator[None]:
    """Let torch draw from ``seed`` for as long as this lasts; its global generator is left as it was.

    Layers draw their first weights from that generator, which all threads share: one at a time has it.
    """
    with _DRAWING, torch.random.fork_rng(devices=[]):
        # torch.manual_seed keeps a stack trace for every kind of device, which takes as long as reading weights.
        torch.default_generator.manual_seed(seed)
        yield


def normalise(vectors: Tensor) -> Tensor:
    """Return rows scaled to unit length; a zero row stays zero."""
    # Not functional.normalize, which gives the same bits but expands the lengths: three more operators in ONNX graphs.
    lengths: Tensor = vectors.norm(dim=1, keepdim=True)
    return vectors / lengths.clamp(min=1e-12)


LARGEST_INPUT = 1e6
SKEWED = 0.5


@dataclass(frozen=True)
class Even:
    """Features made even: x = (r − centre) / scale, cut to ±10⁶ so that no square of it overflows.

    r = sign(h − low)·√|h − low| in the columns that ``rooted`` marks and r = h in others; one value a column each.
    """

    low: tuple[float, ...]
    rooted: tuple[bool, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Wide(Even):
    """f = [a(x), x]: linear, LayerNorm, GELU and dropout on prepared inputs, joined to these.

    Dropout of inputs is on both parts of f.
    """

    hidden: int = 1024
    dropout: float = 0.6
    input_dropout: float = 0.1

    @property
    def width(self) -> int:
        """Length of the penultimate vector."""
        return self.hidden + len(self.centre)

    def build(self, input_shape: tuple[int, ...]) -> nn.Module:
        """Return the module for feature rows."""
        return _WideModule(self)


def fit_even(rows: Array) -> Even:
    """Learn on training rows (n, d) which columns are skewed, and what all are standardised by.

    A column is rooted, from its least value on, where its skewness is above 0.5 by two standard errors √(6/n): what a
    ReLU or a count leaves is even after that, whatever the column's scale and offset. The scale is σ + a tenth of the
    columns' mean σ, so that columns that hardly vary stay small.
    """
    low = np.full(rows.shape[1], np.inf)
    total, squares, cubes = (np.zeros(rows.shape[1]) for _ in range(3))
    for part in row_parts(rows):
        wide = rows[part].astype(np.float64)
        low = np.minimum(low, wide.min(axis=0))
        total += wide.sum(axis=0)
    for part in row_parts(rows):
        centred = rows[part].astype(np.float64) - total / len(rows)
        power = centred * centred
        squares += power.sum(axis=0)
        power *= centred
        cubes += power.sum(axis=0)
    # Skewness is m₃ / m₂^1.5; written as a product, a column that does not vary has none.
    skewed = SKEWED + 2.0 * math.sqrt(6.0 / len(rows))
    rooted = cubes / len(rows) > skewed * (squares / len(rows)) ** 1.5
    centre, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for part in row_parts(rows):
        centre += _rooted(rows[part], low, rooted).sum(axis=0) / len(rows)
    for part in row_parts(rows):
        squares += ((_rooted(rows[part], low, rooted) - centre) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / len(rows))
    scale = deviation + 0.1 * deviation.mean() if deviation.any() else np.ones_like(deviation)
    return Even(*(tuple(values.tolist()) for values in (low, rooted, centre, scale)))


def _rooted(rows: Array, low: NDArray[np.float64], rooted: NDArray[np.bool_]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return np.where(rooted, np.sqrt(wide - low), wide)


@torch.inference_mode()
def prepared(even: Even, rows: Array) -> NDArray[np.float32]:
    """Return x of :class:`Even` for rows (n, d), as the network computes it."""
    prepare, found = Prepare(even), np.empty(rows.shape, dtype=np.float32)
    for part in row_parts(rows):
        found[part] = prepare(torch.from_numpy(rows[part].astype(np.float32))).numpy()
    return found


class Prepare(nn.Module):
    """From features to x of :class:`Even`."""

    low: Tensor
    rooted: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, spec: Even) -> None:
        super().__init__()
        for name in ("low", "rooted", "centre", "scale"):
            self.register_buffer(name, torch.tensor(getattr(spec, name)), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return prepared rows (n, d)."""
        above = features - self.low
        # In place from here on: this runs in every step of training.
        rows = torch.where(self.rooted, above.sign().mul_(above.abs_().sqrt_()), features)
        return rows.sub_(self.centre).div_(self.scale).clamp_(-LARGEST_INPUT, LARGEST_INPUT)


class _WideModule(nn.Module):
    def __init__(self, spec: Wide) -> None:
        super().__init__()
        self.prepare = Prepare(spec)
        self.input_dropout = Dropout(spec.input_dropout)
        self.layers = nn.Sequential(
            nn.Linear(len(spec.centre), spec.hidden), nn.LayerNorm(spec.hidden), nn.GELU(), Dropout(spec.dropout)
        )

    def forward(self, features: Tensor) -> Tensor:
        inputs = self.input_dropout(self.prepare(features))
        return torch.cat([self.layers(inputs), inputs], dim=1)


Shared: TypeAlias = Any
"""What the second part of a module needs of the first."""


@runtime_checkable
class CutAtDropout(Protocol):
    """A module that is no plain sequence of layers and knows itself where it can be cut."""

    def before_dropout(self, inputs: Tensor) -> Shared:
        """Return all that does not depend on a dropout layer."""

    def after_dropout(self, shared: Shared) -> Tensor:
        """Return the module's output from that."""


def cut(module: nn.Module) -> tuple[Callable[[Tensor], Shared], Callable[[Shared], Tensor]]:
    """Return two functions that give the module's output one after the other; the first draws no random numbers."""
    if isinstance(module, CutAtDropout):
        return module.before_dropout, module.after_dropout
    if not isinstance(module, nn.Sequential):
        return nn.Identity(), module
    index = first_dropout(module)
    ahead, behind = module[:index], module[index + 1 :]
    if index == len(module):
        return ahead, nn.Identity()
    first, rest = cut(module[index])
    return lambda inputs: first(ahead(inputs)), lambda shared: behind(rest(shared))


def first_dropout(layers: nn.Sequential) -> int:
    """Return the place of the first layer that is or holds a dropout layer; their number where none does."""
    places = (index for index, layer in enumerate(layers) if any(isinstance(part, Dropout) for part in layer.modules()))
    return next(places, len(layers))


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
AnyEncoder: TypeAlias = Backbone | EvenEncoder | Identity | Wide


def _n_features(input_shape: Shape) -> int:
    if len(input_shape) != 1:
        raise InputError(f"inputs have shape {input_shape} a row; this network needs flat feature rows (n_samples, d)")
    return input_shape[0]


class HeadModule(nn.Module):
    """A module from penultimate vectors to logits, with what the training loop asks of it."""

    def undecayed(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay must leave alone."""
        return []

    def after_step(self) -> None:
        """Restore what an optimiser step may have broken."""

    def last_layer(self) -> LastLayer | None:
        """Return the weights as arrays where logits are linear in the penultimate vector, else None."""
        return None


@dataclass(frozen=True)
class Linear:
    """A plain linear layer: logits = W h + b."""

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the linear layer."""
        return _LinearHead(width, n_classes)


class _LinearHead(HeadModule):
    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, n_classes)

    def forward(self, encoded: Tensor) -> Tensor:
        logits: Tensor = self.linear(encoded)
        return logits

    def last_layer(self) -> LastLayer:
        """Return W and b."""
        return LastLayer(*(value.detach().cpu().numpy() for value in (self.linear.weight, self.linear.bias)))


@dataclass(frozen=True)
class Prototypes:
    """VOLTA's head: z = v/|v|, p_k = p̃_k/|p̃_k|, s_k = z·p_k, logits = s/τ with τ = exp(φ).

    ``learn_temperature=False`` keeps τ at ``temperature`` during training.
    """

    temperature: float = 0.1
    learn_temperature: bool = True

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head with prototypes drawn as normalised N(0, I) vectors."""
        return PrototypeHead(width, n_classes, self)


class PrototypeHead(HeadModule):
    """The module of :class:`Prototypes`: ``prototypes`` are p̃, which ``after_step`` puts back on the unit sphere."""

    def __init__(self, width: int, n_classes: int, spec: Prototypes) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(normalise(torch.randn(n_classes, width)))
        log_temperature = torch.tensor(math.log(spec.temperature))
        self.log_temperature = nn.Parameter(log_temperature, requires_grad=spec.learn_temperature)

    @property
    def temperature(self) -> float:
        """τ as it stands."""
        return float(self.log_temperature.detach().exp())

    def similarities(self, encoded: Tensor) -> Tensor:
        """Return the cosines s_k between each row of ``encoded`` and each prototype."""
        return normalise(encoded) @ self.directions().T

    def directions(self) -> Tensor:
        """Return p_k = p̃_k/|p̃_k|: what the loss sees, so that gradients have no part along p̃_k."""
        return normalise(self.prototypes)

    def forward(self, encoded: Tensor) -> Tensor:
        """Return s/τ."""
        return self.similarities(encoded) / self.log_temperature.exp()

    def undecayed(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay must leave alone."""
        return [self.log_temperature]

    @torch.no_grad()
    def after_step(self) -> None:
        """Renormalise the prototypes; called after every optimiser step."""
        self.prototypes.copy_(normalise(self.prototypes))


@dataclass(frozen=True)
class Hyperbolic:
    """Prototypes in the Poincaré ball of curvature −1: logit_k = −d(exp₀(z), exp₀(p_k))², z and p_k of unit length.

    exp₀(v) = tanh(|v|) v/|v|; d is the geodesic distance, or, with ``mobius``, the norm of the Möbius difference
    tanh(d/2), which is what the paper prints and keeps logits in (−1, 0].
    """

    mobius: bool = False

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head with prototypes drawn from N(0, I)."""
        return _HyperbolicHead(width, n_classes, self.mobius)


class _HyperbolicHead(HeadModule):
    def __init__(self, width: int, n_classes: int, mobius: bool) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(n_classes, width))
        self._mobius = mobius

    def forward(self, encoded: Tensor) -> Tensor:
        cosines = normalise(encoded) @ normalise(self.prototypes).T
        return hyperbolic_logits(cosines, self._mobius)


def hyperbolic_logits(cosines: Tensor, mobius: bool) -> Tensor:
    """Return −d² of two points at radius r = tanh(1) whose directions have the given cosine.

    cosh d = 1 + 2|x − y|²/(1 − r²)² with |x − y|² = 2r²(1 − cos). As cosh d − 1 = 2 sinh²(d/2), d = 2 arsinh of
    q = |x − y|/(1 − r²), which is accurate near 0, and the Möbius difference's norm is tanh(d/2) = q/√(1 + q²).
    """
    radius = math.tanh(1.0)
    squared = 2.0 * radius**2 * (1.0 - cosines).clamp(min=1e-7) / (1.0 - radius**2) ** 2
    if mobius:
        return -squared / (1.0 + squared)
    return -(2.0 * torch.asinh(squared.sqrt())).square()


@dataclass(frozen=True)
class Epistemic:
    """A small MLP on the features joined to a learned embedding of an index z in {1..n_indices}.

    In training each row draws one z; in evaluation the probabilities of all z are averaged and returned as logarithms.
    """

    n_indices: int = 8
    embedding: int = 16
    hidden: int = 256

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head."""
        return _EpistemicHead(width, n_classes, self)


@dataclass(frozen=True)
class Epinet:
    """A linear head with an epinet: l(h, z) = W h + b + g(sg(h), z) + α q(sg(h), z), with an index z in {1..n_indices}.

    sg stops gradients, so that the body learns from W alone; g is a small MLP on the features joined to a learned
    embedding of z; q, the prior function, is an MLP of the same shape with weights that are drawn once, from N(0, 1 /
    fan-in), and never trained; α is ``prior_scale``. Indices are drawn and averaged over as in :class:`Epistemic`.
    """

    n_indices: int = 8
    embedding: int = 16
    hidden: int = 64
    prior_scale: float = 1.0

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head."""
        return EpinetHead(width, n_classes, self)


class _IndexedHead(HeadModule, RandomLayer, ABC):
    """A head whose logits depend on an index: one random index a row in training, all of them in evaluation."""

    def __init__(self, n_indices: int) -> None:
        super().__init__()
        self._n_indices = n_indices

    def forward(self, encoded: Tensor) -> Tensor:
        """Return logits for one random index a row (training) or log mean probabilities over all (evaluation)."""
        if self.training:
            drawn = torch.from_numpy(self.random.integers(self._n_indices, size=len(encoded)))
            return self.logits_at(encoded, drawn.to(encoded.device))
        every = torch.arange(self._n_indices, device=encoded.device)
        n_rows = encoded.shape[0]  # not len(), which an exported graph would take for a fixed number
        total = self.logits_at(encoded, every[:1].expand(n_rows)).log_softmax(dim=1)
        for index in every[1:]:
            total = torch.logaddexp(total, self.logits_at(encoded, index.expand(n_rows)).log_softmax(dim=1))
        return total - math.log(len(every))

    @abstractmethod
    def logits_at(self, encoded: Tensor, indices: Tensor) -> Tensor:
        """Return the logits of each row at its own index."""


class _EpistemicHead(_IndexedHead):
    def __init__(self, width: int, n_classes: int, spec: Epistemic) -> None:
        super().__init__(spec.n_indices)
        self.mlp = IndexedMlp(width, n_classes, spec)

    def logits_at(self, encoded: Tensor, indices: Tensor) -> Tensor:
        logits: Tensor = self.mlp(encoded, indices)
        return logits


class EpinetHead(_IndexedHead):
    """The module of :class:`Epinet`."""

    def __init__(self, width: int, n_classes: int, spec: Epinet) -> None:
        super().__init__(spec.n_indices)
        self.base = nn.Linear(width, n_classes)
        self.epinet = IndexedMlp(width, n_classes, spec)
        self.prior = IndexedMlp(width, n_classes, spec)
        for parameter in self.prior.parameters():
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
            parameter.requires_grad_(False)
        self._prior_scale = spec.prior_scale

    def logits_at(self, encoded: Tensor, indices: Tensor) -> Tensor:
        """Return the logits of each row at its own index."""
        stopped = encoded.detach()
        base: Tensor = self.base(encoded)
        added: Tensor = self.epinet(stopped, indices) + self._prior_scale * self.prior(stopped, indices)
        return base + added


class IndexedMlp(nn.Module):
    """An MLP with one hidden layer on [features, embedding of the index]; that layer is split in two."""

    def __init__(self, width: int, n_classes: int, spec: Epistemic | Epinet) -> None:
        super().__init__()
        self.index = nn.Embedding(spec.n_indices, spec.embedding)
        self.features = nn.Linear(width, spec.hidden)
        self.indices = nn.Linear(spec.embedding, spec.hidden, bias=False)
        self.logits = nn.Linear(spec.hidden, n_classes)

    def forward(self, features: Tensor, indices: Tensor) -> Tensor:
        """Return the logits of each row at its own index."""
        logits: Tensor = self.logits(torch.relu(self.features(features) + self.indices(self.index(indices))))
        return logits


Head: TypeAlias = Linear | Prototypes | Hyperbolic | Epistemic | Epinet
