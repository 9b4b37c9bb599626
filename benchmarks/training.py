"""Training speed: VOLTA over its bare matrix products and a plain DataLoader loop; the CNN over its convolutions.

Run with: python benchmarks/training.py [--threads N] [--rows N] [--repeats N] [--give-back]
Prints times as ratios within this run: the fastest of the repeats, with the spread, in processor time, which other work
on the machine disturbs less than the clock. Freed memory is kept, as the command's processes do; ``--give-back`` leaves
that to the C library.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from volta.core.processes import keep_freed_memory
from volta.core.types import FitData, Split
from volta.networks.modules import Cnn, Linear, Prototypes
from volta.networks.objectives import CrossEntropy
from volta.networks.recipe import Recipe
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import PAPER_RECIPE, VISION_ENCODER, VISION_RECIPE
from volta.networks.training import EpochReport, train

CPU = torch.device("cpu")
N_CLASSES = 10


def best_of(repeats: int, measure: Callable[[], float]) -> tuple[float, float]:
    measure()
    times = [measure() for _ in range(repeats)]
    return min(times), max(times) / min(times)


def timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def features_data(n_rows: int) -> FitData:
    random = np.random.default_rng(0)

    def split(size: int) -> Split:
        return Split(random.normal(size=(size, 512)).astype(np.float32), random.integers(N_CLASSES, size=size))

    return FitData(split(n_rows), split(16), split(16), n_classes=N_CLASSES, encoder="vision")


def own_epochs(spec: NetworkSpec, data: FitData, recipe: Recipe, repeats: int) -> tuple[float, float]:
    """Seconds of the fastest epoch of our loop after the first, and the slowest over it."""
    times = np.diff(epoch_ends(spec, data, recipe, repeats + 1))
    return float(times.min()), float(times.max() / times.min())


def epoch_ends(spec: NetworkSpec, data: FitData, recipe: Recipe, n_epochs: int) -> list[float]:
    """Train ``n_epochs`` and return when each ended."""
    ends: list[float] = []
    recipe = replace(recipe, max_epochs=n_epochs, patience=None)

    def note(report: EpochReport) -> None:
        ends.append(time.process_time())

    train(spec.build(0), data, recipe, CrossEntropy(), seed=0, device=CPU, on_epoch=note)
    return ends


def volta_spec() -> NetworkSpec:
    return NetworkSpec(VISION_ENCODER, Prototypes(), (512,), N_CLASSES)


def volta_epoch(data: FitData, repeats: int) -> tuple[float, float]:
    return own_epochs(volta_spec(), data, VISION_RECIPE, repeats)


def volta_epochs(data: FitData, n_epochs: int) -> list[float]:
    return epoch_ends(volta_spec(), data, VISION_RECIPE, n_epochs)


def bare_products(data: FitData, batch_size: int) -> float:
    """Seconds of the matrix products alone, forward and backward, at the encoder's shapes."""
    inputs = torch.from_numpy(data.train.inputs)
    first, second, residual, head = (
        torch.randn(*shape) for shape in ((512, 512), (256, 512), (256, 512), (N_CLASSES, 256))
    )

    def run() -> None:
        for start in range(0, len(inputs), batch_size):
            rows = inputs[start : start + batch_size]
            hidden = rows @ first.T
            encoded = hidden @ second.T
            rows @ residual.T
            logits = encoded @ head.T
            logits.T @ encoded
            by_encoded = logits @ head
            by_encoded.T @ hidden
            by_encoded.T @ rows
            by_hidden = by_encoded @ second
            by_hidden.T @ rows

    return timed(run)


class PlainVolta(nn.Module):
    """The same model as anyone would write it first."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(512, 512), nn.LayerNorm(512), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(512, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1),
        )  # fmt: skip
        self.residual = nn.Linear(512, 256)
        self.prototypes = nn.Parameter(torch.randn(N_CLASSES, 256))
        self.log_temperature = nn.Parameter(torch.tensor(-2.3))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        encoded = nn.functional.normalize(self.encoder(rows) + self.residual(rows), dim=1)
        return encoded @ nn.functional.normalize(self.prototypes, dim=1).T / self.log_temperature.exp()


def plain_epoch(data: FitData, batch_size: int) -> float:
    rows = TensorDataset(torch.from_numpy(data.train.inputs), torch.from_numpy(data.train.labels))
    loader = DataLoader(rows, batch_size=batch_size, shuffle=True)
    model = PlainVolta().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)

    def run() -> None:
        for inputs, labels in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimiser.step()

    return timed(run)


def cnn_steps(n_steps: int, repeats: int) -> tuple[float, float]:
    """Seconds and spread of ``n_steps`` steps of the paper's CNN, augmentation and optimiser included."""
    size = 256
    random = np.random.default_rng(0)
    images = random.integers(0, 256, size=(n_steps * size, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(N_CLASSES, size=n_steps * size)
    split, few = Split(images, labels), Split(images[:16], labels[:16])
    data = FitData(split, few, few, N_CLASSES, encoder="vision", kind="pixels", augment=True)
    return own_epochs(NetworkSpec(Cnn(), Linear(), (3, 32, 32), N_CLASSES), data, PAPER_RECIPE, repeats)


def bare_convolutions(n_steps: int) -> float:
    """Seconds of the convolutions and the wide linear layer alone, forward and backward, channels last."""
    images = torch.randn(256, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    shapes = ((3, 64, 32), (64, 64, 32), (64, 128, 16), (128, 128, 16))
    layers = [nn.Conv2d(a, b, 3, padding=1).to(memory_format=torch.channels_last) for a, b, _ in shapes]  # type: ignore[call-overload]
    inputs = [
        torch.randn(256, a, side, side).contiguous(memory_format=torch.channels_last).requires_grad_(index > 0)
        for index, (a, _, side) in enumerate(shapes)
    ]
    inputs[0] = images
    wide, flat = nn.Linear(8192, 256), torch.randn(256, 8192, requires_grad=True)

    def run() -> None:
        for _ in range(n_steps):
            for layer, rows in zip([*layers, wide], [*inputs, flat], strict=True):
                layer(rows).sum().backward()

    return timed(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--give-back", action="store_true", help="do not keep freed memory")
    options = parser.parse_args()
    if not options.give_back:
        keep_freed_memory()
    torch.set_num_threads(options.threads)
    data = features_data(options.rows)
    batch = VISION_RECIPE.batch_size
    print(f"torch {torch.__version__}, {options.threads} threads, best of {options.repeats}")
    ours, spread = volta_epoch(data, options.repeats)
    floor, floor_spread = best_of(options.repeats, lambda: bare_products(data, batch))
    plain, plain_spread = best_of(options.repeats, lambda: plain_epoch(data, batch))
    print(f"VOLTA, one epoch of {options.rows} × 512, batch {batch}")
    print(f"  over its bare matrix products  {ours / floor:.2f}×  (spread {spread:.2f}, {floor_spread:.2f})")
    print(f"  a plain DataLoader loop over it {plain / ours:.2f}×  (spread {plain_spread:.2f})")
    steps, bare = cnn_steps(4, 2), best_of(2, lambda: bare_convolutions(4))
    print("CNN, steps of 256 images with augmentation")
    print(f"  an image                        {steps[0] / 1.024:.2f} ms")
    print(f"  over its bare convolutions      {steps[0] / bare[0]:.2f}×  (spread {steps[1]:.2f}, {bare[1]:.2f})")


if __name__ == "__main__":
    main()
