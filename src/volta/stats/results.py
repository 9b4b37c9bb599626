"""The finished cells of a task and protocol as tables, and means over seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import FAR, NEAR, TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP, EvalSet
from volta.bench.records import EXTERNAL, Cell, CellRecord
from volta.bench.store import RunStore, csv_text, current_records
from volta.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


RowT = TypeVar("RowT", bound="DataclassInstance")


def columns_of(row_type: type[DataclassInstance]) -> list[str]:
    """Return the column names of a row type, in order."""
    return [field.name for field in fields(row_type)]


def rows_to_csv(row_type: type[RowT], rows: Iterable[RowT]) -> str:
    """Return a header and one line a row; None is an empty field, bools are true and false, NaN is refused."""
    columns = columns_of(row_type)
    return csv_text(columns, ([_value(getattr(row, name), name) for name in columns] for row in rows))


def _value(value: object, column: str) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"column {column} holds {value}; leave it None and say why in the note column")
    return value


def joined_notes(*notes: str) -> str:
    """Return the notes that say something, each once, in order."""
    return "; ".join(dict.fromkeys(note for note in notes if note))


AFTER_TEMPERATURE = str(TEST_AFTER_TEMPERATURE)
BY_CONFIDENCE = str(TEST_BY_MSP)
OOD_AVERAGES = (str(NEAR), str(FAR))


@dataclass(frozen=True)
class Sample:
    """``n`` values with their ``mean`` and sample standard deviation ``std``, None where there is none to give."""

    n: int
    mean: float
    std: float | None

    @property
    def testable(self) -> bool:
        """Whether the sample carries a variance: two values or more and a known deviation."""
        return self.n >= 2 and self.std is not None

    @property
    def why_untestable(self) -> str:
        """Why the sample carries no variance; empty if it does."""
        if self.testable:
            return ""
        return "one seed: no standard deviation, no test" if self.n < 2 else "no standard deviation is given"


def sample_of(values: Iterable[float]) -> Sample:
    """Return n, mean and sample standard deviation s = √(Σ (x − x̄)² / (n − 1)) of per-seed values.

    Equal values give s = 0 exactly, never a rounding error that a test would take for a variance. One value gives
    no s.
    """
    return samples_of([list(values)])[0]


def samples_of(many: Sequence[Collection[float]]) -> list[Sample]:
    """Return what :func:`sample_of` does, of many collections of values at once.

    >>> [sample.mean for sample in samples_of([[1.0, 2.0], [3.0], [5.0, 6.0]])]
    [1.5, 3.0, 5.5]
    """
    by_length: dict[int, list[int]] = {}
    for place, values in enumerate(many):
        by_length.setdefault(len(values), []).append(place)
    found: dict[int, Sample] = {}
    for length, places in by_length.items():
        if not length:
            raise InputError("values is empty; pass at least one number")
        array = np.array([list(many[place]) for place in places], dtype=np.float64)
        found |= zip(places, _samples(array), strict=True)
    return [found[place] for place in range(len(many))]


def _samples(array: NDArray[np.float64]) -> list[Sample]:
    """Return the sample of each row of (n_samples, n)."""
    if not np.isfinite(array).all():
        raise InputError(f"values holds {array[~np.isfinite(array)][0]}; pass finite numbers")
    n = array.shape[1]
    # Shifting by a value of the sample makes the differences of equal values exactly 0.
    shifted = array - array[:, :1]
    means = (array[:, 0] + shifted.mean(axis=1)).tolist()
    deviations = np.std(shifted, axis=1, ddof=1).tolist() if n > 1 else [None] * len(means)
    return [Sample(n, mean, std) for mean, std in zip(means, deviations, strict=True)]


OUR_ORIGIN = "volta"
BASELINE_ORIGINS = ("paper", "extra", EXTERNAL)
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
        """What our method is compared with: the paper's baselines, the extra methods and external predictions."""
        return tuple(name for name in self.values if self.origins[name] in BASELINE_ORIGINS)

    @property
    def ablation_rows(self) -> tuple[str, ...]:
        """The methods of the ablation study, the full model among them."""
        return tuple(name for name in self.values if self.origins[name] == ABLATION_ORIGIN)

    @property
    def ood_sets(self) -> tuple[str, ...]:
        """Every OOD set that some method has."""
        return self.sets("ood")

    def sets(self, kind: str) -> tuple[str, ...]:
        """Return the names of the sets of a kind ("ood", "shift") that some method has, in the order of the records."""
        names = dict.fromkeys(name for sets in self.values.values() for name in sets)
        return tuple(name for name in names if EvalSet(name).kind == kind)

    @property
    def is_external(self) -> bool:
        """Whether all predictions are external, so that nothing here was trained by the benchmark."""
        return set(self.origins.values()) == {EXTERNAL}

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


PREDICTION_METRICS = ("accuracy", "ece", "nll", "brier")
"""What probabilities alone decide; OOD and selective scores are a method's own."""


def shared_networks(table: Results, methods: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two methods or more with the same accuracy, ECE, NLL and Brier score in every seed.

    Groups and their members are in the order of ``methods``; a method that lacks one of the four is in no group.
    """
    found: dict[tuple[tuple[tuple[int, float], ...], ...], list[str]] = {}
    for name in methods:
        values = tuple(tuple(sorted(table.of(name, TEST_SET, metric).items())) for metric in PREDICTION_METRICS)
        if all(values):
            found.setdefault(values, []).append(name)
    return tuple(tuple(names) for names in found.values() if len(names) > 1)


MEAN_OVER_CORRUPTIONS = "(mean)"
"""Stands in the corruption column where a row averages all corruptions of one severity; no set can be called so."""


@dataclass(frozen=True)
class OverSeeds:
    """Which metric of which method on which set a row is about, and over how many seeds."""

    task: str
    protocol: str
    method: str
    set: str
    metric: str
    n: int


@dataclass(frozen=True)
class SummaryRow(OverSeeds):
    """One metric of one method on one set, over seeds."""

    mean: float
    std: float | None
    note: str


@dataclass(frozen=True)
class CorruptionRow:
    """One metric of one method on one shifted test set, over seeds."""

    task: str
    protocol: str
    method: str
    corruption: str
    severity: int | None
    metric: str
    n: int
    mean: float
    std: float | None
    note: str


def summarise(tables: Iterable[Results]) -> list[SummaryRow]:
    """Return mean and sample standard deviation over seeds of every metric of every method on every set."""
    return [
        SummaryRow(
            table.task, table.protocol, method, eval_set, metric,
            sample.n, sample.mean, sample.std, sample.why_untestable,
        )
        for table in tables
        for (method, eval_set, metric), sample in table.samples.items()
    ]  # fmt: skip


def summarise_corruptions(tables: Iterable[Results]) -> list[CorruptionRow]:
    """Return mean and deviation on every shifted set, then averaged over the corruptions of each severity.

    For the average each seed's values are averaged over corruptions first, so its deviation is over seeds. Only
    seeds with every corruption of that severity take part, so that no seed is compared on an easier mix.
    """
    rows = []
    for table in tables:
        for method, sets in table.values.items():
            parsed = {EvalSet(name): metrics for name, metrics in sets.items()}
            shifted = {one: metrics for one, metrics in parsed.items() if one.kind == "shift"}
            found = list(_with_means(shifted))
            samples = samples_of([values.values() for *_, values, _ in found])
            for (corruption, severity, metric, _, note), sample in zip(found, samples, strict=True):
                rows.append(
                    CorruptionRow(
                        table.task, table.protocol, method, corruption, severity, metric,
                        sample.n, sample.mean, sample.std, joined_notes(note, sample.why_untestable),
                    )
                )  # fmt: skip
    return rows


def _with_means(
    shifted: Mapping[EvalSet, Mapping[str, Mapping[int, float]]],
) -> Iterator[tuple[str, int | None, str, Mapping[int, float], str]]:
    grouped: dict[tuple[int, str], list[Mapping[int, float]]] = {}
    for eval_set, metrics in shifted.items():
        for metric, values in metrics.items():
            yield eval_set.name, eval_set.severity, metric, values, ""
            if eval_set.severity is not None:
                grouped.setdefault((eval_set.severity, metric), []).append(values)
    for (severity, metric), parts in sorted(grouped.items(), key=lambda item: item[0][0]):
        seeds = sorted(set.intersection(*(set(part) for part in parts)))
        if seeds and len(parts) > 1:
            means = {seed: sum(part[seed] for part in parts) / len(parts) for seed in seeds}
            left_out = sorted(set.union(*(set(part) for part in parts)) - set(seeds))
            note = f"seeds without every corruption left out: {', '.join(map(str, left_out))}" if left_out else ""
            yield MEAN_OVER_CORRUPTIONS, severity, metric, means, note
