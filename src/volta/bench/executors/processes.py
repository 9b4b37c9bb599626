"""Cells in several processes of this machine, each with its own threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache

from volta.bench.attempt import Outcome, attempt, failed
from volta.bench.cells import Cell
from volta.bench.config import RunConfig, TaskLoader
from volta.bench.job import CellRunner
from volta.bench.network_store import DiskNetworkStore
from volta.bench.progress import Listener
from volta.bench.store import RunStore
from volta.core import ending_server
from volta.core.ending_server import STARTED_BY
from volta.core.parent_death import end_with_parent
from volta.methods import find_method
from volta.networks.loop import EpochReport

POLL_SECONDS = 0.5
_ENDING = ending_server.__name__
_KILLED = "the process running it was killed by the operating system, for instance for lack of memory"


class ProcessExecutor:
    """Keeps ``n_workers`` processes busy with one cell each.

    Cells that share a network are kept apart while others wait, so that workers rarely wait for one training. A
    worker that dies takes its pool with it: the cells in flight are then tried again one by one, and one that kills its
    process again counts as failed while the rest goes on.
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
                suspects += yield from self._drain(pending, self._n_workers, listener)
                continue
            suspect = suspects.pop(0)
            if (yield from self._drain([suspect], 1, listener)):
                yield failed(self._store, suspect, _KILLED, _KILLED)

    def _drain(self, pending: list[Cell], n_workers: int, listener: Listener) -> Generator[Outcome, None, list[Cell]]:
        """Run and remove cells from ``pending`` until none is left or a worker dies; return the cells lost with it."""
        running: dict[Future[Outcome], Cell] = {}
        pool = ProcessPoolExecutor(n_workers, _context(), _start_worker, (self._config, self._store))
        try:
            while pending or running:
                while pending and len(running) < n_workers:
                    cell = _next_cell(pending, running)
                    try:
                        future = pool.submit(_work, cell)
                    except BrokenProcessPool:
                        pending.insert(0, cell)
                        raise
                    listener.cell_started(cell)
                    running[future] = cell
                for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                    outcome = future.result()
                    del running[future]
                    yield outcome
                for cell in running.values():
                    if (noted := self._store.read_progress(cell)) is not None:
                        listener.epoch(cell, EpochReport(*noted))
        except BrokenProcessPool:
            return list(running.values())
        except BaseException:
            # Of this pool alone: whoever called may have processes of its own.
            for process in list((pool._processes or {}).values()):
                process.kill()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return []


def start_early() -> None:
    """Let the server that workers are forked from import what they need while this process prepares its plan."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver

        _context()
        if threading.current_thread() is not threading.main_thread():
            # Signals are the main thread's to set.
            forkserver.ensure_running()
            return
        # The server inherits what is ignored: Ctrl-C is for this process alone, which then ends its workers.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, previous)


def _context() -> multiprocessing.context.BaseContext:
    """Return how processes are started: forked from a clean server where there is one, else from scratch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # The kernel takes the end of the thread that started a process for its parent's.
    ending = [_ENDING] if threading.current_thread() is threading.main_thread() else []
    os.environ[STARTED_BY] = str(os.getpid())
    context.set_forkserver_preload([*ending, __name__])
    return context


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


@dataclass
class _Worker:
    """What a worker process keeps between cells."""

    runner: CellRunner
    store: RunStore


_worker: list[_Worker] = []


def _start_worker(config: RunConfig, store: RunStore) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _worker[:] = [_Worker(CellRunner(config, DiskNetworkStore(store.networks_folder), TaskLoader(config)), store)]


def _die_with_parent() -> None:
    """End this process at once when the one that started it is gone, so that nothing is left running behind it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(cell: Cell) -> Outcome:
    worker = _worker[0]
    return attempt(worker.runner, worker.store, cell)
