"""``volta.benchmark``: the benchmark of the command line, asked from Python."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volta.benchmarking.run import Run
from volta.core.errors import InputError, MissingDataError, VoltaWarning
from volta.core.types import Task

if TYPE_CHECKING:
    from volta.bench.progress import Listener
    from volta.core.scaling import ScaleName
    from volta.data.options import ShiftOrigin
    from volta.methods import Method


def benchmark(
    tasks: str | Task | Sequence[str | Task],
    methods: str | Method | Sequence[str | Method] = "standard",
    seeds: int | Sequence[int] | None = None,
    *,
    protocol: str = "fair",
    ablation: bool = False,
    out: Path | str | None = None,
    max_epochs: int | None = None,
    limit_train: int | None = None,
    limit_test: int | None = None,
    batch_size: int | None = None,
    device: str = "auto",
    executor: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    networks_of: Path | str | None = None,
    resplit: bool | None = None,
    scale: ScaleName = "auto",
    data: Path | str | None = None,
    backbone: str | None = None,
    weights: Path | str | None = None,
    shifts: ShiftOrigin = "auto",
    severities: int | Sequence[int] = 1,
    progress: bool = True,
) -> Run:
    """Compare methods on tasks over seeds, as ``volta bench`` does, and return the run.

    Parameters
    ----------
    tasks
        Names (see ``volta tasks``), tasks made with ``volta.Task.from_arrays``, or a list of both.
    methods
        Names, with parameters or without (``"knn(k=10)"``), methods with their parameters, or a list of both;
        "paper", "standard" and "all" stand for the package's own. Your own class must lie in a file that can be
        imported.
    seeds
        How many, or which; 10 in ``fair`` and the paper's 3 in ``paper`` unless given.
    protocol
        ``fair``: the same features, encoder and budget for all; ``paper``: as in the paper.
    ablation
        Whether full VOLTA and every row of the ablation study run too.
    out
        Run folder, ``runs/TASK`` unless given. What it has finished with the same data, code and parameters is kept,
        and only what is missing runs.
    max_epochs, limit_train, limit_test, batch_size
        Limits that make a reduced run.
    device, executor, workers, threads, address
        Where cells run: ``executor`` is ``auto``, ``local``, ``processes`` or ``ray``.
    networks_of
        Run folder whose trained networks are taken where they fit.
    resplit
        Whether train, val and cal are drawn anew for every seed; None as each task has it.
    scale
        ``auto`` scales the columns of own data on its training rows, alike for every method; ``standard``, ``none``.
    data
        Data folder; ``VOLTA_DATA`` or the cache folder unless given.
    backbone, weights
        What makes features of images, where a task has images (see ``volta bench --help``), and a weights file for it.
    shifts, severities
        Corrupted test sets of images: ``auto``, ``official``, ``generated`` or ``none``, at severities from 1 to 5.
    progress
        Whether to show how far it is.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from volta import Task, benchmark
    >>> rows = np.random.default_rng(0).normal(size=(300, 4))
    >>> labels = (rows[:, 0] > 0).astype(int)
    >>> task = Task.from_arrays(train=(rows, labels), ood={"away": rows + 8.0}, name="mine")
    >>> run = benchmark(task, ["softmax", "knn(k=10)"], seeds=2, max_epochs=5, executor="local",
    ...                 out=tempfile.mkdtemp(), progress=False)
    >>> run.results().where(metric="accuracy", set="test").column("method")
    ('knn(k=10)', 'knn(k=10)', 'softmax', 'softmax')
    """
    from volta.bench.store import RunStore
    from volta.benchmarking.execution import Execution
    from volta.benchmarking.request import default_folder, make_config
    from volta.data import LoadOptions
    from volta.features.tasks import Extraction
    from volta.methods import ABLATION
    from volta.networks.recipe import Budget

    execution = Execution(executor, workers, address, _path(networks_of))
    asked = _task_list(tasks)
    names = [task if isinstance(task, str) else task.name for task in asked]
    store = RunStore(_path(out) or default_folder(names))
    config = make_config(
        store,
        tasks=asked,
        methods=(*_method_names(methods, protocol), *(ABLATION if ablation else ())),
        protocol=protocol,
        seeds=_seeds(seeds, protocol),
        budget=Budget(max_epochs, limit_train, batch_size, limit_test),
        device=device,
        threads=threads,
        options=LoadOptions(_path(data), _severities(severities), shifts, scale=scale),
        extraction=Extraction(backbone, _path(weights)),
        resplit=resplit,
    )
    listener = _listener(progress)
    try:
        with _without_main():
            execution.start_early()
            execution.run(config, store, listener, f"volta.benchmark({', '.join(names)}) from Python")
    finally:
        listener.finish()
    run = Run(store.root)
    if run.failures and not progress:
        label, path = next(iter(run.failures.items()))
        message = f"{len(run.failures)} cells failed, such as {label} (see {path}, run.failures)"
        warnings.warn(message, VoltaWarning, stacklevel=2)
    return run


def open_run(path: Path | str) -> Run:
    """Open a run folder, whichever made it: ``volta bench``, ``volta.benchmark`` or another machine.

    >>> import tempfile
    >>> run = benchmark("digits", "softmax", seeds=1, max_epochs=1, executor="local", out=tempfile.mkdtemp(),
    ...                 progress=False)
    >>> open_run(run.path)
    Run(...): 1 of 1 cells on digits
    """
    return Run(path)


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def _task_list(tasks: str | Task | Sequence[str | Task]) -> list[str | Task]:
    if isinstance(tasks, Task):
        return [tasks]
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    for task in tasks:
        if not isinstance(task, str | Task):
            raise InputError(f"tasks holds a {type(task).__name__}; pass names, or tasks made by Task.from_arrays")
    return list(tasks)


def _seeds(seeds: Any, protocol: str) -> tuple[int, ...]:
    from volta.bench.config import parse_seeds

    if seeds is None:
        return parse_seeds(None, protocol)
    if _is_number(seeds):
        return parse_seeds(str(operator.index(seeds)), protocol)
    return _whole_numbers(
        seeds, f"seeds is {seeds!r}; pass how many, as in 3, or a list of whole numbers, as in [1, 2]"
    )


def _severities(severities: Any) -> tuple[int, ...]:
    given = [severities] if _is_number(severities) else severities
    return _whole_numbers(given, f"severities is {severities!r}; pass a number from 1 to 5, or a list, as in [1, 5]")


def _is_number(value: Any) -> bool:
    """Whether it is one whole number: a NumPy integer is, an array is not."""
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _whole_numbers(values: Any, refusal: str) -> tuple[int, ...]:
    """Return the whole numbers of a list or an array; the letters of a text are none."""
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise InputError(refusal) from None


def _method_names(methods: str | Method | Sequence[str | Method], protocol: str) -> tuple[str, ...]:
    from volta.bench.config import parse_methods
    from volta.methods import Method, name_of

    if isinstance(methods, str):
        return parse_methods(methods, protocol)
    names: list[str] = []
    for method in [methods] if isinstance(methods, Method) else methods:
        if isinstance(method, Method):
            names.append(name_of(method))
        elif isinstance(method, str):
            names.append(method)
        else:
            raise InputError(f"methods holds {method!r}; pass names, such as 'knn(k=10)', or methods")
    return parse_methods(", ".join(names), protocol)


def _listener(progress: bool) -> Listener:
    from volta.bench.progress import Bar, Lines, Listener

    if not progress:
        return Listener()
    try:
        from rich.console import Console
    except ImportError as error:
        raise MissingDataError("showing progress needs rich: pip install 'volta-uq[bench]'") from error
    console = Console()
    if console.is_jupyter:
        return Bar(console) if _has_widgets() else Lines(console)
    return Bar(console) if console.is_terminal else Lines(console)


def _has_widgets() -> bool:
    """Whether a notebook can redraw a bar; without widgets it would print a new one each time."""
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep worker processes from running the caller's script again: a script need not guard its main part.

    A worker is told where the main module lies and imports it; no method that a worker makes can be defined there.
    """
    main: Any = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    try:
        main.__spec__ = None
        if "__file__" in kept:
            del main.__file__
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)
