"""What a user asks of a benchmark, completed by what its run folder has settled already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from volta.core.types import Task

if TYPE_CHECKING:
    from volta.bench.config import RunConfig
    from volta.bench.store import RunStore
    from volta.data import LoadOptions
    from volta.features.tasks import Extraction
    from volta.networks.recipe import Budget


def default_folder(tasks: Sequence[str]) -> Path:
    """Return the run folder of tasks that none was named for: ``runs/TASK``, ``runs/TASK+TASK``."""
    return Path("runs") / "+".join(tasks)


def make_config(
    store: RunStore,
    *,
    tasks: Sequence[str | Task],
    methods: Sequence[str],
    protocol: str,
    seeds: tuple[int, ...],
    budget: Budget,
    device: str,
    threads: int | None,
    options: LoadOptions,
    extraction: Extraction,
    resplit: bool | None,
) -> RunConfig:
    """Return the configuration of a run; what was left open is as in the run folder, if there is one."""
    from volta.bench.config import RunConfig
    from volta.networks.trainer import pick_device

    settled = store.settled()
    if device == "auto" and settled is not None:
        device = settled.device
    if threads is None:
        threads = 1 if settled is None else settled.threads
    return RunConfig(
        tasks=tuple(task if isinstance(task, str) else task.name for task in tasks),
        methods=tuple(methods),
        protocols=(protocol,),
        seeds=seeds,
        budget=budget,
        device=pick_device(device).type,
        threads=threads,
        options=options,
        extraction=extraction,
        resplit=settled.resplit if resplit is None and settled is not None else resplit,
        array_tasks=tuple(task for task in tasks if isinstance(task, Task)),
    )
