"""The training loop: optimiser, schedule, batches, augmentation, early stopping."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.errors import InputError, VoltaError
from volta.core.files import file_position, row_chunks
from volta.core.processes import gpu_bytes, rows_in_memory
from volta.core.seeding import derive_seed, rng
from volta.core.types import Array, FitData, Split
from volta.networks.modules import seed_layers, seeded_draws
from volta.networks.objectives import Objective
from volta.networks.recipe import WARM_UP_SHARE, Recipe, TrainingLog
from volta.networks.spec import Classifier, NetworkSpec

_SINGLE = Lock()
_FOUND: list[int] = []
"""The numbers of threads that those who compute on one thread now found; the last to leave restores the first."""


@contextmanager
def one_thread_for(n_values: int, limit: int = 1 << 20) -> Iterator[None]:
    """Compute on one thread for as long as this lasts, where there are at most ``limit`` values to train on.

    The batches of such data are too small to share. Threads that do so gain little on cores of their own, and where
    other processes want the cores too they wait for one another many times longer than they compute.
    """
    if n_values > limit:
        yield
        return
    with _SINGLE:
        _FOUND.append(torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _SINGLE:
            n_threads = _FOUND.pop()
            torch.set_num_threads(1 if _FOUND else n_threads)


IN_MEMORY_VALUES = 1 << 28
"""Up to this many values (1 GiB as float32) are read into memory and shuffled freely; more are shuffled in blocks."""

BLOCK_ROWS = 16
WINDOW_BATCHES = 64
EVAL_ROWS = 4096
EVAL_IMAGES = 64
IMAGE_BYTES_PER_PIXEL = 4 * 64 * 4
"""What an image takes on a device while the pixel network evaluates it: four arrays of 64 float32 channels."""


def epoch_order(n_rows: int, n_values: int, batch_size: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the order in which an epoch sees the rows.

    Up to ``IN_MEMORY_VALUES`` it is a uniform permutation. Beyond, blocks of 16 neighbouring rows are permuted, and
    then the rows within each window of 64 batches: a window mixes some 2,000 places of the file, yet is read in runs.
    It depends on the sizes alone, so that an array in memory and its memory map train alike.
    """
    if n_values <= IN_MEMORY_VALUES:
        return random.permutation(n_rows)
    blocks = random.permutation(-(-n_rows // BLOCK_ROWS))
    order: NDArray[np.int64] = (blocks[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).reshape(-1)
    order = order[order < n_rows]
    window = WINDOW_BATCHES * batch_size
    for start in range(0, n_rows, window):
        random.shuffle(order[start : start + window])
    return order


class InputRows:
    """A network's input rows, which can be walked in any order, as float32 on ``device``.

    uint8 images (n, channels, h, w) are scaled to [0, 1]; uint8 features are taken as they are. A memory map of more
    than ``IN_MEMORY_VALUES`` stays on disk.
    """

    def __init__(self, inputs: Array, device: torch.device) -> None:
        self._device = device
        self._inputs = inputs
        self._mapped = isinstance(inputs, np.memmap) and inputs.size > IN_MEMORY_VALUES
        if not self._mapped:
            self._tensor = _to_float(torch.from_numpy(_writable(inputs))).to(device)

    def __len__(self) -> int:
        return len(self._inputs)

    def walk(self, order: NDArray[np.int64], batch_size: int) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Give (index, rows) batch by batch in ``order``."""
        if not self._mapped:
            for start in range(0, len(order), batch_size):
                index = order[start : start + batch_size]
                yield index, self._tensor.index_select(0, torch.from_numpy(index).to(self._device))
            return
        window = WINDOW_BATCHES * batch_size
        for first in range(0, len(order), window):
            wanted = order[first : first + window]
            ranked = np.sort(wanted)
            held = _read(self._inputs, ranked)
            for start in range(0, len(wanted), batch_size):
                index = wanted[start : start + batch_size]
                rows = held[np.searchsorted(ranked, index)]
                yield index, _to_float(torch.from_numpy(rows)).to(self._device)

    def eval_batches(self) -> Iterator[Tensor]:
        """Walk all rows in file order, as many at a time as a network is best evaluated on."""
        return self.batches(eval_rows(self._inputs.shape[1:], self._device, gpu_bytes(self._device)))

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """Walk all rows in file order."""
        if not self._mapped:
            for start in range(0, len(self), batch_size):
                yield self._tensor[start : start + batch_size]
            return
        for piece in row_chunks(self._inputs, batch_size):
            yield _to_float(torch.from_numpy(np.array(piece))).to(self._device)


def eval_rows(shape: tuple[int, ...], device: torch.device, memory: int | None) -> int:
    """Return how many rows of ``shape`` are evaluated at a time.

    Images go through a processor in small batches, so that their activations stay in its cache. Elsewhere the device's
    ``memory`` decides: all of it, not what is free, since other batches give other last digits.
    """
    if len(shape) < 2:
        return EVAL_ROWS
    if device.type == "cpu":
        return EVAL_IMAGES
    return rows_in_memory(IMAGE_BYTES_PER_PIXEL * math.prod(shape[1:]), memory, EVAL_ROWS)


def _read(inputs: Array, ranked: NDArray[np.int64]) -> Array:
    """Return the rows at ascending indices, each run of neighbours in one read past the memory map.

    Reading through the map would bring in pages around each row that nobody asked for, and keep them resident.
    """
    place = file_position(inputs)
    if place is None or not hasattr(os, "preadv"):
        return np.array(inputs[ranked])
    name, begins = place
    rows = np.empty((len(ranked), *inputs.shape[1:]), dtype=inputs.dtype)
    row_bytes = rows[:1].nbytes
    edges = [0, *(np.flatnonzero(np.diff(ranked) != 1) + 1), len(ranked)]
    descriptor = os.open(name, os.O_RDONLY)
    try:
        for start, stop in pairwise(edges):
            position = begins + int(ranked[start]) * row_bytes
            view = rows[start:stop].data.cast("B")
            while len(view):
                n_read = os.preadv(descriptor, [view], position)
                if n_read == 0:
                    raise OSError(f"{name} ended before row {ranked[stop - 1]}; it was cut short while being read")
                view, position = view[n_read:], position + n_read
    finally:
        os.close(descriptor)
    return rows


def _writable(inputs: Array) -> Array:
    inputs = np.ascontiguousarray(inputs, dtype=inputs.dtype.newbyteorder("="))
    return inputs if inputs.flags.writeable else inputs.copy()


def _to_float(rows: Tensor) -> Tensor:
    return rows.float().div_(255.0) if rows.dtype == torch.uint8 and rows.ndim == 4 else rows.float()


PADDING = 4


def flip_and_crop(pixels: Tensor, random: np.random.Generator) -> Tensor:
    """Return each image flipped left to right with probability ½, padded by 4 zeros and cropped at random to its size.

    ``pixels`` is (n, channels, h, w); every image draws its own flip and offset. One gather moves all pixels.
    """
    n_rows, _, height, width = pixels.shape
    offsets = torch.from_numpy(random.integers(0, 2 * PADDING + 1, size=(2, n_rows, 1)))
    flipped = torch.from_numpy(random.random((n_rows, 1)) < 0.5)
    rows = torch.arange(height) + offsets[0]
    columns = torch.arange(width)
    columns = torch.where(flipped, width - 1 - columns, columns) + offsets[1]
    padded = torch.nn.functional.pad(pixels, (PADDING,) * 4).permute(0, 2, 3, 1)
    device = pixels.device
    images = torch.arange(n_rows, device=device)[:, None, None]
    cropped = padded[images, rows.to(device)[:, :, None], columns.to(device)[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


MOMENTUM = 0.9


def make_optimiser(
    modules: Sequence[nn.Module], undecayed: Sequence[Tensor], recipe: Recipe, n_batches: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Return the recipe's optimiser and its schedule, to be stepped once a batch; ``undecayed`` have no weight decay.

    ``onecycle`` rises over ``WARM_UP_SHARE`` of the steps; ``cosine`` falls once an epoch: the paper does not say
    how often.
    The first optimiser of a process imports PyTorch's compiler: 1.7 s of processor time at 2.5 GHz. So it is made by
    those who train alone: nothing that only predicts pays for it.
    """
    spared = {id(parameter) for parameter in undecayed}
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if id(p) not in spared], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if id(p) in spared], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimiser: torch.optim.Optimizer
    if recipe.optimiser == "sgd":
        optimiser = torch.optim.SGD(groups, lr=recipe.lr, momentum=MOMENTUM, fused=True)
    else:
        kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
        optimiser = kind(groups, lr=recipe.lr, fused=True)
    schedules, total = torch.optim.lr_scheduler, n_batches * recipe.max_epochs + 1
    if recipe.schedule == "onecycle":
        # A rise that ended at the very first step would have length 0.
        share = max(WARM_UP_SHARE, 1.5 / total)
        return optimiser, schedules.OneCycleLR(optimiser, recipe.lr, total_steps=total, pct_start=share)
    if recipe.schedule == "cosine":
        return optimiser, schedules.LambdaLR(
            optimiser, lambda step: 0.5 * (1.0 + math.cos(math.pi * (step // n_batches) / recipe.max_epochs))
        )
    return optimiser, schedules.LambdaLR(optimiser, lambda step: 1.0)


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
    amp: bool = False,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> tuple[Classifier, TrainingLog]:
    """Build a network with weights drawn from ``seed`` and train it; ``member`` gives another draw and other batches.

    Whatever decides a network's weights is called from here, so that its key can follow the imports of this module.
    """
    classifier = spec.build(derive_seed(seed, "weights", member))
    seed = derive_seed(seed, "batches", member)
    log = train(classifier, data, recipe, objective, seed=seed, device=device, amp=amp, on_epoch=on_epoch)
    return classifier, log


def amp_type(device: torch.device) -> torch.dtype:
    """Return the half-precision type that a device trains in: bfloat16, or float16 on GPUs that lack it (a T4)."""
    if device.type == "mps":
        raise InputError(
            "amp is on and device is 'mps': gradients in float16 must be scaled, which PyTorch does in float64 on the "
            "way, and MPS has none; leave out --amp or pass --device cpu"
        )
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


def train(
    classifier: Classifier,
    data: FitData,
    recipe: Recipe,
    objective: Objective,
    *,
    seed: int,
    device: torch.device,
    amp: bool = False,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> TrainingLog:
    """Train ``classifier`` in place and leave it in evaluation mode.

    It ends with its last weights, or, where the recipe has a patience, with those of the lowest validation loss.
    ``on_epoch`` is called after each epoch, with the classifier in evaluation mode. ``amp``: products of the loss are
    computed in half precision (automatic mixed precision); weights and evaluation stay in float32. Equal arguments give
    equal weights, bit for bit, on a processor with the same library versions and number of threads; on a GPU only
    within ``torch.use_deterministic_algorithms``.
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
    optimiser, schedule = make_optimiser((classifier, loss), classifier.head.undecayed(), recipe, n_batches)
    val_inputs, val_labels = InputRows(data.val.inputs, device), torch.from_numpy(data.val.labels).to(device)
    val_weights = _weights(data.val, device)
    half = amp_type(device) if amp else None
    scaler = torch.amp.GradScaler(device.type, enabled=half == torch.float16)

    best: dict[str, Tensor] = {}
    best_epoch = 0
    val_losses: list[float] = []
    for epoch in range(1, recipe.max_epochs + 1):
        classifier.train()
        order = epoch_order(len(data.train), data.train.inputs.size, recipe.batch_size, random)
        for index, gathered in inputs.walk(order, recipe.batch_size):
            rows = flip_and_crop(gathered, random) if data.augment else gathered
            picked = torch.from_numpy(index)
            with torch.autocast(device.type, half, enabled=amp):
                value = loss(classifier, rows, labels[picked], None if weights is None else weights[picked])
            scaler.scale(value).backward()
            scaler.step(optimiser)
            scaler.update()
            schedule.step()
            optimiser.zero_grad()
            classifier.head.after_step()
        val_loss = validation_loss(classifier, val_inputs, val_labels, val_weights)
        if not math.isfinite(val_loss):
            raise TrainingError(
                f"training diverged: validation loss {val_loss} after epoch {epoch}; scale the features or lower lr"
            )
        val_losses.append(val_loss)
        if on_epoch is not None:
            on_epoch(EpochReport(epoch, recipe.max_epochs, val_loss))
        if recipe.patience is not None:
            if val_loss < min(val_losses[:-1], default=math.inf):
                best, best_epoch = {name: value.clone() for name, value in classifier.state_dict().items()}, epoch
            if epoch - best_epoch >= recipe.patience:
                break
    if best:
        classifier.load_state_dict(best)
    classifier.eval()
    climb_epochs = WARM_UP_SHARE * recipe.max_epochs if recipe.schedule == "onecycle" else 0.0
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
    return None if split.weights is None else torch.from_numpy(split.weights.astype(np.float32)).to(device)
