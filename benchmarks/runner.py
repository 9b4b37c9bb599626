"""What the runner itself costs: wall time over the cells' own times, and two workers over one, on ``digits``.

Run with: python benchmarks/runner.py [--methods all] [--seeds 42,123,456] [--repeats N]
Every run is the real command in a process of its own, start-up included, into a temporary folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from volta.bench.store import RunStore


def timed_run(folder: Path, methods: str, seeds: str, workers: int) -> tuple[float, float, int]:
    """Return wall seconds, the sum of the cells' own seconds, and the number of cells."""
    executor = "local" if workers == 1 else "processes"
    command = [sys.executable, "-m", "volta", "bench", "digits", "--quiet", "--no-report", "--out", str(folder)]
    command += ["--methods", methods, "--seeds", seeds, "--executor", executor, "--workers", str(workers)]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    records = RunStore(folder).records()
    return wall, sum(record.wall_s for record in records), len(records)


def start_up() -> float:
    """Return the seconds a run takes that has nothing to do: imports and reading the plan."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        timed_run(folder, "softmax", "1", 1)
        return timed_run(folder, "softmax", "1", 1)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--seeds", default="42,123,456")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    for _ in range(options.repeats):
        idle = start_up()
        with tempfile.TemporaryDirectory() as place:
            one, own, n_cells = timed_run(Path(place) / "one", options.methods, options.seeds, 1)
            two, _, _ = timed_run(Path(place) / "two", options.methods, options.seeds, 2)
        print(f"{n_cells} cells of digits; start-up and plan {idle:.1f} s")
        print(f"  one worker: wall {one:.1f} s = {one / own:.2f}× the cells' own {own:.1f} s", end="; ")
        print(f"without start-up {(one - idle) / own:.2f}×")
        print(f"  two workers: wall {two:.1f} s, {one / two:.2f}× faster than one", flush=True)


if __name__ == "__main__":
    main()
