"""Layers whose randomness comes from a generator they are given, not from global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn

_LEVELS = 1 << 16
_LARGEST_WORD = (1 << 64) - 1
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
        n_values = values.numel()
        words = random.integers(0, _LARGEST_WORD, size=-(-n_values // 4), dtype=np.uint64, endpoint=True)
        # As uint8, not bool: torch turns bytes into floats several times faster.
        keep = torch.from_numpy((words.view(np.uint16)[:n_values] >= self._threshold).view(np.uint8))
        scale = _LEVELS / (_LEVELS - self._threshold)
        return values * keep.view(values.shape).to(device=values.device, dtype=values.dtype).mul_(scale)


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
