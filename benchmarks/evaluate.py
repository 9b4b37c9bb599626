"""Time and peak memory of ``volta evaluate``: a million predictions of three methods, with statistics and report.

    python benchmarks/evaluate.py [--rows 1000000] [--classes 10] [--methods 3] [--kind npz|csv|parquet] [--folder DIR]

Predictions are generated, written to files of the kind asked for, and evaluated by the command as a user would; the
time is the command's own from start to end, the memory its largest resident set.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from volta.data.tables import new_table

CHUNK = 100_000


def write_npz(folder: Path, rows: int, classes: int, methods: int) -> list[Path]:
    """Write one npz per method."""
    paths = []
    for index, (probs, labels) in enumerate(predictions(rows, classes, methods)):
        paths.append(folder / f"method_{index}-1.npz")
        np.savez(paths[-1], probs=probs, labels=labels)
    return paths


def write_long(folder: Path, rows: int, classes: int, methods: int, ending: str) -> list[Path]:
    """Write one table in the long form."""
    path = folder / f"all.{ending}"
    with new_table(path, overwrite=True) as writer:
        for index, (probs, labels) in enumerate(predictions(rows, classes, methods)):
            for start in range(0, rows, CHUNK):
                part = slice(start, min(start + CHUNK, rows))
                n = part.stop - part.start
                columns = {"method": np.full(n, f"method_{index}"), "seed": np.full(n, 1), "label": labels[part]}
                writer.write(columns | {f"p_{k}": probs[part, k] for k in range(classes)})
    return [path]


def predictions(rows: int, classes: int, methods: int):
    """Yield (probabilities, labels) of methods of growing skill on the same rows."""
    labels = np.random.default_rng(0).integers(0, classes, rows)
    for index in range(methods):
        rng = np.random.default_rng(1 + index)
        logits = rng.normal(size=(rows, classes))
        logits[np.arange(rows), labels] += 3.0 + 0.01 * index
        probs = np.exp(logits)
        yield probs / probs.sum(axis=1, keepdims=True), labels


def main() -> None:
    """Generate, evaluate, and print one line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--methods", type=int, default=3)
    parser.add_argument("--kind", default="npz", choices=("npz", "csv", "parquet"))
    parser.add_argument("--folder", type=Path, help="where files go; a temporary folder unless given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        sizes = options.rows, options.classes, options.methods
        paths = write_npz(folder, *sizes) if options.kind == "npz" else write_long(folder, *sizes, options.kind)
        command = [sys.executable, "-m", "volta", "evaluate", *map(str, paths), "--out", str(folder / "run")]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
        # Of the command alone: the generator runs in this process. Memory is in kibibytes on Linux.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak, cpu = used.ru_maxrss / (1 << 20), used.ru_utime + used.ru_stime
        on_disk = sum(path.stat().st_size for path in paths) / 1e6
        print(
            f"{options.rows:,} x {options.classes} predictions x {options.methods} methods from {options.kind} "
            f"({on_disk:.0f} MB): {seconds:.1f} s, {cpu:.1f} s of processor time, peak {peak:.2f} GiB, "
            f"{os.cpu_count()} cores"
        )


if __name__ == "__main__":
    main()
