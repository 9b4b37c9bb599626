"""What is kept of a finished cell, as one value with types; JSON is read and written here and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

from volta.bench.cells import Cell
from volta.bench.environment import Environment
from volta.bench.eval_set import TEST, EvalSet
from volta.bench.stamps import NO_STAMPS, Stamps
from volta.core.errors import InputError, StoreError
from volta.core.json_fields import JsonFields, JsonObject
from volta.core.sealed import FileKind
from volta.core.types import SplitDraw
from volta.networks.recipe import Budget
from volta.networks.training_log import TrainingLog

__all__ = [
    "OWN",
    "TEST",
    "CellRecord",
    "EvalSet",
    "Metrics",
    "budget_from_json",
    "instruction_sets",
    "library_versions",
    "stopped_in_climb",
]

Metrics = Mapping[EvalSet, Mapping[str, float]]
OWN = "own"
"""Origin of methods whose predictions were brought along, and the protocol of runs made of nothing else."""
NUMERIC = ("numpy", "scipy", "torch")
"""Libraries that results are computed with."""
RECORD_FILE = FileKind("record of a cell", 2, "run volta bench again to compute it anew")


@dataclass(frozen=True)
class CellRecord:
    """A finished cell: what it was asked, what it ran on, and its metrics.

    ``data``: hash of each part of the data; ``source``: the files it came from, in words; ``backbone``: what made
    features of images, where one was named; ``rows``: number of rows by part; ``floored_rows``: rows whose true class
    had probability 0, by set; ``notes``: warnings while it ran; ``stamps``: the code it rests on; ``trainings``: how
    each network was trained that the method trained or used; ``split``: which draw of the rows it saw;
    ``predictions``: checksum of the stored predictions, empty until they are stored.
    """

    cell: Cell
    title: str
    origin: str
    parameters: Mapping[str, object]
    budget: Budget
    device: str
    threads: int
    data: Mapping[str, str]
    source: str
    backbone: str | None
    rows: Mapping[str, int]
    near_ood: tuple[EvalSet, ...]
    metrics: Metrics
    floored_rows: Mapping[EvalSet, int]
    notes: tuple[str, ...]
    environment: Environment
    wall_s: float
    stamps: Stamps
    trainings: tuple[TrainingLog, ...] = ()
    split: SplitDraw = field(default_factory=SplitDraw)
    predictions: str = ""

    @property
    def test(self) -> Mapping[str, float]:
        """Metrics on the test rows."""
        return self.metrics[TEST]

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {
            "cell": self.cell.to_json(),
            "title": self.title,
            "origin": self.origin,
            "parameters": dict(self.parameters),
            "budget": asdict(self.budget),
            "device": self.device,
            "threads": self.threads,
            "data": dict(self.data),
            "source": self.source,
            "features": self.backbone,
            "rows": dict(self.rows),
            "near_ood": [one.name for one in self.near_ood],
            "metrics": {str(one): dict(values) for one, values in self.metrics.items()},
            "floored_rows": {str(one): count for one, count in self.floored_rows.items()},
            "notes": list(self.notes),
            "environment": self.environment.to_json(),
            "wall_s": self.wall_s,
            "stamps": self.stamps.to_json(),
            "trainings": [_training_to_json(log) for log in self.trainings],
            "split": asdict(self.split),
            "predictions": self.predictions,
        }

    @classmethod
    def from_json(cls, stored: JsonFields) -> CellRecord:
        """Return the record that :meth:`to_json` wrote; a metric that is null counts as absent."""
        data, rows = stored.fields("data"), stored.fields("rows")
        floored = stored.fields("floored_rows")
        # Records are compared by their test rows: one without is none of ours.
        data.text("test")
        return cls(
            cell=Cell.from_json(stored.fields("cell")),
            title=stored.text("title"),
            origin=stored.text("origin"),
            parameters=stored.fields("parameters").values,
            budget=budget_from_json(stored.fields("budget")),
            device=stored.text("device"),
            threads=stored.integer("threads"),
            data={name: data.text(name) for name in data.values},
            source=stored.text("source"),
            backbone=stored.optional_text("features"),
            rows={name: rows.integer(name) for name in rows.values},
            near_ood=tuple(EvalSet("ood", name) for name in stored.texts("near_ood")),
            metrics=_metrics(stored.fields("metrics")),
            floored_rows={_eval_set(name, floored): floored.integer(name) for name in floored.values},
            notes=stored.texts("notes"),
            environment=Environment.from_json(stored.fields("environment")),
            wall_s=stored.number("wall_s"),
            stamps=Stamps.from_json(stored.fields("stamps")) if "stamps" in stored.values else NO_STAMPS,
            trainings=tuple(map(_training, stored.list_of_fields("trainings") if "trainings" in stored.values else ())),
            split=_split(stored.fields("split")) if "split" in stored.values else SplitDraw(),
            predictions=stored.text("predictions"),
        )


def instruction_sets(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the instruction sets that cells ran with, and how many cells with each; those not on record left out."""
    return dict(Counter(found for record in records if (found := record.environment.instruction_set)))


def library_versions(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the versions of libraries that numbers rest on, and how many cells ran with each; own models aside."""
    found = (record.environment.packages for record in records if record.origin != OWN)
    return dict(Counter(", ".join(f"{name} {packages.get(name)}" for name in NUMERIC) for packages in found))


def stopped_in_climb(records: Iterable[CellRecord]) -> int:
    """Return how many cells rest on a network whose weights are from before the learning rate had reached its peak."""
    return sum(any("stopped in the climb" in log.marks for log in record.trainings) for record in records)


def _training_to_json(log: TrainingLog) -> JsonObject:
    """Return a training with what follows from it, for whoever reads the file."""
    derived: JsonObject = {"epochs": log.epochs, "best_epoch": log.best_epoch, "marks": list(log.marks)}
    return derived | asdict(log)


def _training(stored: JsonFields) -> TrainingLog:
    return TrainingLog(
        max_epochs=stored.integer("max_epochs"),
        patience=stored.optional_integer("patience"),
        climb_epochs=stored.number("climb_epochs"),
        val_losses=stored.numbers("val_losses"),
        seconds=stored.number("seconds"),
    )


def _split(stored: JsonFields) -> SplitDraw:
    names = ("seed", "fold", "n_folds")
    return SplitDraw(*(stored.optional_integer(name) for name in names))


def budget_from_json(stored: JsonFields) -> Budget:
    """Return a budget; a limit that is absent, as in files of a version with fewer kinds of them, is not set."""
    names = {limit.name for limit in fields(Budget)}
    stored.refuse_unknown(names)
    try:
        return Budget(**{name: stored.optional_integer(name) for name in names})
    except InputError as error:
        raise StoreError(f"{stored.where}: {error}; {stored.remedy}") from error


def _metrics(stored: JsonFields) -> Metrics:
    metrics: dict[EvalSet, dict[str, float]] = {}
    for set_name in stored.values:
        values = stored.fields(set_name)
        numbers = {metric: values.optional_number(metric) for metric in values.values}
        metrics[_eval_set(set_name, stored)] = {name: number for name, number in numbers.items() if number is not None}
    return metrics


def _eval_set(name: str, stored: JsonFields) -> EvalSet:
    try:
        return EvalSet.parse(name)
    except InputError as error:
        raise StoreError(f"{stored.where}: {error}; {stored.remedy}") from error
