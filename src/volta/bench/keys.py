"""A cell as data, and what decides its result: settings and code.

Three fingerprints stand for code. *Training* decides weights and *method* predictions: both are in the cell's key.
*Scoring* decides metrics of stored predictions: it is in the record, and where it changes, metrics are computed again.
How outputs are cached, cells are distributed and costs are measured is in none: it changes no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from volta.bench.cell_metrics import metrics_of
from volta.core.files import canonical_json, hash_text
from volta.core.fingerprints import fingerprint
from volta.core.plugins import package_version
from volta.core.types import check_plain_name
from volta.metrics import METRICS
from volta.metrics.table import plugin_metrics
from volta.networks.recipe import Budget

if TYPE_CHECKING:
    from volta.methods.base import Method


@dataclass(frozen=True)
class Fingerprints:
    """Hashes of the code that decides weights, predictions and metrics; empty where such code did not run here."""

    training: str
    method: str
    scoring: str


def fingerprints_of(method: Method) -> Fingerprints:
    """Return the fingerprints of a cell that runs ``method`` with the code as it is.

    Versions of libraries are recorded with each cell and are part of none.
    """
    from volta.bench.cell import predict_sets
    from volta.networks.trainer import Trainer

    return Fingerprints(
        training=fingerprint([Trainer]),
        method=fingerprint([type(method), predict_sets]),
        scoring=scoring_fingerprint(),
    )


def scoring_fingerprint() -> str:
    """Return the fingerprint of what turns stored predictions into metrics, the metrics of plug-ins included."""
    functions = [metric.function for metric in plugin_metrics().values() if metric.function is not None]
    packages = sorted({package_version(function.__module__) for function in functions})
    return hash_text("\n".join([fingerprint([metrics_of, *functions]), *packages]))


SCHEMA = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_UNSAFE_IN_TASK = re.compile(r"[^A-Za-z0-9_.-]+")
_METHOD_LETTERS = 80
COST_METRICS = frozenset(name for name, metric in METRICS.items() if metric.measured)


@dataclass(frozen=True)
class Cell:
    """One method on one task with one seed under one protocol; ``key`` hashes everything that affects its result."""

    task: str
    protocol: str
    method: str
    seed: int
    key: str

    def __post_init__(self) -> None:
        """Refuse names that could lead out of a run folder, whoever gave them."""
        for name in ("task", "protocol", "key"):
            check_plain_name(getattr(self, name), name)

    @property
    def folder(self) -> str:
        """Name of the cell's folder in the store; the key tells apart methods that differ in punctuation only."""
        method = _UNSAFE.sub("-", self.method).strip("-")[:_METHOD_LETTERS]
        task = _UNSAFE_IN_TASK.sub("-", self.task)[:_METHOD_LETTERS]
        protocol = _UNSAFE_IN_TASK.sub("-", self.protocol)[:_METHOD_LETTERS]
        return f"{task}--{protocol}--{method}--{self.seed}--{self.key[:12]}"

    @property
    def block(self) -> tuple[str, str, int]:
        """What cells that share a network have in common."""
        return (self.task, self.protocol, self.seed)

    @property
    def label(self) -> str:
        """Name of the cell for a person."""
        return f"{self.task} · {self.protocol} · {self.method} · seed {self.seed}"


def make_cell(
    task: str,
    protocol: str,
    method: str,
    seed: int,
    *,
    data_hash: str,
    parameters: Mapping[str, object],
    fingerprints: Fingerprints,
    budget: Budget,
    threads: int,
    device: str,
    amp: bool = False,
    deterministic: bool = False,
    package: str = "",
) -> Cell:
    """Return the cell with its key made from all that decides its predictions; metrics follow from those.

    ``package``: the package and version that a method from outside volta was installed by.
    """
    decisive = {
        "schema": SCHEMA,
        "task": task,
        "data": data_hash,
        "protocol": protocol,
        "method": method,
        "parameters": dict(parameters),
        "training": fingerprints.training,
        "prediction": fingerprints.method,
        "budget": asdict(budget),
        "seed": seed,
        "threads": threads,
        "device": device,
        "amp": amp,
        "deterministic": deterministic,
    } | ({"package": package} if package else {})
    return Cell(task, protocol, method, seed, hash_text(canonical_json(decisive)))


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells seed by seed within a task, so that methods sharing a network follow each other."""
    return sorted(cells, key=lambda cell: cell.block)
