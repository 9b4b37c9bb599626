"""The benchmark from Python: ``volta.benchmark`` runs one, ``volta.open_run`` reads one; both return a ``Run``."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volta.bench.records import Cell, CellRecord, RunConfig
from volta.bench.store import RESULT_COLUMNS, RunStore, csv_text, current_records, result_rows
from volta.core.errors import InputError, MissingDataError, VoltaWarning, unknown_name
from volta.core.seeding import first_seeds
from volta.core.types import Array, Task
from volta.stats.comparisons import TestRow, without_rows
from volta.stats.ranking import LeaderboardRow, make_leaderboard
from volta.stats.results import Results, SummaryRow, columns_of, group_records, summarise
from volta.stats.sequential import InterimAnalysis, alpha_at, analyses_up_to

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from volta.bench.progress import Listener
    from volta.bench.runner import Execution, Plan
    from volta.data import TaskDefinition
    from volta.methods import Method
    from volta.report.leaderboard import Standings
    from volta.report.statistics import Statistics


SHOWN_ROWS = 60


@dataclass(frozen=True)
class Table:
    """Columns and rows; ``to_pandas`` and ``to_polars`` make frames, and Jupyter shows it as it is.

    >>> table = Table(("method", "accuracy"), (("volta", 0.97), ("knn", 0.95)))
    >>> table.column("accuracy"), len(table.where(method="knn")), next(iter(table))
    ((0.97, 0.95), 1, {'method': 'volta', 'accuracy': 0.97})
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Walk the rows, each a dictionary by column."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def column(self, name: str) -> tuple[Any, ...]:
        """Return the values of one column."""
        place = self._place(name)
        return tuple(row[place] for row in self.rows)

    def where(self, **equal: Any) -> Table:
        """Return the rows that have these values: ``where(method="knn", set="test")``."""
        wanted = {self._place(name): value for name, value in equal.items()}
        return Table(self.columns, tuple(row for row in self.rows if all(row[at] == v for at, v in wanted.items())))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingDataError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        try:
            import polars
        except ImportError as error:
            raise MissingDataError("to_polars needs polars, which is not installed: pip install polars") from error
        return polars.DataFrame({name: self.column(name) for name in self.columns}, strict=False)

    def to_csv(self) -> str:
        """Return the table as CSV text, floats with all their digits."""
        return csv_text(self.columns, self.rows)

    def __str__(self) -> str:
        cells = [self.columns, *(tuple(map(_shown, row)) for row in self.rows[:SHOWN_ROWS])]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        more = len(self.rows) - SHOWN_ROWS
        return "\n".join([*lines, f"... and {more} more rows"] if more > 0 else lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in self.rows[:SHOWN_ROWS]
        )
        more = len(self.rows) - SHOWN_ROWS
        rest = f"<p>and {more} more rows: to_pandas() or to_csv() gives all</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _place(self, name: str) -> int:
        if name not in self.columns:
            raise unknown_name("column", name, self.columns)
        return self.columns.index(name)


def table_of(row_type: type[DataclassInstance], rows: Iterable[DataclassInstance]) -> Table:
    """Return rows of a dataclass as a table."""
    columns = tuple(columns_of(row_type))
    return Table(columns, tuple(tuple(getattr(row, name) for name in columns) for row in rows))


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


class Run:
    """A run folder: what ``volta.benchmark`` made or ``volta.open_run`` opened.

    Tables come from the stored records and predictions; nothing is trained again. What a run holds is read when it is
    first asked for; open it again to see what another process has added since.

    >>> import tempfile, volta
    >>> run = volta.benchmark("digits", "softmax,knn(k=10)", seeds=1, max_epochs=2, limit_test=50,
    ...                       executor="local", out=tempfile.mkdtemp(), progress=False)
    >>> run.methods, len(run.predictions("knn(k=10)", 42)["test"]["probs"])
    (('softmax', 'knn(k=10)'), 50)
    >>> run.leaderboard().where(metric="(overall)").column("method") != ()
    True
    """

    def __init__(self, path: Path | str, plan: Plan | None = None) -> None:
        self.path = Path(path)
        self.plan = plan
        """What :func:`volta.benchmark` was asked for: its cells, those that failed or, in a dry run, are missing."""
        self._store = RunStore(self.path)
        self._manifest = plan.manifest if plan else self._store.read_manifest()
        self._computed: dict[str | None, Statistics] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the run."""
        return self._manifest.tasks

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the run, by name."""
        return self._manifest.methods

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the run."""
        return self._manifest.seeds

    @property
    def failures(self) -> dict[str, Path]:
        """Cells that failed, in words, and where the traceback of each is."""
        found = {cell.label: self._store.failure(cell) for cell in self._manifest.cells}
        return {label: path for label, path in found.items() if path is not None}

    def results(self) -> Table:
        """Return every value: a row per task, protocol, method, seed, set and metric."""
        return Table(RESULT_COLUMNS, tuple(result_rows(self._records)))

    def summary(self) -> Table:
        """Return n, mean and deviation over seeds of every metric."""
        return table_of(SummaryRow, summarise(self._tables))

    def leaderboard(self) -> Table:
        """Return the methods by mean rank, and on each ranked metric whether a method may be the best."""
        return table_of(LeaderboardRow, self._statistics(None).leaderboard)

    def tests(self, reference: str | None = None) -> Table:
        """Return the paired tests against ``reference``: a method (VOLTA unless given), "best", or "all" for pairs."""
        found = self._statistics(reference)
        return table_of(TestRow, found.pairs if reference == "all" else found.tests)

    def report(self, reference: str | None = None, style: str = "plain") -> Path:
        """Build tables, figures and ``report.html`` in the run folder; return the page's path.

        ``style``: of the figures for print: plain, neurips, icml or ieee.
        """
        from volta.report import build_report

        built = build_report(self._store, reference=reference, style=style)
        self._computed[reference] = built.statistics
        return built.path

    def standings(self) -> list[Standings]:
        """Return the summary of each task and protocol: the methods by mean rank with the main metrics.

        Which methods may be the best is marked where tests were computed, by :meth:`report` or :meth:`leaderboard`.
        """
        from volta.report.leaderboard import standings

        tested = next(iter(self._computed.values()), None)
        rows = tested.leaderboard if tested else make_leaderboard(self._tables, without_rows(self._tables))
        budget = self._manifest.config.budget if self._manifest.config else None
        return [standings(table, rows, budget) for table in self._tables]

    def predictions(
        self, method: str | Method, seed: int, task: str | None = None, protocol: str | None = None
    ) -> dict[str, dict[str, Array]]:
        """Return a cell's stored predictions by set, then by kind: probs, labels, uncertainty, ood_score, sets.

        ``task`` and ``protocol`` need naming only where the run has several.
        """
        cell = self._cell(method, seed, task, protocol)
        if not self._store.is_done(cell):
            raise InputError(f"{cell.label} has not finished; run it again, or see: volta status {self.path}")
        sets: dict[str, dict[str, Array]] = {}
        for key, values in self._store.read_arrays(cell).items():
            name, _, kind = key.rpartition("/")
            sets.setdefault(name, {})[kind] = values
        return sets

    def __repr__(self) -> str:
        n_done = sum(map(self._store.is_done, self._manifest.cells))
        return f"Run({str(self.path)!r}): {n_done} of {len(self._manifest.cells)} cells on {', '.join(self.tasks)}"

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(repr(self))}</p>"]
        for found in self.standings():
            parts.append(f"<h4>{escape(found.title)}</h4>{Table(found.columns, found.rows)._repr_html_()}")
            parts.append(f"<p>{escape(found.legend)}</p>")
        return "\n".join(parts)

    def _cell(self, method: str | Method, seed: int, task: str | None, protocol: str | None) -> Cell:
        name = self._method_name(method)
        found = [
            cell
            for cell in self._manifest.cells
            if (cell.method, cell.seed) == (name, seed)
            and task in (None, cell.task)
            and protocol in (None, cell.protocol)
        ]
        if not found:
            raise InputError(
                f"the run has no {name} with seed {seed}" + (f" on {task}" if task else "") + "; its seeds are: "
                f"{', '.join(map(str, self.seeds))}, its tasks: {', '.join(self.tasks)}"
            )
        if len(found) > 1:
            places = ", ".join(f"{cell.task} · {cell.protocol}" for cell in found)
            raise InputError(f"{name} with seed {seed} ran more than once; name task and protocol: {places}")
        return found[0]

    def _method_name(self, method: str | Method) -> str:
        if isinstance(method, str) and method in self.methods:
            return method
        from volta.methods import find_method, name_of

        name = find_method(method).name if isinstance(method, str) and "(" in method else method
        name = name if isinstance(name, str) else name_of(name)
        if name not in self.methods:
            raise unknown_name("method", name, self.methods)
        return name

    @cached_property
    def _records(self) -> list[CellRecord]:
        return current_records(self._store, self._manifest.cells)

    @cached_property
    def _tables(self) -> list[Results]:
        return group_records(self._records)

    def _statistics(self, reference: str | None) -> Statistics:
        from volta.report.statistics import run_statistics

        if reference not in self._computed:
            self._computed[reference] = run_statistics(self._store, self._tables, reference=reference)
        return self._computed[reference]


def benchmark(
    tasks: str | Task | Sequence[str | Task],
    methods: str | Method | Sequence[str | Method] = "standard",
    seeds: int | Sequence[int] | None = None,
    *,
    protocol: str = "fair",
    ablation: bool = False,
    decide: bool = False,
    cap: int = 40,
    reference: str | None = None,
    out: Path | str | None = None,
    max_epochs: int | None = None,
    limit_train: int | None = None,
    limit_test: int | None = None,
    batch_size: int | None = None,
    device: str = "auto",
    executor: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    amp: bool | None = None,
    deterministic: bool | None = None,
    address: str | None = None,
    networks_of: Path | str | None = None,
    resplit: bool | None = None,
    scale: str = "auto",
    data: Path | str | None = None,
    backbone: str | None = None,
    weights: Path | str | None = None,
    shifts: str = "auto",
    severities: int | Sequence[int] = 1,
    report: bool = False,
    dry_run: bool = False,
    progress: bool | Listener = True,
    json_log: Path | str | None = None,
    command: str | None = None,
    should_stop: Callable[[], bool] = lambda: False,
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
    decide, cap
        Add seeds at interim analyses, after 5, 10, 20 and 40 seeds and ``cap`` at most, until every claim of the paper,
        or every comparison with ``reference``, is decided. The level of tests is shared by all analyses.
    reference
        What tests compare with: a method, "best", or "all" for pairs; VOLTA unless given.
    out
        Run folder, ``runs/TASK`` unless given. What it has finished with the same data, code and parameters is kept,
        and only what is missing runs.
    max_epochs, limit_train, limit_test, batch_size
        Limits that make a reduced run.
    device, executor, workers, threads, address
        Where cells run: ``executor`` is ``auto``, ``local``, ``processes`` or ``ray``.
    amp, deterministic
        Train and extract in automatic mixed precision; allow deterministic algorithms alone. Both matter on GPUs, and
        both are part of what decides a result. None: as in the run folder, or not.
    networks_of
        Run folder whose trained networks are taken where they fit.
    resplit
        Whether train, val and cal are drawn again for every seed; None as each task has it.
    scale
        ``auto`` scales the columns of your data on its training rows, alike for every method; ``standard``, ``none``.
    data
        Data folder; ``VOLTA_DATA`` or the cache folder unless given.
    backbone, weights
        What makes features of images, where a task has images (see ``volta bench --help``), and a weights file for it.
    shifts, severities
        Corrupted test sets of images: ``auto``, ``official``, ``generated`` or ``none``, at severities from 1 to 5.
    report
        Whether to build the report at the end, as :meth:`Run.report` does.
    dry_run
        Only plan: nothing runs and nothing is written. ``Run.plan`` has the cells, those missing and their cost.
    progress
        Whether to show progress; or a listener of your own.
    json_log
        File that gets one JSON line an event.
    command
        What the manifest notes as the command.
    should_stop
        Asked after every cell; True stops the run as Ctrl-C does.

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
    from volta.bench.runner import Execution, make_plan, run
    from volta.methods import ABLATION
    from volta.networks.recipe import Budget
    from volta.networks.trainer import pick_device
    from volta.networks.training import amp_type

    execution = Execution(executor, workers, address, _path(networks_of))
    if decide and seeds is not None:
        raise InputError("--seeds and --decide exclude each other: --decide adds seeds itself, up to --cap")
    asked = _task_list(tasks)
    names = [task if isinstance(task, str) else task.name for task in asked]
    store = RunStore(_path(out) or Path("runs") / _run_name(tasks, names))
    known = store.known_manifest()
    settled = known.config if known else None
    method_names = (*_method_names(methods, protocol), *(ABLATION if ablation else ()))
    if decide and reference is None and "volta" not in method_names:
        raise InputError("--decide compares with volta, which is not among the methods; name one with --reference")
    check_reference(reference, (*method_names, *(known.methods if known else ())))
    # What is left open is as in the run folder, if there is one.
    chosen = pick_device(settled.device if device == "auto" and settled else device)
    amp = amp if amp is not None else settled is not None and settled.amp
    if amp:
        amp_type(chosen)
    config = RunConfig(
        tasks=tuple(names),
        methods=method_names,
        protocols=(protocol,),
        seeds=_seeds(seeds, protocol),
        budget=Budget(max_epochs, limit_train, batch_size, limit_test),
        device=chosen.type,
        threads=threads if threads is not None else settled.threads if settled else 1,
        amp=amp,
        deterministic=deterministic if deterministic is not None else settled is not None and settled.deterministic,
        backbone=backbone,
        weights=_path(weights),
        severities=_whole_numbers("severities", severities, "a number from 1 to 5, or a list, as in [1, 5]"),
        shifts=shifts,
        resplit=settled.resplit if resplit is None and settled else resplit,
        scale=scale,
        data=_path(data),
        array_tasks=tuple(task for task in asked if not isinstance(task, str)),
    )
    command = command or f"volta.benchmark({', '.join(names)}) from Python"
    if dry_run:
        return Run(store.root, make_plan(config, store, command))
    with _listening(progress, json_log) as listener:
        if decide:
            found = _run_until_decided(config, store, listener, command, execution, should_stop, reference, cap)
        else:
            found = Run(store.root, run(config, store, listener, command, execution, should_stop))
        if report:
            listener.phase("statistics, figures and report")
            found.report(reference)
    if found.failures and progress is False:
        label, path = next(iter(found.failures.items()))
        message = f"{len(found.failures)} cells failed, such as {label} (see {path}, run.failures)"
        warnings.warn(message, VoltaWarning, stacklevel=2)
    return found


def check_reference(reference: str | None, methods: Iterable[str]) -> None:
    """Refuse what is neither best, nor all, nor one of the methods."""
    known = dict.fromkeys(methods)
    if reference is not None and reference not in ("best", "all", *known):
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {', '.join(known)}")


def _run_until_decided(
    config: RunConfig,
    store: RunStore,
    listener: Listener,
    command: str,
    execution: Execution,
    should_stop: Callable[[], bool],
    reference: str | None,
    cap: int,
) -> Run:
    """Run the methods of ``config`` at each interim analysis until no question is open.

    Each analysis continues with the methods that open questions need, the cheapest first. Verdicts rest on the seeds of
    their analysis alone, whatever more the folder holds, so that an interrupted run resumes with the same ones.
    """
    from volta.bench.runner import run
    from volta.report.statistics import analyse, analysis_lines, answer_questions, earlier_analyses

    analyses = analyses_up_to(cap)
    stored = earlier_analyses(store, analyses)
    analysis: InterimAnalysis | None = None
    names, cells = config.methods, dict[Cell, None]()
    for n_seeds in analyses:
        seeds = first_seeds(n_seeds)
        plan = run(replace(config, methods=names, seeds=seeds), store, listener, command, execution, should_stop)
        cells |= dict.fromkeys(plan.cells)
        questions = answer_questions(store, seeds, alpha_at(n_seeds, analyses), reference)
        analysis = analyse(store, stored, questions, analysis, n_seeds, analyses)
        for line in analysis_lines(analysis):
            listener.message(line)
        if analysis.finished:
            break
        names = tuple(name for name in analysis.methods if name in config.methods) or names
    missing = [cell for cell in cells if not store.is_done(cell)]
    return Run(store.root, replace(plan, cells=list(cells), missing=missing))


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


def _task_list(tasks: str | Task | Sequence[str | Task]) -> list[str | Task | TaskDefinition]:
    """Return names and tasks, groups of tables as what they stand for."""
    from volta.data.tasks.keel import KEEL, table_tasks

    found: list[str | Task | TaskDefinition] = []
    for task in _asked(tasks):
        group = table_tasks(task) if isinstance(task, str) else None
        found += [task] if group is None else [one.name if one.name in KEEL else one for one in group]
    return found


def _asked(tasks: str | Task | Sequence[str | Task]) -> list[str | Task]:
    if isinstance(tasks, Task):
        return [tasks]
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    for task in tasks:
        if not isinstance(task, str | Task):
            raise InputError(f"tasks holds a {type(task).__name__}; pass names, or tasks made by Task.from_arrays")
    return list(tasks)


def _run_name(tasks: str | Task | Sequence[str | Task], names: Sequence[str]) -> str:
    """Return the folder of a run that has no other: its tasks, a group as one."""
    asked = _asked(tasks)
    if len(asked) == len(names):
        return "+".join(names)
    return "+".join(Path(task).name if isinstance(task, str) else task.name for task in asked)


def _seeds(seeds: Any, protocol: str) -> tuple[int, ...]:
    from volta.bench.config import parse_seeds

    if seeds is None:
        return parse_seeds(None, protocol)
    if _is_number(seeds):
        return parse_seeds(str(operator.index(seeds)), protocol)
    return _whole_numbers("seeds", seeds, "how many, as in 3, or a list of whole numbers, as in [1, 2]")


def _is_number(value: Any) -> bool:
    """Whether it is one whole number: a NumPy integer is, an array is not."""
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _whole_numbers(name: str, values: Any, expected: str) -> tuple[int, ...]:
    """Return one whole number, or those of a list or an array; the letters of a text are none."""
    try:
        return tuple(operator.index(value) for value in ([values] if _is_number(values) else values))
    except TypeError:
        raise InputError(f"{name} is {values!r}; pass {expected}") from None


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


@contextmanager
def _listening(progress: bool | Listener, json_log: Path | str | None) -> Iterator[Listener]:
    """Give what shows progress, and writes it to ``json_log`` where that is named."""
    from volta.bench.progress import Both, JsonLog, Listener

    shown = _shown_progress() if progress is True else progress or Listener()
    with ExitStack() as stack:
        stack.callback(shown.finish)
        if json_log is not None:
            try:
                file = stack.enter_context(Path(json_log).open("a", encoding="utf-8"))
            except OSError as error:
                raise InputError(
                    f"--json-log {json_log} cannot be written: {error.strerror}; name another file"
                ) from error
            shown = Both(shown, JsonLog(file))
        yield shown


def _shown_progress() -> Listener:
    from volta.bench.progress import Bar, Lines

    try:
        from rich.console import Console
    except ImportError as error:
        raise MissingDataError("showing progress needs rich: pip install 'volta-uq[bench]'") from error
    console = Console(markup=False, emoji=False)
    # Without widgets a notebook would print a new bar each time.
    redraws = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    return Bar(console) if redraws else Lines(console)
