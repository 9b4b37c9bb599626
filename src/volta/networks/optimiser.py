"""Adam, AdamW and SGD with their schedules, by the fused kernels that ``torch.optim`` calls too, to the last bit.

``torch.optim`` imports PyTorch's compiler when the first optimiser is made, which takes longer than many a fit, and
sorts its tensors anew at each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from volta.networks.recipe import Recipe
from volta.networks.training_log import CLIMB_SHARE

MOMENTUM, SQUARES, EPS = 0.9, 0.999, 1e-8
CYCLED_MOMENTUM = (0.95, 0.85)
"""Momentum at the ends of a cycle and at its top: it falls as the learning rate climbs."""
START_DIVISOR, END_DIVISOR = 25.0, 1e4
"""A cycle starts at its highest learning rate over the first, and ends at that over the second."""

Pace = Callable[[int], tuple[float, float]]
"""Step → learning rate and momentum."""


class Optimiser:
    """Steps the parameters of some modules; those in ``undecayed`` without weight decay.

    A parameter without a gradient is left as it is, and a step does not count for it.
    """

    def __init__(self, modules: Sequence[nn.Module], undecayed: Sequence[Tensor], recipe: Recipe, n_batches: int):
        spared = {id(parameter) for parameter in undecayed}
        self.parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
        decayed = [p for p in self.parameters if id(p) not in spared]
        rest = [p for p in self.parameters if id(p) in spared]
        make = _Momentum if recipe.optimiser == "sgd" else _Moments
        groups = ((decayed, recipe.weight_decay), (rest, 0.0))
        self._groups = [make(params, decay, recipe.optimiser) for params, decay in groups if params]
        self._pace = pace(recipe, n_batches)
        self._n_steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters along their gradients, and forget those."""
        lr, momentum = self._pace(self._n_steps)
        for group in self._groups:
            group.step(lr, momentum)
        for parameter in self.parameters:
            parameter.grad = None
        self._n_steps += 1


class _Moments:
    """Adam and AdamW: the running means of gradients and of their squares."""

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float, name: str) -> None:
        self._parameters, self._weight_decay = parameters, weight_decay
        self._kernel = torch._fused_adamw_ if name == "adamw" else torch._fused_adam_
        self._means = [torch.zeros_like(parameter) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in parameters]
        self._steps = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(self, lr: float, momentum: float) -> None:
        moved, gradients = _with_gradients(self._parameters)
        state = [[of[place] for place in moved] for of in (self._means, self._squares, self._steps)]
        torch._foreach_add_(state[2], 1)
        self._kernel(
            [self._parameters[place] for place in moved], gradients, state[0], state[1], [], state[2],
            lr=lr, beta1=momentum, beta2=SQUARES, weight_decay=self._weight_decay, eps=EPS,
            amsgrad=False, maximize=False,
        )  # fmt: skip


class _Momentum:
    """SGD with momentum."""

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float, name: str) -> None:
        self._parameters, self._weight_decay = parameters, weight_decay
        self._buffers: list[Tensor] = []

    def step(self, lr: float, momentum: float) -> None:
        moved, gradients = _with_gradients(self._parameters)
        first = not self._buffers
        if first:
            self._buffers = [torch.zeros_like(parameter) for parameter in self._parameters]
        torch._fused_sgd_(
            [self._parameters[place] for place in moved], gradients, [self._buffers[place] for place in moved],
            weight_decay=self._weight_decay, momentum=momentum, lr=lr, dampening=0.0, nesterov=False, maximize=False,
            is_first_step=first,
        )  # fmt: skip


def _with_gradients(parameters: Sequence[Tensor]) -> tuple[list[int], list[Tensor]]:
    """Return the places of the parameters that have a gradient, and the gradients."""
    found = [(place, one.grad) for place, one in enumerate(parameters) if one.grad is not None]
    return [place for place, _ in found], [gradient for _, gradient in found]


def pace(recipe: Recipe, n_batches: int) -> Pace:
    """Return the schedule of a training of ``n_batches`` an epoch.

    ``onecycle`` is ``OneCycleLR``'s cosine climb and fall with its momentum; ``cosine`` falls once an epoch, as in the
    paper's code.
    """
    if recipe.schedule == "onecycle":
        return _one_cycle(recipe.lr, n_batches * recipe.max_epochs)
    if recipe.schedule == "cosine":
        return lambda step: (
            recipe.lr * (0.5 * (1.0 + math.cos(math.pi * (step // n_batches) / recipe.max_epochs))),
            MOMENTUM,
        )
    return lambda step: (recipe.lr, MOMENTUM)


def _one_cycle(highest: float, total: int) -> Pace:
    # The climb must not end at the very first step, where its length would be 0.
    top = max(CLIMB_SHARE, 1.5 / (total + 1)) * (total + 1) - 1
    start = highest / START_DIVISOR
    high, low = CYCLED_MOMENTUM

    def at(step: int) -> tuple[float, float]:
        if step <= top:
            share = step / top
            return _cosine(start, highest, share), _cosine(high, low, share)
        share = (step - top) / (total - top)
        return _cosine(highest, start / END_DIVISOR, share), _cosine(low, high, share)

    return at


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
