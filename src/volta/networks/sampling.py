"""A network cut in two at its first dropout layer: what lies before it is the same in every sampled pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor, nn

from volta.networks.layers import Dropout

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
        return _as_it_is, module
    index = first_dropout(module)
    ahead, behind = module[:index], module[index + 1 :]
    if index == len(module):
        return ahead, _as_it_is
    first, rest = cut(module[index])
    return lambda inputs: first(ahead(inputs)), lambda shared: behind(rest(shared))


def first_dropout(layers: nn.Sequential) -> int:
    """Return the place of the first layer that is or holds a dropout layer; their number where none does."""
    places = (index for index, layer in enumerate(layers) if any(_dropout_layers(layer)))
    return next(places, len(layers))


@contextmanager
def sampling(module: nn.Module) -> Iterator[None]:
    """Let the dropout layers of ``module`` draw in evaluation mode too."""
    layers = list(_dropout_layers(module))
    try:
        for layer in layers:
            layer.sampling = True
        yield
    finally:
        for layer in layers:
            layer.sampling = False


def _dropout_layers(module: nn.Module) -> Iterator[Dropout]:
    return (layer for layer in module.modules() if isinstance(layer, Dropout))


def _as_it_is(values: Tensor) -> Tensor:
    return values
