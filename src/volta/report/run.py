"""A run folder in memory: finished and missing cells by task and protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from volta.bench.records import EXTERNAL, Cell, CellRecord, Manifest
from volta.bench.store import RunStore, current_records
from volta.figures import Context, MethodValues
from volta.figures.style import chart_scale, metric_key, split_key
from volta.networks.recipe import Budget
from volta.stats.results import Results, Sample, group_records, shared_networks

BUDGET_WORDS = {
    "max_epochs": "at most {} epochs",
    "limit_train": "{} training rows",
    "batch_size": "batch size {}",
    "limit_test": "at most {} rows of each evaluated set",
}
HEADLINE = ("accuracy", "ece", "nll", "brier", "ece@test+T", "nll@test+T", "brier@test+T", "aurc")
HEADLINE_OOD = ("auroc", "fpr95")


@dataclass(frozen=True)
class Group:
    """One task under one protocol: its values, its records by (method, seed), and its unfinished cells.

    ``table`` is empty where no cell has finished; ``failures`` gives the last line of what went wrong, by cell.
    """

    task: str
    protocol: str
    table: Results
    records: Mapping[tuple[str, int], CellRecord]
    planned: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    failures: Mapping[Cell, str]

    @property
    def key(self) -> str:
        """Name of the group in file names and anchors, where a protocol with a - must not read as part of a task."""
        return f"{self.task}{'--' if '-' in self.protocol else '-'}{self.protocol}"

    @property
    def methods(self) -> tuple[str, ...]:
        """Finished methods in the order of the plan."""
        return self.table.methods

    @property
    def is_external(self) -> bool:
        """Whether all predictions are external."""
        return self.table.is_external

    @property
    def compared(self) -> tuple[str, ...]:
        """VOLTA and what it is compared with: all but the ablation rows, or all where there is nothing else."""
        return tuple(name for name in self.methods if self.origin(name) != "ablation") or self.methods

    @property
    def first_record(self) -> CellRecord | None:
        """Any record, for what all cells share; None where no cell has finished."""
        return next(iter(self.records.values()), None)

    @property
    def context(self) -> Context:
        """What every figure says beneath itself."""
        seeds = {seed for _, seed in self.records}
        n_rows = self.first_record.rows.get("test", 0) if self.first_record else 0
        budget = "" if self.is_external else budget_words(self.budget)
        source = "external predictions" if self.is_external else self.protocol
        return Context(self.task, source, n_rows, len(seeds), budget)

    @property
    def budget(self) -> Budget:
        """The budget of every cell that ran."""
        return next((record.budget for record in self.records.values() if record.origin != EXTERNAL), Budget())

    def title(self, method: str) -> str:
        """A method's name for a reader."""
        return self.table.titles.get(method, method)

    def origin(self, method: str) -> str:
        """Where a method comes from: volta, paper, extra or ablation."""
        return self.table.origins.get(method, "extra")

    def is_ours(self, method: str) -> bool:
        """Whether a method is the one that the others are compared with."""
        return method == self.table.ours

    @cached_property
    def networks(self) -> tuple[tuple[str, ...], ...]:
        """The compared methods that share a network, in groups of two or more."""
        return shared_networks(self.table, self.compared)

    @cached_property
    def method_values(self) -> Mapping[str, MethodValues]:
        """The per-seed values of each finished method on every set, in the units of charts."""
        found = {}
        for name, sets in self.table.values.items():
            by_key = {
                metric_key(metric, where): by for where, metrics in sets.items() for metric, by in metrics.items()
            }
            values = {key: [chart_scale(key) * one for one in by_seed.values()] for key, by_seed in by_key.items()}
            seeds = {key: list(by_seed) for key, by_seed in by_key.items()}
            found[name] = MethodValues(name, self.title(name), values, self.is_ours(name), seeds)
        return found

    def network_of(self, method: str) -> tuple[str, tuple[str, ...]]:
        """Return the letter and the methods of a network that several share; empty for one of a method's own."""
        shared = ((chr(ord("A") + at), names) for at, names in enumerate(self.networks) if method in names)
        return next(shared, ("", ()))

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics a reader looks at first: of the test rows, then of near OOD: its mean, or its first set."""
        near = self.ood_means[:1] or self.near_first[:1]
        keys = [*HEADLINE, *(f"{metric}@{name}" for name in near for metric in HEADLINE_OOD)]
        return tuple(key for key in keys if any(self.values(method, key) for method in self.methods))

    @property
    def near_sets(self) -> tuple[str, ...]:
        """The OOD sets that the task calls near."""
        return tuple(map(str, self.first_record.near_ood)) if self.first_record else ()

    def sets(self, kind: str) -> tuple[str, ...]:
        """Names of the sets of a kind ("ood", "shift") that any method has, in the order of the records."""
        return self.table.sets(kind)

    @property
    def near_first(self) -> tuple[str, ...]:
        """OOD sets, the near ones first."""
        near = self.table.near_sets
        return (*near, *(name for name in self.sets("ood") if name not in near))

    @property
    def ood_means(self) -> tuple[str, ...]:
        """The sets that are means over near and over far OOD sets, as far as the records hold them."""
        return tuple(name for kind in ("near", "far") for name in self.sets(kind))

    def is_a_mean_alone(self, name: str) -> bool:
        """Whether a mean over near or over far OOD sets is of this set alone, so that both have the same values."""
        near = self.table.near_sets
        far = tuple(other for other in self.sets("ood") if other not in near)
        return any(sets == (name,) and self.sets(kind) for kind, sets in (("near", near), ("far", far)))

    def sample(self, method: str, key: str) -> Sample | None:
        """N, mean and deviation over seeds of ``metric`` or ``metric@set``; None where there is no value."""
        metric, where = split_key(key)
        return self.table.sample(method, where, metric)

    def values(self, method: str, key: str) -> tuple[float, ...]:
        """Per-seed values of ``metric`` or ``metric@set``, in the order of the seeds."""
        metric, where = split_key(key)
        by_seed = self.table.of(method, where, metric)
        return tuple(by_seed[seed] for seed in sorted(by_seed))


@dataclass(frozen=True)
class Run:
    """A run read whole, predictions aside; ``store`` is None where it is in memory alone."""

    store: RunStore | None
    manifest: Manifest
    groups: tuple[Group, ...]

    @property
    def n_planned(self) -> int:
        """Cells the run was asked for."""
        return sum(len(group.planned) for group in self.groups)

    @property
    def n_done(self) -> int:
        """Cells that are finished."""
        return sum(len(group.records) for group in self.groups)

    @property
    def records(self) -> list[CellRecord]:
        """The records of all finished cells."""
        return [record for group in self.groups for record in group.records.values()]

    @property
    def tables(self) -> list[Results]:
        """The groups' values, for the statistics."""
        return [group.table for group in self.groups if group.methods]


def load_run(store: RunStore, say: Callable[[str], object] | None = None) -> Run:
    """Read the manifest and the records of a run folder; unfinished cells are kept by name, not skipped in silence.

    ``say`` hears of metrics that had to be computed again, because other code than today's had computed them.
    """
    manifest = store.read_manifest()
    records = current_records(store, manifest.cells, say)
    done = {record.cell for record in records}
    failures = {cell: text for cell in manifest.cells if cell not in done and (text := _failure(store, cell))}
    return Run(store, manifest, group_cells(manifest.cells, records, failures))


def group_cells(
    cells: Iterable[Cell], records: Sequence[CellRecord], failures: Mapping[Cell, str] | None = None
) -> tuple[Group, ...]:
    """Return planned cells by task and protocol, with the records of those that have finished."""
    failures = failures or {}
    tables = {(table.task, table.protocol): table for table in group_records(records)}
    record_of = {record.cell: record for record in records}
    planned: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        planned.setdefault((cell.task, cell.protocol), []).append(cell)
    groups = []
    for (task, protocol), own in planned.items():
        finished = {(cell.method, cell.seed): record_of[cell] for cell in own if cell in record_of}
        missing = tuple(cell for cell in own if (cell.method, cell.seed) not in finished)
        why = {cell: failures[cell] for cell in missing if cell in failures}
        table = tables.get((task, protocol)) or Results(task, protocol, {}, {}, {}, (), {})
        groups.append(Group(task, protocol, table, finished, tuple(own), missing, why))
    return tuple(groups)


def budget_words(budget: Budget) -> str:
    """Return "full budget", or "reduced: …" naming each limit."""
    limits = budget_limits(budget)
    return f"reduced: {limits}" if limits else "full budget"


def budget_limits(budget: Budget) -> str:
    """Return each limit of a budget in words; empty where nothing is cut."""
    limits = sorted(asdict(budget).items())
    return ", ".join(BUDGET_WORDS[name].format(value) for name, value in limits if value is not None)


def _failure(store: RunStore, cell: Cell) -> str:
    if store.failure(cell) is None:
        return ""
    lines = store.read_failure(cell).strip().splitlines()
    return lines[-1].strip() if lines else "failed without a message"
