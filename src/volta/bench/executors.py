"""Ways to run cells: in this process, in several, on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

from volta.bench.cell import (
    CellRunner,
    DiskNetworkStore,
    Outcome,
    attempt,
    decode_network,
    encode_network,
    failed,
    finished,
)
from volta.bench.config import TaskLoader
from volta.bench.progress import Listener
from volta.bench.records import Cell, CellRecord, RunConfig
from volta.bench.store import RunStore
from volta.core.errors import InputError, MissingDataError
from volta.core.processes import keep_freed_memory, process_pool, torch_threads
from volta.core.types import Array, Task
from volta.features.engines import EmbeddedFiles, TorchEngine, files_of, with_files
from volta.features.extract import MapShards, Shard, ShardJob
from volta.methods import find_method
from volta.networks.trainer import NetworkStore, pick_device
from volta.networks.training import EpochReport


class LocalExecutor:
    """Runs cells in order, sharing tasks, networks and outputs between them in memory."""

    def __init__(self, runner: CellRunner, store: RunStore) -> None:
        self._runner = runner
        self._store = store

    def run(self, cells: list[Cell], listener: Listener) -> Iterator[Outcome]:
        """Run cells in order."""
        for cell in cells:
            listener.cell_started(cell)
            yield attempt(self._runner, self._store, cell, partial(listener.epoch, cell))


Executor: TypeAlias = "LocalExecutor | ProcessExecutor | RayExecutor"
"""Runs cells in any order, tells a listener when one starts, and yields each one's outcome as it ends."""
POLL_SECONDS = 0.5
_KILLED = "the process running it was killed by the operating system, for instance for lack of memory"


class ProcessExecutor:
    """Runs cells in ``n_workers`` processes of loky, one cell each at a time.

    Cells that share a network are kept apart while others wait, so that workers rarely wait for one training. A worker
    that dies breaks its pool. The cells in flight then run again one by one; one that kills its worker again fails,
    and the rest continues.
    """

    def __init__(self, config: RunConfig, store: RunStore, n_workers: int) -> None:
        self._config = config
        self._store = store
        self._n_workers = n_workers

    def run(self, cells: list[Cell], listener: Listener) -> Iterator[Outcome]:
        """Run cells on all workers."""
        pending, suspects = list(cells), list[Cell]()
        while pending or suspects:
            if pending:
                suspects += yield from self._drain(pending, min(self._n_workers, len(pending)), listener)
                continue
            suspect = suspects.pop(0)
            if (yield from self._drain([suspect], 1, listener)):
                yield failed(self._store, suspect, _KILLED, _KILLED)

    def _drain(self, pending: list[Cell], n_workers: int, listener: Listener) -> Generator[Outcome, None, list[Cell]]:
        """Run and remove cells from ``pending`` until none is left or a worker dies; return the cells lost with it."""
        running: dict[Future[Outcome], Cell] = {}
        with process_pool(n_workers, _start_worker, self._config, self._store) as pool:
            try:
                while pending or running:
                    while pending and len(running) < n_workers:
                        cell = _next_cell(pending, running)
                        try:
                            running[pool.submit(_work, cell)] = cell
                        except BrokenProcessPool:
                            pending.insert(0, cell)
                            raise
                        listener.cell_started(cell)
                    for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                        outcome = future.result()
                        del running[future]
                        yield outcome
                    for cell in running.values():
                        if (noted := self._store.read_progress(cell)) is not None:
                            listener.epoch(cell, EpochReport(*noted))
            except BrokenProcessPool:
                return list(running.values())
        return []


def _next_cell(pending: list[Cell], running: dict[Future[Outcome], Cell]) -> Cell:
    """Take the first cell whose block no worker is in, else the first that need not wait for a network, or the first.

    Of the cells that share a network only one trains it.
    """
    blocks = {cell.block for cell in running.values()}
    training = {cell.block for cell in running.values() if _shares_network(cell.method)}

    def apart(cell: Cell) -> bool:
        return cell.block not in training or not _shares_network(cell.method)

    free = (index for index, cell in enumerate(pending) if cell.block not in blocks)
    index = next(free, None)
    if index is None:
        index = next((index for index, cell in enumerate(pending) if apart(cell)), 0)
    return pending.pop(index)


@cache
def _shares_network(method: str) -> bool:
    return find_method(method).method.shares_network


_worker: list[tuple[CellRunner, RunStore]] = []
"""What a worker process keeps between cells."""


def _start_worker(config: RunConfig, store: RunStore) -> None:
    keep_freed_memory()
    networks, tasks = DiskNetworkStore(store.folder("networks")), TaskLoader(config)
    _worker[:] = [(CellRunner(config, networks, tasks.load, tasks.method), store)]


def _work(cell: Cell) -> Outcome:
    return attempt(*_worker[0], cell)


MAX_RETRIES = 5


class RayExecutor:
    """Submits cells to Ray and stores their results here as they finish.

    Each task's data is put into the object store once and read from there by all workers of a node. The network that
    post-hoc methods share is a Ray task of its own that their cells depend on. A cell whose worker or node dies is run
    again elsewhere by Ray; a cell that raises counts as failed. Ray's workers serve one job, so they keep
    freed memory as our own processes do.
    """

    def __init__(self, config: RunConfig, store: RunStore, tasks: TaskLoader, address: str | None) -> None:
        self._config = config
        self._store = store
        self._tasks = tasks
        self._address = address

    def run(self, cells: list[Cell], listener: Listener) -> Iterator[Outcome]:
        """Run cells on the cluster, a bounded number of them submitted at a time."""
        ray = connect_ray(self._address)
        largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if largest < self._config.threads:
            raise InputError(f"--threads is {self._config.threads} but no Ray node has more than {largest:.0f} CPUs")
        window = 2 * max(4, int(ray.cluster_resources().get("CPU", 1)))
        submissions = _Submissions(ray, self._config, self._tasks)
        pending = list(cells)
        running: dict[Any, tuple[Cell, Any]] = {}
        try:
            while pending or running:
                while pending and len(running) < window:
                    cell = pending.pop(0)
                    lock = self._store.try_lock(cell)
                    if lock is None:
                        yield Outcome(cell, "elsewhere")
                    elif self._store.is_done(cell):
                        lock.release()
                        yield Outcome(cell, "done", self._store.read_record(cell))
                    else:
                        listener.cell_started(cell)
                        running[submissions.submit(cell)] = (cell, lock)
                done, _ = ray.wait(list(running), num_returns=1, timeout=1.0) if running else ([], [])
                for reference in done:
                    cell, lock = running.pop(reference)
                    try:
                        yield self._collect(ray, reference, cell)
                    finally:
                        lock.release()
        finally:
            for reference, (_, lock) in running.items():
                ray.cancel(reference, force=True)
                lock.release()

    def _collect(self, ray: Any, reference: Any, cell: Cell) -> Outcome:
        try:
            record, arrays = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return failed(self._store, cell, f"{type(error.cause).__name__}: {error.cause}", str(error))
        except ray.exceptions.RayError as error:
            return failed(self._store, cell, f"{type(error).__name__}: tried {MAX_RETRIES + 1} times", str(error))
        return finished(self._store, record, arrays)


def ray_map(address: str | None) -> MapShards:
    """Return a ``map`` whose calls are Ray tasks, a bounded number at a time, results in the order they finish."""

    def mapped(function: Callable[[ShardJob], Shard], jobs: Iterable[ShardJob]) -> Iterator[Shard]:
        ray = connect_ray(address)
        remote: Any = None
        window = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        running: list[Any] = []
        carried: Any = None
        for job in jobs:
            if carried is None:
                carried = ray.put(files_of(job.engine))
                on_gpu = isinstance(job.engine, TorchEngine) and job.engine.device.type == "cuda"
                remote = ray.remote(max_retries=MAX_RETRIES, num_gpus=1 if on_gpu else 0)(_extract_there)
            running.append(remote.remote(function, job, carried))
            if len(running) >= window:
                done, running = ray.wait(running, num_returns=1)
                yield ray.get(done[0])
        while running:
            done, running = ray.wait(running, num_returns=1)
            yield ray.get(done[0])

    return mapped


def _extract_there(function: Callable[[ShardJob], Shard], job: ShardJob, carried: EmbeddedFiles) -> Shard:
    """Run a job on a node, which may have none of the driver's files."""
    return function(replace(job, engine=with_files(job.engine, carried)))


class _Submissions:
    """What has been handed to Ray: data once, shared networks once a block, cells."""

    def __init__(self, ray: Any, config: RunConfig, tasks: TaskLoader) -> None:
        self._ray = ray
        self._config = ray.put(config)
        self._tasks = tasks
        self._stored: dict[tuple[str, str], tuple[str, Any]] = {}
        self._networks: dict[tuple[str, str, int], Any] = {}
        options = {
            "num_cpus": config.threads,
            "num_gpus": 1 if config.device == "cuda" else 0,
            "max_retries": MAX_RETRIES,
        }
        self._train = ray.remote(**options)(_train_shared)
        self._run = ray.remote(**options)(_run_cell)

    def submit(self, cell: Cell) -> Any:
        """Return Ray's reference to the result of a cell."""
        task = self._task(cell)
        if not find_method(cell.method).method.shares_network:
            return self._run.remote(self._config, task, cell, None)
        if cell.block not in self._networks:
            self._networks[cell.block] = self._train.remote(self._config, task, cell)
        return self._run.remote(self._config, task, cell, self._networks[cell.block])

    def _task(self, cell: Cell) -> Any:
        """Return Ray's reference to the cell's data; Ray frees that of an earlier seed when no cell needs it."""
        task = self._tasks.load(cell)
        place = cell.task, task.fit.kind
        if place not in self._stored or self._stored[place][0] != task.fingerprint:
            self._stored[place] = task.fingerprint, self._ray.put(task)
        return self._stored[place][1]


def _train_shared(config: RunConfig, task: Task, cell: Cell) -> bytes:
    """Train the block's shared network on a worker; runs there."""
    keep_freed_memory()
    runner = CellRunner(config, NetworkStore(), lambda _: task)
    with torch_threads(config.threads):
        return encode_network(runner.trainer(cell.protocol, cell.seed).network(task.fit))


def _run_cell(config: RunConfig, task: Task, cell: Cell, network: bytes | None) -> tuple[CellRecord, dict[str, Array]]:
    """Run a cell on a worker; runs there."""
    keep_freed_memory()
    shared = None if network is None else decode_network(network, pick_device(config.device))
    networks = NetworkStore([] if shared is None else [shared])
    return CellRunner(config, networks, lambda _: task).run(cell)


def connect_ray(address: str | None) -> Any:
    """Return Ray, connected to the cluster at an address, or to one of its own on this machine."""
    try:
        import ray
    except ImportError as error:
        raise MissingDataError("--executor ray needs Ray; install it with: pip install 'volta-uq[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise MissingDataError(f"--address {address}: no Ray cluster answers there: {error}") from error
    return ray
