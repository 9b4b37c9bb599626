"""The finished cells of one task and protocol as an in-memory table: method → set → metric → {seed: value}."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volta.bench.cells import Cell
from volta.core.errors import InputError
from volta.stats.samples import Sample, sample_of

VOLTA = "volta"
FULL = "volta-full"
TEST = "test"
BASELINE_ORIGINS = ("paper", "extra")

Values = Mapping[str, Mapping[str, Mapping[str, Mapping[int, float]]]]


@dataclass(frozen=True)
class Results:
    """All values of one (task, protocol).

    ``values``: method → set → metric → {seed: value}, methods in the order of the plan; ``titles`` and ``origins`` by
    method; ``near_sets``: the eval sets ("ood:NAME") that AUROC is tested on; ``cells`` by (method, seed).
    """

    task: str
    protocol: str
    values: Values
    titles: Mapping[str, str]
    origins: Mapping[str, str]
    near_sets: tuple[str, ...]
    cells: Mapping[tuple[str, int], Cell]

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method, in the order of the plan."""
        return tuple(self.values)

    @property
    def baselines(self) -> tuple[str, ...]:
        """What VOLTA is compared with: the paper's baselines and the extra methods, without ablation rows."""
        return tuple(name for name in self.values if self.origins[name] in BASELINE_ORIGINS)

    @property
    def ablation_rows(self) -> tuple[str, ...]:
        """The methods of the ablation study, the full model among them."""
        return tuple(name for name in self.values if self.origins[name] == "ablation" or name == FULL)

    def of(self, method: str, eval_set: str, metric: str) -> Mapping[int, float]:
        """Return {seed: value}; empty where the method, the set or the metric is not there."""
        return self.values.get(method, {}).get(eval_set, {}).get(metric, {})

    def sample(self, method: str, eval_set: str, metric: str) -> Sample | None:
        """Return n, mean and deviation over seeds, or None where there is no value."""
        values = self.of(method, eval_set, metric)
        return sample_of(values.values()) if values else None

    def seeds(self, method: str) -> tuple[int, ...]:
        """Return the finished seeds of a method, in order."""
        return tuple(sorted(seed for name, seed in self.cells if name == method))


def group_records(records: Iterable[Mapping[str, Any]]) -> list[Results]:
    """Return one table per (task, protocol), in the order of the records.

    A record is {"cell": {task, protocol, method, seed, key}, "metrics": {set: {metric: value}}, "title", "origin",
    "near_ood": [names]}. A metric stored as null counts as absent; any other value that is not finite is refused.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        cell = record["cell"]
        groups.setdefault((cell["task"], cell["protocol"]), []).append(record)
    return [_table(task, protocol, group) for (task, protocol), group in groups.items()]


def _table(task: str, protocol: str, records: list[Mapping[str, Any]]) -> Results:
    values: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    titles: dict[str, str] = {}
    origins: dict[str, str] = {}
    near: dict[str, None] = {}
    ood_sets: dict[str, None] = {}
    cells: dict[tuple[str, int], Cell] = {}
    for record in records:
        cell = Cell(**record["cell"])
        if (cell.method, cell.seed) in cells:
            raise InputError(f"records holds {cell.label} twice; pass the records of one run")
        cells[cell.method, cell.seed] = cell
        titles[cell.method] = str(record.get("title", cell.method))
        origins[cell.method] = str(record.get("origin", "extra"))
        near |= {f"ood:{name}": None for name in record.get("near_ood", ())}
        by_set = values.setdefault(cell.method, {})
        for eval_set, metrics in record["metrics"].items():
            if eval_set.startswith("ood:"):
                ood_sets[eval_set] = None
            for metric, value in metrics.items():
                if value is None:
                    continue
                if not math.isfinite(value):
                    raise InputError(f"{cell.label}: {metric} on {eval_set} is {value}; run this cell again")
                by_set.setdefault(eval_set, {}).setdefault(metric, {})[cell.seed] = float(value)
    near_sets = tuple(name for name in near if name in ood_sets) or tuple(ood_sets)[:1]
    return Results(task, protocol, values, titles, origins, near_sets, cells)
