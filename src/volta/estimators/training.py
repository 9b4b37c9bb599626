"""A classifier's method: made from its parameters, and trained."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from volta.core.checks import check_count
from volta.core.errors import InputError
from volta.core.types import FitData
from volta.estimators.history import ProgressLines, warn_about
from volta.methods import Method, find_method
from volta.networks.protocols import PROTOCOLS, ProtocolName
from volta.networks.recipe import Budget
from volta.networks.threads import one_thread_for
from volta.networks.trainer import Trainer, pick_device
from volta.networks.training_log import TrainingLog


def new_method(method: Any, encoder: str, protocol: str) -> Method:
    """Return an unfitted method by its name or as a copy of the one given; ``encoder`` and ``protocol`` are checked."""
    if encoder not in ("tabular", "vision"):
        raise InputError(f"encoder is {encoder!r}; pass tabular or vision")
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol is {protocol!r}; pass one of {', '.join(PROTOCOLS)}")
    if isinstance(method, Method):
        return copy.deepcopy(method)
    if not isinstance(method, str):
        raise InputError(f"method is {method!r}; pass a name or a Method, e.g. 'volta' or 'knn(k=10)'")
    return find_method(method).method


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Return the seed: a whole number is the seed itself, so that the estimator and the benchmark train alike."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@dataclass(frozen=True)
class Training:
    """How a classifier trains its method."""

    seed: int
    protocol: ProtocolName
    max_epochs: int | None
    device: str
    verbose: bool

    def fit(self, method: Method, data: FitData) -> tuple[Method, tuple[TrainingLog, ...]]:
        """Return the fitted method and how its networks were trained; warns where a training looks unfinished."""
        max_epochs = None if self.max_epochs is None else check_count(self.max_epochs, "max_epochs")
        trainer = Trainer(
            seed=self.seed,
            protocol=self.protocol,
            budget=Budget(max_epochs=max_epochs),
            device=pick_device(self.device),
            on_epoch=ProgressLines() if self.verbose else None,
        )
        with one_thread_for(data.train.inputs.size):
            fitted = method.fit(data, trainer)
        history = tuple(trainer.trainings.values())
        warn_about(history)
        return fitted, history

    def fit_without(self, method: Method, data: FitData) -> Method:
        """Return the method fitted for what it says about validation rows alone, which no row of its training is.

        Its own temperature does not matter, so nothing is said about too few rows for one.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return replace(self, verbose=False).fit(method, data)[0]
