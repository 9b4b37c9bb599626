"""Sampled passes: each through the whole network, over sharing what lies before the first dropout layer.

Run with: python benchmarks/passes.py [--repeats N]
Ten passes of MC Dropout's networks, on features and on pixels, one thread; the fastest of the repeats in processor
time, with the spreads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from volta.networks.modules import AnyEncoder, Cnn, Encoder, Linear, sampled_from
from volta.networks.network import Network
from volta.networks.recipe import TrainingLog
from volta.networks.spec import NetworkSpec

N_PASSES = 10
CASES: dict[str, tuple[AnyEncoder, tuple[int, ...], int]] = {
    "512 features": (Encoder(dropout=0.2), (512,), 4096),
    "32×32 pixels": (Cnn(dropout=0.2), (3, 32, 32), 128),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, (body, shape, n_rows) in CASES.items():
        spec = NetworkSpec(body, Linear(), shape, 10)
        network = Network(
            spec, spec.build(0).eval(), TrainingLog(1, None, 0.0, (1.0,), 0.0), "key", torch.device("cpu")
        )
        rows = np.random.default_rng(0).normal(size=(n_rows, *shape)).astype(np.float32)
        whole, whole_spread = _timed(lambda: _whole(network, rows), options.repeats)  # noqa: B023
        shared, shared_spread = _timed(lambda: _shared(network, rows), options.repeats)  # noqa: B023
        print(
            f"{name}: {whole / shared:.2f}× ({1e3 * whole / n_rows:.3f} over {1e3 * shared / n_rows:.3f} ms a row; "
            f"n = {options.repeats}, spreads {whole_spread:.2f}, {shared_spread:.2f})"
        )


def _generators() -> list[np.random.Generator]:
    return [np.random.default_rng(index) for index in range(N_PASSES)]


def _whole(network: Network, rows: np.ndarray) -> None:
    for random in _generators():
        with sampled_from(random):
            network.outputs(rows)


def _shared(network: Network, rows: np.ndarray) -> None:
    for _ in network.sampled_logits(rows, _generators()):
        pass


def _timed(call: Callable[[], None], repeats: int) -> tuple[float, float]:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times), max(times) / min(times)


if __name__ == "__main__":
    main()
