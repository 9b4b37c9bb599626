"""Large runs: thousands of cells planned, resumed and reported, and the same run on Ray clusters of several nodes.

    python benchmarks/scale.py [plan] [report] [ray] [--cells N] [--reported N] [--seeds N]

``plan``: 10,000 cells of 20 methods on one task; the seconds of planning them in an empty folder, and of ``volta
bench`` on the folder once all are stored, which checks every file and finds nothing to do. ``report``: a folder of
5,000 cells (5 tasks × 20 methods × 50 seeds, 200 test rows, two OOD sets) and the seconds of its report. Stored cells
are copies of a few that were made up; writing them is not timed. Seconds are by the clock and, in brackets, of the
processor: on a machine that others use only the latter says something. ``ray``: ``volta bench digits`` on local
clusters of one, two and four nodes of one processor each; a node is a process tree of its own, so that efficiency can
be no better than the machine's cores allow.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import numpy as np

from volta.bench.cell_metrics import EvalSet, metrics_of
from volta.bench.config import TaskLoader, plan_cells
from volta.bench.progress import Listener
from volta.bench.records import Cell, CellRecord, Manifest, RunConfig, environment, fingerprints_of
from volta.bench.runner import make_plan, run
from volta.bench.store import RunStore
from volta.core.types import Array, Task
from volta.methods import find_method
from volta.methods.registry import METHODS, standard_methods
from volta.report.build import build_report

N_METHODS = 20
N_TASKS = 5
N_ROWS = 200
N_CLASSES = 5
N_DRAWS = 10
Result = TypeVar("Result")
Draw = tuple[dict[str, Array], dict[EvalSet, dict[str, float]], dict[EvalSet, int]]


def main() -> None:
    options = _parse()
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, n = 1")
    parts: dict[str, Callable[[argparse.Namespace], None]] = {"plan": _plan, "report": _report, "ray": _ray}
    for name in options.parts or parts:
        parts[name](options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="plan, report, ray; all unless named")
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--reported", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the run on Ray")
    return parser.parse_args()


def _task(name: str) -> Task:
    random = np.random.default_rng(sum(map(ord, name)))

    def rows(n_rows: int) -> tuple[Array, Array]:
        return random.normal(size=(n_rows, 8)), np.arange(n_rows) % N_CLASSES

    ood = {"near_set": random.normal(size=(N_ROWS, 8)), "noise": random.normal(size=(N_ROWS, 8))}
    return Task.from_arrays(
        rows(N_ROWS), rows(N_ROWS), val=rows(100), cal=rows(100), ood=ood, near=["near_set"], name=name
    )


def _methods() -> tuple[str, ...]:
    able = [name for name in dict.fromkeys([*standard_methods(), *METHODS]) if "fair" in METHODS[name].protocols]
    return tuple(able[:N_METHODS])


def _config(n_tasks: int, n_cells: int) -> RunConfig:
    tasks = tuple(_task(f"made-up-{index}") for index in range(n_tasks))
    n_seeds = n_cells // (n_tasks * N_METHODS)
    return RunConfig(
        tasks=tuple(task.name for task in tasks), methods=_methods(), seeds=tuple(range(n_seeds)), array_tasks=tasks
    )


def _plan(options: argparse.Namespace) -> None:
    config = _config(1, options.cells)
    with tempfile.TemporaryDirectory(prefix="volta-scale-") as place:
        store = RunStore(Path(place) / "run")
        planned, plan = _clocked(lambda: make_plan(config, store))
        cells = plan.cells
        _fill(store, config, cells)
        resumed, _ = _clocked(lambda: run(config, store, Listener()))
    print(f"plan: {len(cells):,} cells planned in {planned}, resumed in {resumed} (goal 30 s)", flush=True)


def _clocked(work: Callable[[], Result]) -> tuple[str, Result]:
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return f"{time.perf_counter() - clock:.1f} s ({time.process_time() - processor:.1f} s)", result


def _report(options: argparse.Namespace) -> None:
    config = _config(N_TASKS, options.reported)
    with tempfile.TemporaryDirectory(prefix="volta-scale-") as place:
        store = RunStore(Path(place) / "run")
        cells = plan_cells(TaskLoader(config))
        _fill(store, config, cells)
        seconds, path = _clocked(lambda: build_report(store).path)
        size = path.stat().st_size / 1e6
    print(f"report: {len(cells):,} cells in {seconds}, a page of {size:.1f} MB (goal 120 s)", flush=True)


def _fill(store: RunStore, config: RunConfig, cells: list[Cell]) -> None:
    """Store made-up results of all cells, a few draws a method, as the runner writes them."""
    store.create()
    tasks = {name: TaskLoader(config).task_for(name, "fair", "softmax", 0) for name in config.tasks}
    draws: dict[tuple[str, int], Draw] = {}
    for cell in cells:
        place = cell.method, cell.seed % N_DRAWS
        if place not in draws:
            draws[place] = _draw(*place)
        arrays, metrics, floored = draws[place]
        entry, task = find_method(cell.method), tasks[cell.task]
        record = CellRecord(
            cell=cell,
            title=entry.title,
            origin=entry.origin,
            parameters={},
            budget=config.budget,
            device="cpu",
            threads=1,
            data=task.hashes,
            source="made up",
            backbone=None,
            rows={"train": N_ROWS, "val": 100, "cal": 100}
            | {key.rpartition("/")[0]: len(value) for key, value in arrays.items()},
            near_ood=(EvalSet("ood:near_set"),),
            metrics=metrics,
            floored_rows=floored,
            notes=(),
            environment=environment(),
            wall_s=1.0,
            fingerprints=fingerprints_of(entry.method),
        )
        # A crash may lose what was only made up.
        with patch("os.fsync"):
            store.write_cell(record, arrays)
    command = "python benchmarks/scale.py"
    store.write_manifest(Manifest("2026", "2026", config, tuple(cells), (command,), environment()))


def _draw(method: str, seed: int) -> Draw:
    """Return predictions of a made-up model, and their metrics."""
    random = np.random.default_rng([seed, sum(map(ord, method))])
    labels = np.arange(N_ROWS) % N_CLASSES
    logits = random.normal(size=(N_ROWS, N_CLASSES))
    logits[np.arange(N_ROWS), labels] += 2.0 + 0.2 * random.normal()
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    doubt = 1.0 - probs.max(axis=1)
    arrays: dict[str, Array] = {
        "test/labels": labels.astype(np.int32),
        "test/probs": probs,
        "test/uncertainty": doubt,
        "test/ood_score": doubt,
        "val/probs": probs[:100],
        "val/labels": labels[:100].astype(np.int32),
    }
    for name in ("near_set", "noise"):
        arrays[f"ood:{name}/ood_score"] = random.beta(3, 2, N_ROWS)
    metrics, floored = metrics_of(arrays, ["near_set"])
    metrics[EvalSet("test")] |= {
        "latency_ms": 0.01, "latency_p95_ms": 0.02, "size_mb": 1.0, "peak_mb": 1.0, "train_s": 2.0,
    }  # fmt: skip
    return arrays, metrics, floored


def _ray(options: argparse.Namespace) -> None:
    from ray.cluster_utils import Cluster

    cores, first = os.cpu_count() or 1, None
    for n_nodes in (1, 2, 4):
        cluster = Cluster()
        try:
            for _ in range(n_nodes):
                cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            # The first run starts the workers and their imports; the second is what is timed.
            _on_ray(cluster.address, 1)
            seconds = _on_ray(cluster.address, options.seeds)
        finally:
            cluster.shutdown()
        first = first or seconds
        speed_up, possible = first / seconds, min(n_nodes, cores)
        print(
            f"ray: {n_nodes} nodes, {11 * options.seeds} cells of digits in {seconds:.1f} s, {speed_up:.2f} × one "
            f"node: efficiency {speed_up / possible:.2f} of the {possible} processors it can have",
            flush=True,
        )


def _on_ray(address: str, n_seeds: int) -> float:
    with tempfile.TemporaryDirectory(prefix="volta-scale-") as place:
        command = [sys.executable, "-m", "volta", "bench", "digits", "--methods", "paper", "--seeds", str(n_seeds)]
        command += ["--executor", "ray", "--address", address, "--threads", "1", "--quiet", "--no-report"]
        started = time.perf_counter()
        subprocess.run([*command, "--out", f"{place}/run"], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
