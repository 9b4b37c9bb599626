"""How a run's cells are carried out: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volta.core.errors import InputError
from volta.core.machine import n_cores

if TYPE_CHECKING:
    from volta.bench.config import RunConfig, TaskLoader
    from volta.bench.executors import Executor
    from volta.bench.progress import Listener
    from volta.bench.runner import RunSummary
    from volta.bench.store import RunStore

EXECUTORS = ("auto", "local", "processes", "ray")


@dataclass(frozen=True)
class Execution:
    """Which executor runs cells, on how many processes at most, and the address of a Ray cluster to join.

    ``auto`` takes processes where there is room for more than one cell, each with its own threads. ``networks_of`` is a
    run folder whose trained networks are taken where they fit; Ray trains its own.
    """

    executor: str = "auto"
    workers: int | None = None
    address: str | None = None
    networks_of: Path | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise InputError(f"--executor is {self.executor!r}; pass one of {', '.join(EXECUTORS)}")
        if self.n_workers < 1:
            raise InputError(f"--workers is {self.workers}; pass a whole number of at least 1")
        if self.networks_of is not None and self.executor == "ray":
            raise InputError("--networks-of goes with the executors local and processes; Ray trains its own networks")

    @property
    def n_workers(self) -> int:
        """Processes to use at most."""
        return n_cores() if self.workers is None else self.workers

    def start_early(self) -> None:
        """Let worker processes load what they need while this one prepares its plan."""
        if self.executor == "processes" or (self.executor == "auto" and self.n_workers > 1):
            from volta.bench.executors.processes import start_early

            start_early()

    def run(
        self,
        config: RunConfig,
        store: RunStore,
        listener: Listener,
        command: str,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> RunSummary:
        """Bring a run folder up to ``config``."""
        from volta.bench.runner import run
        from volta.bench.store import RunStore

        if self.networks_of is not None:
            RunStore(self.networks_of).read_manifest()
        shards = map
        if self.executor == "ray":
            from volta.bench.executors.cluster import ray_map

            shards = ray_map(self.address)  # type: ignore[assignment]
        return run(
            config,
            store,
            listener,
            command,
            lambda tasks, n_cells: self._executor(config, store, tasks, min(self.n_workers, n_cells), listener),
            shards,
            should_stop,
        )

    def _executor(
        self, config: RunConfig, store: RunStore, tasks: TaskLoader, n_workers: int, listener: Listener
    ) -> Executor:
        if self.networks_of is not None:
            from volta.bench.network_store import take_networks
            from volta.bench.store import RunStore

            n_taken = take_networks(RunStore(self.networks_of).networks_folder, store.networks_folder)
            listener.message(f"took {n_taken} trained networks from {self.networks_of}")
        if self.executor == "auto":
            n_workers = max(1, min(n_workers, n_cores() // config.threads)) if config.device == "cpu" else 1
        if self.executor == "ray":
            from volta.bench.executors.cluster import RayExecutor

            return RayExecutor(config, store, tasks, self.address)
        if self.executor == "processes" or (self.executor == "auto" and n_workers > 1):
            from volta.bench.executors.processes import ProcessExecutor

            return ProcessExecutor(config, store, n_workers)
        from volta.bench.executors.local import LocalExecutor
        from volta.bench.job import CellRunner
        from volta.bench.network_store import DiskNetworkStore

        return LocalExecutor(CellRunner(config, DiskNetworkStore(store.networks_folder), tasks), store)
