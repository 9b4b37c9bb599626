"""Whether networks of equal shape would train faster side by side, in one batched pass, than one after another.

    python benchmarks/side_by_side.py [--networks N] [--rows N] [--threads N] [--repeats N]

The same network, batch size and optimiser three ways, an epoch each: one after another as a plain loop; stacked with
``torch.func`` (weights as (networks, out, in) arrays, every product a batched one), each on batches of its own; and
stacked on one shared batch, as ablation rows could be whose order of rows is the same. Ways take turns; a ratio is of
the fastest rounds, in processor time, which other work on the machine disturbs less than the clock. Two processors
already train two networks at a time, each in a process of its own, so a stacked pass pays only where it is faster on
one thread. Printed too: whether stacked weights come out bit for bit equal.
"""

from __future__ import annotations

import argparse
import copy
import platform
import time

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from training import PlainVolta
from volta.networks.trainer import VISION_RECIPE

N_CLASSES = 10
BATCH_ROWS = VISION_RECIPE.batch_size


def optimiser_of(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=1e-3, fused=True)


def networks(n_networks: int, dropout: float) -> list[PlainVolta]:
    torch.manual_seed(0)
    made = [PlainVolta().train() for _ in range(n_networks)]
    for layer in (layer for network in made for layer in network.modules() if isinstance(layer, nn.Dropout)):
        layer.p = dropout
    return made


def batches(rows: Tensor, labels: Tensor, n_orders: int) -> list[tuple[Tensor, Tensor]]:
    """Return (orders, batch, d) inputs and (orders, batch) labels, batch by batch."""
    orders = torch.stack([torch.randperm(len(rows)) for _ in range(n_orders)])
    return [(rows[part], labels[part]) for part in orders.split(BATCH_ROWS, dim=1)]


def one_after_another(made: list[PlainVolta], data: list[tuple[Tensor, Tensor]]) -> list[PlainVolta]:
    for index, network in enumerate(made):
        optimiser = optimiser_of(list(network.parameters()))
        for inputs, labels in data:
            own = min(index, len(inputs) - 1)
            nn.functional.cross_entropy(network(inputs[own]), labels[own]).backward()
            optimiser.step()
            optimiser.zero_grad()
    return made


def stacked(made: list[PlainVolta], data: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    parameters, buffers = stack_module_state(made)  # type: ignore[arg-type]
    skeleton = copy.deepcopy(made[0]).to("meta")
    optimiser = optimiser_of(list(parameters.values()))

    def forward(weights: dict[str, Tensor], state: dict[str, Tensor], inputs: Tensor) -> Tensor:
        logits: Tensor = functional_call(skeleton, (weights, state), (inputs,))
        return logits

    for inputs, labels in data:
        shared = len(inputs) == 1
        run = vmap(forward, in_dims=(0, 0, None if shared else 0), randomness="different")
        logits = run(parameters, buffers, inputs[0] if shared else inputs)
        wanted = labels.expand(len(made), -1).reshape(-1)
        (nn.functional.cross_entropy(logits.flatten(0, 1), wanted) * len(made)).backward()
        optimiser.step()
        optimiser.zero_grad()
    return parameters


def equal_bits(n_networks: int, data: list[tuple[Tensor, Tensor]]) -> bool:
    alone = one_after_another(networks(n_networks, 0.0), data[:5])
    together = stacked(networks(n_networks, 0.0), data[:5])
    return all(
        torch.equal(value, together[name][index])
        for index, network in enumerate(alone)
        for name, value in network.named_parameters()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10_240)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, labels = torch.randn(options.rows, 512), torch.randint(N_CLASSES, (options.rows,))
    own, shared = batches(rows, labels, options.networks), batches(rows, labels, 1)
    ways = {
        "one after another": lambda: one_after_another(networks(options.networks, 0.1), own),
        "stacked, own batches": lambda: stacked(networks(options.networks, 0.1), own),
        "stacked, one shared batch": lambda: stacked(networks(options.networks, 0.1), shared),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, way in ways.items():
            started = time.process_time()
            way()
            times[name].append(time.process_time() - started)
    print(
        f"{options.networks} networks, an epoch of {options.rows:,} × 512, batch {BATCH_ROWS}, {options.threads} "
        f"threads, n = {options.repeats}, torch {torch.__version__}, {platform.machine()}"
    )
    reference = min(times["one after another"])
    for name, spent in times.items():
        print(f"  {name:28} {min(spent):6.2f} s  {reference / min(spent):.2f}×  (spread {max(spent) / min(spent):.2f})")
    print(f"  stacked weights equal bit for bit after 5 steps without dropout: {equal_bits(options.networks, own)}")


if __name__ == "__main__":
    main()
