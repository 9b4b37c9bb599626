"""Stored features as many as ImageNet's through a whole run: training, post-hoc scores, metrics, report.

    python benchmarks/imagenet_sized.py [--rows 1280000] [--test 10000] [--methods NAME,...] [--folder DIR]

Simulated float16 features (1,280,000 × 512, 1,000 classes) lie on disk and are read as memory maps; they are removed at
the end. One epoch of training in place of the recipe's fifteen: what is asked is whether memory stays bounded, and an
epoch's time says what more would cost. Memory is sampled 20 times a second: «own» is what only this process can free
(anonymous pages), «resident» also counts pages of files that the kernel keeps mapped and drops when memory is short.
Each method's line says its seconds and the own memory at its peak.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from larger_than_memory import GIB, N_CLASSES, N_FEATURES, PEAK_LIMIT_GIB, Memory, write_rows
from volta.bench.progress import Listener
from volta.bench.records import Cell, CellRecord, RunConfig
from volta.bench.runner import run
from volta.bench.store import RunStore
from volta.core.types import FitData, OodSet, Split, Task
from volta.methods.base import PostHoc
from volta.methods.registry import METHODS
from volta.networks.recipe import Budget
from volta.report.build import build_report

BANKS = ("knn", "nnguide")
LEFT_OUT = ("gmm", *BANKS)
"""A mixture of 1,000 full covariances takes hours; the banks come last."""


def main() -> None:
    options = _parse()
    if options.child is not None:
        _child(Path(options.child), options)
        return
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, n = 1", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="volta-imagenet-") as place:
        started = time.perf_counter()
        write_rows(Path(place), options.rows)
        print(f"{options.rows:,} × {N_FEATURES} float16 written in {time.perf_counter() - started:.0f} s", flush=True)
        # What the run derives goes there too, so that nothing is left.
        environment = {**os.environ, "VOLTA_CACHE": f"{place}/cache"}
        command = [sys.executable, __file__, *sys.argv[1:], "--child", place]
        subprocess.run(command, check=True, env=environment)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_280_000)
    parser.add_argument("--test", type=int, default=10_000, help="test and OOD rows, at most 10,000")
    parser.add_argument("--methods", default=",".join(post_hoc_methods()))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=None, help="where files go, 20 GB at full size")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def post_hoc_methods() -> list[str]:
    """Return what needs one shared network and nothing more, those that compare with every training row last."""
    found = [
        name
        for name, method in METHODS.items()
        if issubclass(method, PostHoc) and "fair" in method.protocols and name not in LEFT_OUT
    ]
    return [*(name for name in found if name not in BANKS), *BANKS]


def _task(folder: Path, n_test: int) -> Task:
    def split(name: str, rows: slice = slice(None)) -> Split:
        inputs = np.load(folder / f"{name}-inputs.npy", mmap_mode="r")[rows]
        return Split(inputs, np.load(folder / f"{name}-labels.npy")[rows])

    fit = FitData(split("train"), split("val", slice(5_000)), split("cal", slice(5_000)), N_CLASSES, encoder="vision")
    noise = np.random.default_rng(1).normal(size=(n_test, N_FEATURES)).astype(np.float16)
    return Task("imagenet-sized", fit, split("cal", slice(n_test)), {"noise": OodSet(noise)})


class _Told(Listener):
    """Prints a line a cell, with the memory since the one before."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.resident = self.own = 0
        self.failed: list[str] = []

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        self.tell(f"{cell.method:28} {record.wall_s:7.1f} s")

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        self.failed.append(cell.method)
        self.tell(f"{cell.method:28} failed: {reason[:80]}")

    def tell(self, text: str) -> None:
        resident, own = self.memory.stop()
        self.memory = Memory()
        self.resident, self.own = max(self.resident, resident), max(self.own, own)
        print(f"  {text}, own {own / GIB:.2f} GiB, resident {resident / GIB:.2f} GiB", flush=True)


def _child(folder: Path, options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    task = _task(folder, options.test)
    config = RunConfig(
        tasks=(task.name,),
        methods=tuple(options.methods.split(",")),
        seeds=(42,),
        budget=Budget(max_epochs=1),
        threads=options.threads,
        scale="none",
        array_tasks=(task,),
    )
    store, told = RunStore(folder / "run"), _Told()

    started = time.perf_counter()
    run(config, store, told, "python benchmarks/imagenet_sized.py")
    fitted = time.perf_counter() - started
    build_report(store, n_resamples=200)
    told.tell(f"report {time.perf_counter() - started - fitted:.1f} s")
    print(
        f"{len(task.fit.train):,} rows, {len(config.methods)} methods, {options.threads} threads: run {fitted:.0f} s, "
        f"own peak {told.own / GIB:.2f} GiB (goal {PEAK_LIMIT_GIB:g}), resident {told.resident / GIB:.2f} GiB; "
        f"failed: {', '.join(told.failed) or 'none'}"
    )


if __name__ == "__main__":
    main()
