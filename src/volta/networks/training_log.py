"""What a training did, as data: how long it went, where it was best, and how it ended. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

CLIMB_SHARE = 0.1
"""The share of OneCycle's steps over which the learning rate climbs."""

TrainingMark: TypeAlias = Literal["stopped early", "still improving", "stopped in the climb"]


@dataclass(frozen=True)
class TrainingLog:
    """A training, epoch by epoch.

    ``max_epochs`` is its limit, ``patience`` the number of epochs without a lower validation loss after which it would
    have stopped and restored the best weights; None where it went to the end and kept the last ones. ``climb_epochs``
    is how long the learning rate climbed. ``val_losses`` holds the validation cross-entropy after each epoch, before
    any temperature.
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
        ``stopped in the climb``: its best epoch came before the learning rate had reached its peak, so that the weights
        were never annealed and chance had much say in them.
        """
        if self.patience is None:
            return ()
        holds: dict[TrainingMark, bool] = {
            "stopped early": self.epochs < self.max_epochs,
            "still improving": self.best_epoch == self.max_epochs,
            "stopped in the climb": self.best_epoch <= self.climb_epochs,
        }
        return tuple(mark for mark, true in holds.items() if true)
