"""One cell, start to end: train, predict every set, compute metrics, measure cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import cast

from threadpoolctl import threadpool_limits

from volta.bench.cells import Cell
from volta.bench.config import LoadedTask, RunConfig, TaskLoader
from volta.bench.efficiency import measure_efficiency
from volta.bench.environment import environment
from volta.bench.evaluate import predict_sets
from volta.bench.records import TEST, CellRecord, EvalSet
from volta.bench.scoring import metrics_of
from volta.bench.spilled_outputs import SpilledOutputCache
from volta.bench.stamps import stamps_of
from volta.core.torch_threads import torch_threads
from volta.core.types import Array
from volta.methods import find_method
from volta.methods.saving import parameters_of
from volta.networks.loop import EpochReport
from volta.networks.protocols import ProtocolName
from volta.networks.trainer import NetworkStore, Trainer, pick_device

OnEpoch = Callable[[EpochReport], None]


class CellRunner:
    """Runs cells of one configuration in one process; tasks, networks and outputs are shared between them."""

    def __init__(self, config: RunConfig, networks: NetworkStore, tasks: TaskLoader | LoadedTask) -> None:
        self._config = config
        self._networks = networks
        self._outputs = SpilledOutputCache()
        self._block: tuple[str, str, int] | None = None
        self._tasks = tasks

    def trainer(self, protocol: str, seed: int, on_epoch: OnEpoch | None = None) -> Trainer:
        """Return what methods of this configuration train with."""
        return Trainer(
            seed=seed,
            protocol=cast(ProtocolName, protocol),
            budget=self._config.budget,
            device=pick_device(self._config.device),
            store=self._networks,
            cache=self._outputs,
            on_epoch=on_epoch,
        )

    def run(self, cell: Cell, on_epoch: OnEpoch | None = None) -> tuple[CellRecord, dict[str, Array]]:
        """Return the cell's record and its predictions."""
        with torch_threads(self._config.threads):
            return self._run(cell, on_epoch)

    def _run(self, cell: Cell, on_epoch: OnEpoch | None) -> tuple[CellRecord, dict[str, Array]]:
        # A thread limit binds the libraries that are loaded: SciPy brings linear algebra of its own.
        import scipy.linalg  # noqa: F401

        started = time.perf_counter()
        entry = find_method(cell.method)
        method = entry.method
        task = self._tasks.task_for(cell.task, cell.protocol, cell.method, cell.seed)
        near = tuple(name for name, ood_set in task.ood.items() if ood_set.near)
        if cell.block != self._block:
            # No other block asks for these outputs and networks again, and with them the inputs they are of can go.
            self._block, self._outputs = cell.block, SpilledOutputCache()
            self._networks.forget()
        trainer = self.trainer(cell.protocol, cell.seed, on_epoch)
        with threadpool_limits(self._config.threads), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit_started = time.perf_counter()
            method.fit(task.fit, trainer)
            train_s = time.perf_counter() - fit_started + trainer.seconds_reused
            arrays = predict_sets(method, task, trainer)
            metrics, floored = metrics_of(arrays, near)
            metrics[TEST] |= measure_efficiency(method, task.test.inputs) | {"train_s": train_s}
        record = CellRecord(
            cell=cell,
            title=entry.title,
            origin=entry.origin,
            parameters=parameters_of(method),
            budget=self._config.budget,
            device=self._config.device,
            threads=self._config.threads,
            data=task.hashes,
            source=task.source,
            backbone=self._config.extraction.backbone,
            rows={"train": len(task.fit.train), "val": len(task.fit.val), "cal": len(task.fit.cal)}
            | {key.rpartition("/")[0]: len(value) for key, value in arrays.items()},
            near_ood=tuple(EvalSet("ood", name) for name in near),
            metrics=metrics,
            floored_rows=floored,
            notes=tuple(sorted({str(warning.message) for warning in caught})),
            environment=environment(),
            wall_s=time.perf_counter() - started,
            stamps=stamps_of(method),
            trainings=tuple(trainer.trainings.values()),
            split=task.split,
        )
        return record, arrays
