"""A network cut in two at its first dropout layer: what lies before it is the same in every sampled pass."""

from __future__ import annotations

from collections.abc import Callable
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
    places = (index for index, layer in enumerate(layers) if _draws(layer))
    return next(places, len(layers))


def _draws(module: nn.Module) -> bool:
    return any(isinstance(layer, Dropout) for layer in module.modules())


def _as_it_is(values: Tensor) -> Tensor:
    return values
