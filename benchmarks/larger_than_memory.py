"""Train VOLTA for one epoch on memory-mapped float16 rows that need not fit in memory; print time and peak memory.

    python benchmarks/larger_than_memory.py                          # 2,000,000 × 512 rows, K = 1000, beside 200,000
    python benchmarks/larger_than_memory.py --rows 200000 --small 20000

Each size runs in a process of its own. Memory is sampled from the kernel 20 times a second: «own» is memory that only
this process can free (anonymous pages), «peak» is the whole resident set, which also counts pages of the feature file
that the kernel keeps mapped and drops when memory is short. The targets are a peak below 3 GiB and a time a row at the
large size of at most 1.3 times that at the small one. Time covers all of ``fit``: checks, hashing, training, validation
and the temperature.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

from volta.core.types import FitData, Split
from volta.methods.volta import Volta
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

N_FEATURES = 512
N_CLASSES = 1000
N_HELD_OUT = 10_000
NOISE = 5.0
CHUNK_ROWS = 50_000
PEAK_LIMIT_GIB = 3.0
LINEAR_LIMIT = 1.3
GIB = 1 << 30


def main() -> None:
    arguments = _parse()
    if arguments.child is not None:
        _child(Path(arguments.child), arguments.threads)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="volta-larger-") as name:
        results = []
        for n_rows in (arguments.small, arguments.rows):
            folder = Path(name) / str(n_rows)
            folder.mkdir()
            write_rows(folder, n_rows)
            results.append(_run_child(folder, arguments.threads))
            _print_result(results[-1])
    small, large = results
    ratio = large["seconds"] / large["n_rows"] / (small["seconds"] / small["n_rows"])
    peak = max(result["peak_bytes"] for result in results) / GIB
    print(f"time a row, {large['n_rows']:,} rows against {small['n_rows']:,}: {ratio:.2f}× (limit {LINEAR_LIMIT}×)")
    print(f"peak resident memory: {peak:.2f} GiB (limit {PEAK_LIMIT_GIB} GiB)")
    sys.exit(0 if ratio <= LINEAR_LIMIT and peak < PEAK_LIMIT_GIB else 1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the large run")
    parser.add_argument("--small", type=int, default=200_000, help="rows of the run it is compared with")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=None, help="where the temporary files go (2 GB at full size)")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def write_rows(folder: Path, n_rows: int) -> None:
    """Write Gaussian clouds around ``N_CLASSES`` centres, chunk by chunk, in shuffled class order."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    for name, size in (("train", n_rows), ("val", N_HELD_OUT), ("cal", N_HELD_OUT)):
        labels = random.integers(0, N_CLASSES, size)
        np.save(folder / f"{name}-labels.npy", labels)
        inputs = np.lib.format.open_memmap(
            folder / f"{name}-inputs.npy", mode="w+", dtype=np.float16, shape=(size, N_FEATURES)
        )
        for start in range(0, size, CHUNK_ROWS):
            part = labels[start : start + CHUNK_ROWS]
            noise = random.standard_normal((len(part), N_FEATURES), dtype=np.float32)
            inputs[start : start + len(part)] = centres[part] + NOISE * noise
        inputs.flush()
        del inputs


def _run_child(folder: Path, threads: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(folder), "--threads", str(threads)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


def _child(folder: Path, threads: int) -> None:
    torch.set_num_threads(threads)

    def split(name: str) -> Split:
        inputs = np.load(folder / f"{name}-inputs.npy", mmap_mode="r")
        return Split(inputs, np.load(folder / f"{name}-labels.npy"))

    data = FitData(split("train"), split("val"), split("cal"), n_classes=N_CLASSES, encoder="vision")
    memory = Memory()
    started = time.perf_counter()
    method = Volta().fit(data, Trainer(seed=42, budget=Budget(max_epochs=1)))
    seconds = time.perf_counter() - started
    peak, own = memory.stop()
    probs = method.predict(data.cal.inputs).probs
    accuracy = float(np.mean(probs.argmax(axis=1) == data.cal.labels))
    result = {
        "n_rows": len(data.train),
        "threads": threads,
        "seconds": seconds,
        "training_seconds": method.network_.log.seconds,
        "peak_bytes": peak,
        "own_bytes": own,
        "accuracy": accuracy,
    }
    print(json.dumps(result))


class Memory:
    """Samples this process's resident memory until stopped."""

    def __init__(self) -> None:
        self._peak = self._own = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(0.05):
            fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self._peak = max(self._peak, _bytes(fields["VmRSS"]))
            self._own = max(self._own, _bytes(fields["RssAnon"]))

    def stop(self) -> tuple[int, int]:
        """Return the peaks of all resident bytes and of the process's own."""
        self._stopped.set()
        self._thread.join()
        return self._peak, self._own


def _bytes(field: str) -> int:
    return int(field.split(maxsplit=1)[0]) * 1024


def _print_result(result: dict[str, float]) -> None:
    n_rows = int(result["n_rows"])
    print(
        f"{n_rows:,} rows × {N_FEATURES}, K = {N_CLASSES}, 1 epoch, {int(result['threads'])} threads: "
        f"{result['seconds']:.1f} s ({result['training_seconds']:.1f} s training), "
        f"{1e6 * result['seconds'] / n_rows:.1f} µs a row, peak {result['peak_bytes'] / GIB:.2f} GiB "
        f"(own {result['own_bytes'] / GIB:.2f} GiB), accuracy {result['accuracy']:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
