"""How a network is trained, and what a training did, as data. Needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from volta.core.errors import InputError

ProtocolName: TypeAlias = Literal["fair", "paper"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)


@dataclass(frozen=True)
class Recipe:
    """Optimiser, learning-rate schedule, batch size, epochs and early stopping.

    ``patience`` is the number of epochs without a lower validation cross-entropy after which training stops and the
    best checkpoint is restored; None trains to the end and keeps the last weights. ``min_steps``
    is the least number of optimiser steps: on few rows, where ``max_epochs`` epochs are fewer batches than that,
    training has more epochs (an epoch of fewer rows than a batch is a single step).
    """

    optimiser: Literal["adam", "adamw", "sgd"]
    lr: float
    weight_decay: float
    schedule: Literal["cosine", "onecycle", "constant"]
    batch_size: int
    max_epochs: int
    patience: int | None
    min_steps: int = 0

    def for_rows(self, n_rows: int) -> Recipe:
        """Return the recipe with as many epochs as ``n_rows`` training rows need to reach ``min_steps``."""
        n_batches = max(1, math.ceil(n_rows / self.batch_size))
        return replace(self, max_epochs=max(self.max_epochs, math.ceil(self.min_steps / n_batches)))


@dataclass(frozen=True)
class Budget:
    """Limits a user puts on training and evaluation; a run with any is a reduced run.

    None leaves the recipe's own epochs and batch size, or all rows. ``limit_test`` holds for each set that is
    predicted: test, OOD and shifted.
    """

    max_epochs: int | None = None
    limit_train: int | None = None
    batch_size: int | None = None
    limit_test: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; pass a whole number of at least 1")

    def apply(self, recipe: Recipe, n_rows: int) -> Recipe:
        """Return ``recipe`` for ``n_rows`` training rows within this budget."""
        recipe = replace(recipe, batch_size=self.batch_size or recipe.batch_size).for_rows(n_rows)
        epochs = recipe.max_epochs if self.max_epochs is None else min(recipe.max_epochs, self.max_epochs)
        return replace(recipe, max_epochs=epochs)


WARM_UP_SHARE = 0.1
"""The share of OneCycle's steps over which the learning rate rises."""

TrainingMark: TypeAlias = Literal["stopped early", "still improving", "stopped in warm-up"]


@dataclass(frozen=True)
class TrainingLog:
    """A training, epoch by epoch.

    ``max_epochs`` is its limit, ``patience`` the number of epochs without a lower validation loss after which it would
    have stopped and restored the best weights; None where it went to the end and kept the last ones. ``climb_epochs``
    is how long the warm-up of the learning rate took. ``val_losses`` holds the validation cross-entropy after each
    epoch, before any temperature.
    """

    max_epochs: int
    patience: int | None
    climb_epochs: float
    val_losses: tuple[float, ...]
    seconds: float

    @property
    def epochs(self) -> int:
        """How many epochs there were."""
        return len(self.val_losses)

    @property
    def best_epoch(self) -> int:
        """The first epoch, counted from 1, with the lowest validation loss."""
        return self.val_losses.index(min(self.val_losses)) + 1

    @property
    def kept_epoch(self) -> int:
        """The epoch whose weights were kept: the best where training may stop early, else the last."""
        return self.epochs if self.patience is None else self.best_epoch

    @property
    def val_loss(self) -> float:
        """The validation loss of the weights that were kept."""
        return self.val_losses[self.kept_epoch - 1]

    @property
    def marks(self) -> tuple[TrainingMark, ...]:
        """What a reader should know of how a training that may stop early ended; none of one that may not.

        ``stopped early``: before its limit; ``still improving``: the last epoch it was allowed was its best;
        ``stopped in warm-up``: its best epoch came before the learning rate had reached its peak, so that the weights
        were never annealed and chance had much say in them.
        """
        if self.patience is None:
            return ()
        holds: dict[TrainingMark, bool] = {
            "stopped early": self.epochs < self.max_epochs,
            "still improving": self.best_epoch == self.max_epochs,
            "stopped in warm-up": self.best_epoch <= self.climb_epochs,
        }
        return tuple(mark for mark, true in holds.items() if true)
