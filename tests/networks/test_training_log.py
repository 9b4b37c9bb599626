from __future__ import annotations

import pytest

from volta.networks.recipe import TrainingLog


def log(losses, max_epochs, patience=3, climb_epochs=0.0):
    return TrainingLog(max_epochs, patience, climb_epochs, tuple(losses), 0.1)


def test_the_best_epoch_is_the_first_with_the_lowest_loss():
    found = log([3.0, 1.0, 2.0, 1.0], 4)
    assert (found.epochs, found.best_epoch, found.kept_epoch, found.val_loss) == (4, 2, 2, 1.0)
    without_stopping = log([3.0, 1.0, 2.0, 1.5], 4, patience=None)
    assert (without_stopping.best_epoch, without_stopping.kept_epoch, without_stopping.val_loss) == (2, 4, 1.5)


@pytest.mark.parametrize(
    ("found", "marks"),
    [
        (log([3.0, 2.0, 1.0, 2.0, 2.0, 2.0], 50, climb_epochs=2.0), ("stopped early",)),
        (log([3.0, 2.0, 1.0, 2.0, 2.0, 2.0], 50, climb_epochs=5.0), ("stopped early", "stopped in warm-up")),
        (log([3.0, 2.0, 1.0], 3), ("still improving",)),
        (log([3.0, 1.0, 2.0], 3), ()),
        (log([3.0, 2.0, 1.0], 3, patience=None, climb_epochs=3.0), ()),
    ],
)
def test_marks_say_how_a_training_that_may_stop_early_ended(found, marks):
    assert found.marks == marks
