"""What training did, kept for the user: loss curves, progress lines, and warnings where the end looks wrong."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

from sklearn.exceptions import ConvergenceWarning

from volta.networks.loop import EpochReport

EARLY_SHARE = 0.1
_LINES = 20


@dataclass(frozen=True)
class LossCurve:
    """The validation cross-entropy of one network after each epoch, before any temperature.

    ``max_epochs`` is the limit it trained under.
    """

    val_loss: tuple[float, ...]
    max_epochs: int

    @property
    def best_epoch(self) -> int:
        """The first epoch, counted from 1, with the lowest validation loss."""
        return self.val_loss.index(min(self.val_loss)) + 1

    @property
    def stopped_early(self) -> bool:
        """Whether training ended before its limit, which only a recipe with early stopping does."""
        return len(self.val_loss) < self.max_epochs


class HistoryRecorder:
    """Collects the epochs of every network that a fit trains; with ``verbose`` it writes them to standard error."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._curves: list[list[float]] = []
        self._limits: list[int] = []

    def __call__(self, report: EpochReport) -> None:
        """Take an epoch; a first epoch begins a new network."""
        if report.epoch == 1:
            self._curves.append([])
            self._limits.append(report.max_epochs)
        if report.val_loss is not None:
            self._curves[-1].append(report.val_loss)
        due = report.epoch % max(1, report.max_epochs // _LINES) == 0 or report.epoch in (1, report.max_epochs)
        if self._verbose and due:
            loss = "" if report.val_loss is None else f", validation loss {report.val_loss:.4f}"
            network = f"network {len(self._curves)}, " if len(self._curves) > 1 else ""
            print(f"{network}epoch {report.epoch} of {report.max_epochs}{loss}", file=sys.stderr, flush=True)

    def curves(self) -> tuple[LossCurve, ...]:
        """Return one curve for each network, in the order they were trained."""
        pairs = zip(self._curves, self._limits, strict=True)
        return tuple(LossCurve(tuple(curve), limit) for curve, limit in pairs if curve)


def warn_about(curves: tuple[LossCurve, ...], *, stops_early: bool) -> None:
    """Warn where a training that restores its best weights was best in its first tenth, or at its very limit.

    One that runs to its end by design (``stops_early`` False) keeps its last weights, and neither means anything there.
    """
    if not stops_early:
        return
    for curve in curves:
        if curve.best_epoch <= EARLY_SHARE * curve.max_epochs:
            warnings.warn(
                f"the best epoch was {curve.best_epoch} of at most {curve.max_epochs}: training was cut off before it "
                "had settled, and chance had much say in the weights; pass more rows, or protocol='fair'",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif curve.best_epoch == curve.max_epochs:
            warnings.warn(
                f"the validation loss was still falling at the last epoch allowed, {curve.max_epochs}; "
                "raise max_epochs, or leave it None",
                ConvergenceWarning,
                stacklevel=4,
            )
