"""The one training loop: in-memory batches, fused optimiser, one cycle to its end or early stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from volta.core.errors import VoltaError
from volta.core.seeding import derive_seed, rng
from volta.core.types import FitData, Split
from volta.networks.augment import flip_and_crop
from volta.networks.layers import seed_layers, seeded_draws
from volta.networks.objectives import Objective
from volta.networks.optimiser import Optimiser
from volta.networks.recipe import Recipe
from volta.networks.rows import InputRows, epoch_order
from volta.networks.spec import Classifier, NetworkSpec
from volta.networks.training_log import CLIMB_SHARE, TrainingLog


class TrainingError(VoltaError):
    """Training diverged."""


@dataclass(frozen=True)
class EpochReport:
    """Where training stands after an epoch."""

    epoch: int
    max_epochs: int
    val_loss: float | None = None


def train_from_scratch(
    spec: NetworkSpec,
    data: FitData,
    recipe: Recipe,
    objective: Objective,
    *,
    seed: int,
    member: int = 0,
    device: torch.device,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> tuple[Classifier, TrainingLog]:
    """Build a network with weights drawn from ``seed`` and train it; ``member`` gives another draw and other batches.

    Whatever decides a network's weights is called from here, so that its key can follow the imports of this module.
    """
    classifier = spec.build(derive_seed(seed, "weights", member))
    seed = derive_seed(seed, "batches", member)
    return classifier, train(classifier, data, recipe, objective, seed=seed, device=device, on_epoch=on_epoch)


def train(
    classifier: Classifier,
    data: FitData,
    recipe: Recipe,
    objective: Objective,
    *,
    seed: int,
    device: torch.device,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> TrainingLog:
    """Train ``classifier`` in place and leave it in evaluation mode.

    It ends with its last weights, or, where the recipe has a patience, with those of the lowest validation loss.
    ``on_epoch`` is called after each epoch, with the classifier in evaluation mode. Equal arguments give equal weights,
    bit for bit, on the same device, library versions and number of threads.
    """
    started = time.perf_counter()
    random = rng(seed, "training")
    classifier.to(device)
    with seeded_draws(derive_seed(seed, "loss")):
        loss = objective.build(classifier).to(device)
    seed_layers(classifier, random)
    seed_layers(loss, random)
    inputs = InputRows(data.train.inputs, device)
    labels = torch.from_numpy(data.train.labels).to(device)
    weights = _weights(data.train, device)
    n_batches = max(1, math.ceil(len(data.train) / recipe.batch_size))
    optimiser = Optimiser((classifier, loss), classifier.undecayed(), recipe, n_batches)
    val_inputs, val_labels = InputRows(data.val.inputs, device), torch.from_numpy(data.val.labels).to(device)
    val_weights = _weights(data.val, device)

    best = None if recipe.patience is None else _Checkpoint(classifier)
    val_losses: list[float] = []
    for epoch in range(1, recipe.max_epochs + 1):
        classifier.train()
        order = epoch_order(len(data.train), data.train.inputs.size, recipe.batch_size, random)
        for index, gathered in inputs.walk(order, recipe.batch_size):
            rows = flip_and_crop(gathered, random) if data.augment else gathered
            picked = torch.from_numpy(index)
            value = loss(classifier, rows, labels[picked], None if weights is None else weights[picked])
            value.backward()
            optimiser.step()
            classifier.after_step()
        val_loss = validation_loss(classifier, val_inputs, val_labels, val_weights)
        if not math.isfinite(val_loss):
            raise TrainingError(
                f"training diverged: validation loss {val_loss} after epoch {epoch}; scale the features or lower lr"
            )
        val_losses.append(val_loss)
        if on_epoch is not None:
            on_epoch(EpochReport(epoch, recipe.max_epochs, val_loss))
        if best is not None and recipe.patience is not None:
            best.offer(val_loss, epoch)
            if epoch - best.epoch >= recipe.patience:
                break
    if best is not None:
        best.restore()
    classifier.eval()
    climb_epochs = CLIMB_SHARE * recipe.max_epochs if recipe.schedule == "onecycle" else 0.0
    seconds = time.perf_counter() - started
    return TrainingLog(recipe.max_epochs, recipe.patience, climb_epochs, tuple(val_losses), seconds)


@torch.no_grad()
def validation_loss(classifier: Classifier, inputs: InputRows, labels: Tensor, weights: Tensor | None = None) -> float:
    """Return the (weighted) mean cross-entropy in evaluation mode; leaves the classifier in that mode."""
    classifier.eval()
    total = 0.0
    start = 0
    for batch in inputs.eval_batches():
        logits = classifier(batch)
        stop = start + len(logits)
        if weights is None:
            total += float(nn.functional.cross_entropy(logits, labels[start:stop], reduction="sum"))
        else:
            losses = nn.functional.cross_entropy(logits, labels[start:stop], reduction="none")
            total += float(losses @ weights[start:stop])
        start = stop
    return total / (len(inputs) if weights is None else float(weights.sum()))


def _weights(split: Split, device: torch.device) -> Tensor | None:
    return None if split.weights is None else torch.from_numpy(split.weights).float().to(device)


class _Checkpoint:
    """The best weights so far, copied into buffers that are allocated once."""

    def __init__(self, classifier: Classifier) -> None:
        self.val_loss = math.inf
        self.epoch = 0
        self._state = classifier.state_dict()
        self._kept = {name: value.clone() for name, value in self._state.items()}

    @torch.no_grad()
    def offer(self, val_loss: float, epoch: int) -> None:
        if val_loss < self.val_loss:
            self.val_loss, self.epoch = val_loss, epoch
            for name, value in self._state.items():
                self._kept[name].copy_(value)

    @torch.no_grad()
    def restore(self) -> None:
        for name, value in self._state.items():
            value.copy_(self._kept[name])
