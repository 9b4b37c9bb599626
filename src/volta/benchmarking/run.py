"""A run folder for people: its tables, its report, its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from volta.bench.cells import Cell
from volta.bench.records import CellRecord
from volta.bench.rescoring import current_records
from volta.bench.results_csv import RESULT_COLUMNS, result_rows
from volta.bench.store import RunStore
from volta.benchmarking.table import Table, table_of
from volta.core.errors import InputError
from volta.core.suggest import unknown_name
from volta.core.types import Array
from volta.stats import (
    LeaderboardRow,
    Results,
    SummaryRow,
    TestRow,
    group_records,
    make_leaderboard,
    summarise,
    without_rows,
)

if TYPE_CHECKING:
    from volta.methods import Method
    from volta.report.statistics import Statistics


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

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._store = RunStore(self.path)
        self._manifest = self._store.read_manifest()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the run."""
        return self._manifest.config.tasks

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the run, by name."""
        return self._manifest.config.methods

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the run."""
        return self._manifest.config.seeds

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

    def report(self, reference: str | None = None) -> Path:
        """Build tables, figures and ``report.html`` in the run folder; return the page's path."""
        from volta.report import build_report

        return build_report(self._store, reference=reference)

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
        from volta.report.standings import standings

        parts = [f"<p>{escape(repr(self))}</p>"]
        for table in self._tables:
            found = standings(table, make_leaderboard([table], without_rows([table])), self._manifest.config.budget)
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
            raise InputError(f"{name} with seed {seed} ran more than once; name task and protocol: {_places(found)}")
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

    @cached_property
    def _computed(self) -> dict[str | None, Statistics]:
        return {}

    def _statistics(self, reference: str | None) -> Statistics:
        from volta.report.looks import run_statistics

        if reference not in self._computed:
            self._computed[reference] = run_statistics(self._store, self._tables, reference=reference)
        return self._computed[reference]


def _places(cells: Sequence[Cell]) -> str:
    return ", ".join(f"{cell.task} · {cell.protocol}" for cell in cells)
