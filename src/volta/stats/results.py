"""The finished cells of one task and protocol as an in-memory table: method → set → metric → {seed: value}."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from volta.bench.cells import Cell
from volta.bench.records import OWN, TEST, CellRecord, EvalSet
from volta.bench.rescoring import current_records
from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.stats.samples import Sample, samples_of

OUR_ORIGIN = "volta"
BASELINE_ORIGINS = ("paper", "extra", OWN)
ABLATION_ORIGIN = "ablation"
TEST_SET = str(TEST)

Values = Mapping[str, Mapping[str, Mapping[str, Mapping[int, float]]]]


@dataclass(frozen=True)
class Results:
    """All values of one (task, protocol).

    ``values``: method → set → metric → {seed: value}, methods in the order of the plan, sets by their stored names as
    in every CSV file; ``titles`` and ``origins`` by method; ``near_sets``: the OOD sets that AUROC is compared on;
    ``cells`` by (method, seed); ``no_near_set``: no OOD set is near, and the first one stands in; ``n_rows``: number of
    test rows by (method, seed), where it is known.
    """

    task: str
    protocol: str
    values: Values
    titles: Mapping[str, str]
    origins: Mapping[str, str]
    near_sets: tuple[str, ...]
    cells: Mapping[tuple[str, int], Cell]
    no_near_set: bool = False
    n_rows: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def has_other_rows(self, first: str, second: str) -> bool:
        """Whether two methods were scored on other test rows with a seed that both have."""
        shared = set(self.seeds(first)) & set(self.seeds(second))
        return any(self.n_rows.get((first, seed)) != self.n_rows.get((second, seed)) for seed in shared)

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method, in the order of the plan."""
        return tuple(self.values)

    @property
    def ours(self) -> str | None:
        """The method that is compared with the rest, by its record's origin; None where it was not run."""
        return next((name for name in self.values if self.origins[name] == OUR_ORIGIN), None)

    @property
    def baselines(self) -> tuple[str, ...]:
        """What our method is compared with: the paper's baselines, the extra methods and own predictions."""
        return tuple(name for name in self.values if self.origins[name] in BASELINE_ORIGINS)

    @property
    def ablation_rows(self) -> tuple[str, ...]:
        """The methods of the ablation study, the full model among them."""
        return tuple(name for name in self.values if self.origins[name] == ABLATION_ORIGIN)

    @property
    def ood_sets(self) -> tuple[str, ...]:
        """Every OOD set that some method has."""
        names = dict.fromkeys(name for sets in self.values.values() for name in sets)
        return tuple(name for name in names if EvalSet.parse(name).kind == "ood")

    @property
    def is_own(self) -> bool:
        """Whether all predictions were brought along, so that nothing here was trained by the benchmark."""
        return all(origin == OWN for origin in self.origins.values())

    def of(self, method: str, eval_set: str, metric: str) -> Mapping[int, float]:
        """Return {seed: value}; empty where the method, the set or the metric is not there."""
        return self.values.get(method, {}).get(eval_set, {}).get(metric, {})

    def sample(self, method: str, eval_set: str, metric: str) -> Sample | None:
        """Return n, mean and deviation over seeds, or None where there is no value."""
        return self.samples.get((method, eval_set, metric))

    @cached_property
    def samples(self) -> Mapping[tuple[str, str, str], Sample]:
        """What :meth:`sample` returns, by (method, set, metric), in the order of the values."""
        found = {
            (method, eval_set, metric): by_seed.values()
            for method, sets in self.values.items()
            for eval_set, metrics in sets.items()
            for metric, by_seed in metrics.items()
            if by_seed
        }
        return dict(zip(found, samples_of(list(found.values())), strict=True))

    def seeds(self, method: str) -> tuple[int, ...]:
        """Return the finished seeds of a method, in order."""
        return self._seeds.get(method, ())

    @cached_property
    def _seeds(self) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for name, seed in self.cells:
            found.setdefault(name, []).append(seed)
        return {name: tuple(sorted(seeds)) for name, seeds in found.items()}


def load_tables(store: RunStore) -> list[Results]:
    """Return one table per task and protocol of a run folder."""
    return group_records(current_records(store, store.cells()))


def group_records(records: Iterable[CellRecord]) -> list[Results]:
    """Return one table per (task, protocol), in the order of the records; values that are not finite are refused."""
    groups: dict[tuple[str, str], list[CellRecord]] = {}
    for record in records:
        groups.setdefault((record.cell.task, record.cell.protocol), []).append(record)
    return [_table(task, protocol, group) for (task, protocol), group in groups.items()]


def _table(task: str, protocol: str, records: list[CellRecord]) -> Results:
    values: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    titles: dict[str, str] = {}
    origins: dict[str, str] = {}
    near: dict[str, None] = {}
    ood_sets: dict[str, None] = {}
    cells: dict[tuple[str, int], Cell] = {}
    for record in records:
        cell = record.cell
        if (cell.method, cell.seed) in cells:
            raise InputError(f"records holds {cell.label} twice; pass the records of one run")
        cells[cell.method, cell.seed] = cell
        titles[cell.method] = record.title
        origins[cell.method] = record.origin
        near |= {str(eval_set): None for eval_set in record.near_ood}
        by_set = values.setdefault(cell.method, {})
        for eval_set, metrics in record.metrics.items():
            if eval_set.kind == "ood":
                ood_sets[str(eval_set)] = None
            for metric, value in metrics.items():
                if not math.isfinite(value):
                    raise InputError(f"{cell.label}: {metric} on {eval_set} is {value}; run this cell again")
                by_set.setdefault(str(eval_set), {}).setdefault(metric, {})[cell.seed] = value
    near_sets = tuple(name for name in near if name in ood_sets)
    stand_in = tuple(ood_sets)[:1]
    n_rows = {
        (record.cell.method, record.cell.seed): record.rows[TEST_SET] for record in records if TEST_SET in record.rows
    }
    return Results(task, protocol, values, titles, origins, near_sets or stand_in, cells, not near_sets, n_rows)
