"""Do numbers repeat on another processor? The same seeds under two instruction sets, beside the spread over seeds.

Runs the paper's methods twice, once with every library as it is and once with all of them held to AVX2, and prints for
each method and metric the root mean square difference between equal seeds and the standard deviation over seeds.

    VOLTA_DATA=DIR python benchmarks/instruction_sets.py --task cifar10 --seeds 3 --out runs/instruction-sets

Run folders are kept, so a stopped run goes on where it was; `--task digits` needs no data. A finished run may stand in
place of OUT/default, also with more seeds: those that both have are compared. Instead of a second run, the results of
another machine:

    VOLTA_DATA=DIR python benchmarks/instruction_sets.py --task cifar10 --beside docs/results/cifar10-fair/results.csv

and nothing is run where a finished run's own results are named too (``--results runs/cifar10-c/results.csv``).
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PAPER_METHODS = "volta,mc_dropout,swag,gmm,temperature,energy,mahalanobis,hyperbolic,enn,taylor_sensus,conformal"
METRICS = (("accuracy", "test"), ("nll", "test"), ("ece", "test"), ("auroc", "near:"))
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}

Values = dict[tuple[str, str, str], dict[str, float]]


def run(folder: Path, task: str, methods: str, seeds: str, variables: dict[str, str]) -> Values:
    """Run the benchmark with ``variables`` set and return each method's and metric's value per seed."""
    command = [sys.executable, "-m", "volta", "bench", task, "--methods", methods, "--seeds", seeds]
    subprocess.run([*command, "--out", str(folder)], env={**os.environ, **variables}, check=True)
    return read(folder / "results.csv")


def read(path: Path) -> Values:
    """Return each method's and metric's value per seed of a run's ``results.csv``."""
    found: Values = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["method"], row["metric"], row["set"])
            if key[1:] in METRICS:
                found.setdefault(key, {})[row["seed"]] = float(row["value"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--methods", default=PAPER_METHODS)
    parser.add_argument("--seeds", default="3")
    parser.add_argument("--out", type=Path, help="a folder for the two runs; a temporary one unless given")
    parser.add_argument("--beside", type=Path, help="results.csv of another machine, in place of the run held to AVX2")
    parser.add_argument("--results", type=Path, help="results.csv of a finished run, in place of the first run")
    arguments = parser.parse_args()
    out = arguments.out or Path(tempfile.mkdtemp())
    given = (arguments.task, arguments.methods, arguments.seeds)
    here = read(arguments.results) if arguments.results else run(out / "default", *given, {})
    # The spread is taken over the seeds of the first, and what was published has more of them.
    plain, held = (read(arguments.beside), here) if arguments.beside else (here, run(out / "avx2", *given, AVX2))
    print(f"{arguments.task}: root mean square difference of equal seeds / standard deviation over seeds")
    print(f"{'method':<16}" + "".join(f"{name:>22}" for name, _ in METRICS))
    over = []
    for method in arguments.methods.split(","):
        line = f"{method:<16}"
        for metric, where in METRICS:
            one, two = plain[method, metric, where], held[method, metric, where]
            shared = [seed for seed in one if seed in two]
            moved = float(np.sqrt(np.mean([(one[seed] - two[seed]) ** 2 for seed in shared])))
            spread = float(np.std(list(one.values()), ddof=1))
            line += f"{f'{moved:.1e} / {spread:.1e}':>22}"
            if moved >= spread:
                over.append(f"{method} {metric}")
        print(line)
    print("moved by as much as the spread or more: " + (", ".join(over) or "none"))


if __name__ == "__main__":
    main()
