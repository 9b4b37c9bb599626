"""Means and deviations over seeds: `summary.csv` and `corruptions.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from volta.bench.records import EvalSet
from volta.stats.csv_rows import joined_notes
from volta.stats.results import Results
from volta.stats.samples import samples_of

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
            parsed = {EvalSet.parse(name): metrics for name, metrics in sets.items()}
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
