"""What is kept of a run: the record of a finished cell, the manifest, and what it was made with."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from volta._version import __version__
from volta.bench.cell_metrics import TEST, EvalSet
from volta.bench.keys import Cell, Fingerprints
from volta.core.checksummed import FileKind, JsonFields, JsonObject
from volta.core.errors import InputError, StoreError
from volta.core.seeding import PAPER_SEEDS, check_seed
from volta.core.types import SplitDraw, Task
from volta.networks.recipe import Budget, TrainingLog

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "safetensors")


@dataclass(frozen=True)
class BlasLibrary:
    """A loaded library of linear algebra, and the processor architecture that it took its kernels for."""

    name: str
    version: str | None
    architecture: str | None

    def __str__(self) -> str:
        return " ".join(part for part in (self.name, self.version, self.architecture) if part)


@dataclass(frozen=True)
class Environment:
    """Versions, hardware and commit; what could not be found out is None.

    ``cpu_capability`` is the instruction set torch uses (AVX2, AVX512, ...), ``blas`` the libraries NumPy and SciPy
    use: on one processor both can be set by variables, and equal seeds then give other numbers.
    """

    volta: str
    commit: str | None
    python: str
    packages: Mapping[str, str | None]
    platform: str
    machine: str
    cpu: str
    cores: int | None
    memory_gb: float | None
    cpu_capability: str | None = None
    blas: tuple[BlasLibrary, ...] = ()

    @property
    def instruction_set(self) -> str:
        """What the libraries compute with, in words; empty in records of a version that did not keep it."""
        parts = [self.cpu_capability] if self.cpu_capability else []
        return ", ".join([*parts, *map(str, self.blas)])

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {
            "volta": self.volta,
            "commit": self.commit,
            "python": self.python,
            "packages": dict(self.packages),
            "platform": self.platform,
            "machine": self.machine,
            "cpu": self.cpu,
            "cores": self.cores,
            "memory_gb": self.memory_gb,
            "cpu_capability": self.cpu_capability,
            "blas": [asdict(library) for library in self.blas],
        }

    @classmethod
    def from_json(cls, stored: JsonFields) -> Environment:
        """Return the environment that :meth:`to_json` wrote."""
        packages = stored.fields("packages")
        return cls(
            volta=stored.text("volta"),
            commit=stored.optional_text("commit"),
            python=stored.text("python"),
            packages={name: packages.optional_text(name) for name in packages.values},
            platform=stored.text("platform"),
            machine=stored.text("machine"),
            cpu=stored.text("cpu"),
            cores=stored.optional_integer("cores"),
            memory_gb=stored.optional_number("memory_gb"),
            cpu_capability=stored.optional_text("cpu_capability"),
            blas=_blas_from_json(stored.list_of_fields("blas")) if "blas" in stored.values else (),
        )


@cache
def environment() -> Environment:
    """Return versions, hardware and commit of this process, for manifests and records."""
    return replace(scoring_environment(), cpu_capability=_cpu_capability(), blas=_blas())


@cache
def scoring_environment() -> Environment:
    """Return the same without what networks compute with, for predictions that were made elsewhere. Needs no torch."""
    return Environment(
        volta=__version__,
        commit=_commit(),
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
        platform=platform.platform(),
        machine=platform.machine(),
        cpu=_cpu(),
        cores=os.cpu_count(),
        memory_gb=_memory_gb(),
    )


def _cpu_capability() -> str:
    import torch

    return torch.backends.cpu.get_cpu_capability()


def _blas() -> tuple[BlasLibrary, ...]:
    # Only loaded libraries are seen, and SciPy brings one of its own: every process is to see the same ones.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libraries = {
        BlasLibrary(library["internal_api"], library.get("version"), library.get("architecture")) for library in found
    }
    return tuple(sorted(libraries, key=str))


def _blas_from_json(stored: list[JsonFields]) -> tuple[BlasLibrary, ...]:
    return tuple(
        BlasLibrary(one.text("name"), one.optional_text("version"), one.optional_text("architecture")) for one in stored
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit of the checkout the package runs from, with ``+changes`` if files differ; None if installed."""
    package = Path(__file__).resolve().parents[1]
    try:
        tracked = _git(package, "ls-files", "--error-unmatch", "_version.py")
        commit = _git(package, "rev-parse", "HEAD")
        changed = _git(package, "status", "--porcelain", "--", str(package))
    except (OSError, subprocess.SubprocessError):
        return None
    return (commit + ("+changes" if changed else "")) if tracked else None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        return None


Metrics = Mapping[EvalSet, Mapping[str, float]]
EXTERNAL = "own"
"""Origin of methods whose predictions were brought along, and the protocol of runs made of nothing else."""
NUMERIC = ("numpy", "scipy", "torch")
"""Libraries that results are computed with."""
RECORD_FILE = FileKind("record of a cell", 2, "run volta bench again to compute it anew")


@dataclass(frozen=True)
class CellRecord:
    """A finished cell: what it was asked, what it ran on, and its metrics.

    ``data``: hash of each part of the data; ``source``: the files it came from, in words; ``backbone``: what made
    features of images, where one was named; ``rows``: number of rows by part; ``floored_rows``: rows whose true class
    had probability 0, by set; ``notes``: warnings while it ran; ``fingerprints``: the code it rests on;
    ``trainings``: how each network was trained that the method trained or used; ``split``: which draw of the rows it
    saw; ``predictions``: checksum of the stored predictions, empty until they are stored.
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
    fingerprints: Fingerprints
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
            "fingerprints": self.fingerprints.to_json(),
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
            fingerprints=Fingerprints.from_json(stored.fields("fingerprints")),
            trainings=tuple(map(_training, stored.list_of_fields("trainings") if "trainings" in stored.values else ())),
            split=_split(stored.fields("split")) if "split" in stored.values else SplitDraw(),
            predictions=stored.text("predictions"),
        )


def instruction_sets(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the instruction sets that cells ran with, and how many cells with each; those not on record left out."""
    return dict(Counter(found for record in records if (found := record.environment.instruction_set)))


def library_versions(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the versions of libraries that numbers rest on, and how many cells ran with each; own models aside."""
    found = (record.environment.packages for record in records if record.origin != EXTERNAL)
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


MANIFEST_FILE = FileKind("manifest of a run", 2, "finished cells are safe: delete that file and run volta bench again")
EXTENDED = ("tasks", "methods", "protocols", "seeds")
MAX_THREADS = 4096
"""No machine has more; a run folder may come from anyone."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is asked for: tasks × protocols × methods × seeds, with one budget, device and thread count for all.

    ``backbone`` and its ``weights`` file make features of images. ``severities`` and ``shifts`` say which corrupted
    test sets there are. ``resplit``: whether train, val and cal are drawn again for every seed; None does so for tasks
    whose test rows rotate with the seed (``digits``), and leaves all others on their fixed split. ``scale`` says how
    columns are scaled. ``data`` is the data folder. ``array_tasks`` are tasks in memory, which ``tasks`` also names.

    The manifest stores all of it but where things are on this machine: ``data``, ``array_tasks``, the folder of
    ``weights``. Tasks, methods, protocols and seeds of a run folder may grow; the rest holds for all its cells.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    protocols: tuple[str, ...] = ("fair",)
    seeds: tuple[int, ...] = PAPER_SEEDS
    budget: Budget = field(default_factory=Budget)
    device: str = "cpu"
    threads: int = 1
    backbone: str | None = None
    weights: Path | None = None
    severities: tuple[int, ...] = (1,)
    shifts: str = "auto"
    resplit: bool | None = None
    scale: str = "auto"
    data: Path | None = None
    array_tasks: tuple[Task, ...] = ()

    def __post_init__(self) -> None:
        for name in EXTENDED:
            values = getattr(self, name)
            if not values:
                raise InputError(f"{name} is empty; name at least one")
            if len(set(values)) < len(values):
                raise InputError(f"{name} names something twice: {', '.join(map(str, values))}")
        if not 1 <= self.threads <= MAX_THREADS:
            raise InputError(f"threads is {self.threads}; pass a whole number from 1 to {MAX_THREADS}")
        for seed in self.seeds:
            check_seed(seed, "a seed")

    @property
    def fixed(self) -> JsonObject:
        """What all cells of a run folder must have in common, by name."""
        return {name: value for name, value in self.to_json().items() if name not in EXTENDED}

    def extended(self, more: RunConfig) -> RunConfig:
        """Return ``more`` with what was asked before in front of what it adds."""
        joined: dict[str, Any] = {
            name: tuple(dict.fromkeys(getattr(self, name) + getattr(more, name))) for name in EXTENDED
        }
        return replace(more, **joined)

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("data", "array_tasks")}
        stored |= {"budget": asdict(self.budget), "weights": self.weights.name if self.weights else None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stored.items()}

    @classmethod
    def from_json(cls, stored: JsonFields) -> RunConfig:
        """Return the configuration that :meth:`to_json` wrote."""
        weights = stored.optional_text("weights")
        try:
            return cls(
                tasks=stored.texts("tasks"),
                methods=stored.texts("methods"),
                protocols=stored.texts("protocols"),
                seeds=stored.integers("seeds"),
                budget=budget_from_json(stored.fields("budget")),
                device=stored.text("device"),
                threads=stored.integer("threads"),
                backbone=stored.optional_text("backbone"),
                weights=None if weights is None else Path(weights),
                severities=stored.integers("severities"),
                shifts=stored.text("shifts"),
                resplit=stored.optional_flag("resplit"),
                scale=stored.text("scale"),
            )
        except InputError as error:
            raise StoreError(f"{stored.where}: {error}; {stored.remedy}") from error


@dataclass(frozen=True)
class Manifest:
    """The cells of a run folder, the commands that asked for them, and where they last ran.

    ``config``: what benchmarks in the folder were asked for; None where it holds external predictions alone.
    """

    created: str
    updated: str
    config: RunConfig | None
    cells: tuple[Cell, ...]
    commands: tuple[str, ...]
    environment: Environment

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the folder: those that a benchmark was asked for, then others."""
        return (*dict.fromkeys([*(self.config.tasks if self.config else ()), *(cell.task for cell in self.cells)]),)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the folder: those that a benchmark was asked for, then others."""
        return (*dict.fromkeys([*(self.config.methods if self.config else ()), *(cell.method for cell in self.cells)]),)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the folder: those that a benchmark was asked for, then others."""
        return (*dict.fromkeys([*(self.config.seeds if self.config else ()), *(cell.seed for cell in self.cells)]),)

    def others(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the folder's cells that ``cells`` do not replace."""
        replaced = {(cell.block, cell.method) for cell in cells}
        return [cell for cell in self.cells if (cell.block, cell.method) not in replaced]

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {
            "created": self.created,
            "updated": self.updated,
            "config": self.config.to_json() if self.config else None,
            "cells": [cell.to_json() for cell in self.cells],
            "commands": list(self.commands),
            "environment": self.environment.to_json(),
        }

    @classmethod
    def from_json(cls, stored: JsonFields) -> Manifest:
        """Return the manifest that :meth:`to_json` wrote."""
        return cls(
            created=stored.text("created"),
            updated=stored.text("updated"),
            config=None if stored.get("config") is None else RunConfig.from_json(stored.fields("config")),
            cells=tuple(Cell.from_json(cell) for cell in stored.list_of_fields("cells")),
            commands=stored.texts("commands"),
            environment=Environment.from_json(stored.fields("environment")),
        )


def updated_manifest(
    known: Manifest | None,
    cells: Sequence[Cell],
    *,
    command: str,
    environment: Environment,
    config: RunConfig | None = None,
) -> Manifest:
    """Return a folder's manifest with ``cells`` in place of those of the same method, task, protocol and seed.

    ``environment`` replaces the stored one where ``config`` says that cells run on it.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    commands = (command,) if command else ()
    if known is None:
        return Manifest(now, now, config, tuple(cells), commands, environment)
    return Manifest(
        created=known.created,
        updated=now,
        config=known.config.extended(config) if known.config and config else known.config or config,
        cells=(*known.others(cells), *cells),
        commands=tuple(dict.fromkeys([*known.commands, *commands])),
        environment=environment if config else known.environment,
    )
