"""A run as data: which cells it has and what decides each one's result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from volta.core.files import canonical_json, hash_text

SCHEMA = 1
TIMING_METRICS = frozenset({"latency_ms", "latency_p95_ms", "peak_mb", "train_s"})
COST_METRICS = TIMING_METRICS | {"size_mb"}


@dataclass(frozen=True)
class Cell:
    """One method on one task with one seed under one protocol; ``key`` hashes everything that affects its result."""

    task: str
    protocol: str
    method: str
    seed: int
    key: str

    @property
    def folder(self) -> str:
        """Name of the cell's folder in the store."""
        return f"{self.task}--{self.protocol}--{self.method}--{self.seed}--{self.key[:12]}"

    @property
    def block(self) -> tuple[str, str, int]:
        """What cells that share a network have in common."""
        return (self.task, self.protocol, self.seed)

    @property
    def label(self) -> str:
        """Name of the cell for a person."""
        return f"{self.task} · {self.protocol} · {self.method} · seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return the cell as a JSON value."""
        return asdict(self)


def make_cell(
    task: str,
    protocol: str,
    method: str,
    seed: int,
    *,
    data_hash: str,
    parameters: Any,
    code: str,
    budget: Any,
    threads: int,
    device: str,
) -> Cell:
    """Return the cell with its key made from all that decides its result."""
    decisive = {
        "schema": SCHEMA,
        "task": task,
        "data": data_hash,
        "protocol": protocol,
        "method": method,
        "parameters": parameters,
        "code": code,
        "budget": budget,
        "seed": seed,
        "threads": threads,
        "device": device,
    }
    return Cell(task, protocol, method, seed, hash_text(canonical_json(decisive)))


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells seed by seed within a task, so that methods sharing a network follow each other."""
    return sorted(cells, key=lambda cell: cell.block)
