"""What a user hears of training: progress lines, and warnings where the end looks wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from sklearn.exceptions import ConvergenceWarning

from volta.core.user_warning import warn_user
from volta.networks.loop import EpochReport
from volta.networks.training_log import TrainingLog

EARLY_SHARE = 0.1
_LINES = 5


class ProgressLines:
    """Writes the epochs of every network that a fit trains to standard error, some five lines a network."""

    def __init__(self) -> None:
        self._n_networks = 0

    def __call__(self, report: EpochReport) -> None:
        """Take an epoch; a first epoch begins a new network."""
        self._n_networks += report.epoch == 1
        if report.epoch % max(1, report.max_epochs // _LINES) and report.epoch not in (1, report.max_epochs):
            return
        network = f"network {self._n_networks}, " if self._n_networks > 1 else ""
        loss = "" if report.val_loss is None else f", validation loss {report.val_loss:.4f}"
        print(f"{network}epoch {report.epoch} of {report.max_epochs}{loss}", file=sys.stderr, flush=True)


def warn_about(logs: Iterable[TrainingLog]) -> None:
    """Warn where a training that restores its best weights was best in its first tenth, or at its very limit.

    One without early stopping keeps its last weights by design, and neither means anything there.
    """
    for log in logs:
        if log.patience is None:
            continue
        if log.best_epoch <= EARLY_SHARE * log.max_epochs:
            warn_user(
                f"the best epoch was {log.best_epoch} of at most {log.max_epochs}: training was cut off before it had "
                "settled, and chance had much say in the weights; pass more rows, or protocol='fair'",
                ConvergenceWarning,
            )
        elif "still improving" in log.marks:
            warn_user(
                f"the validation loss was still falling at the last epoch allowed, {log.max_epochs}; "
                "raise max_epochs, or leave it None",
                ConvergenceWarning,
            )
