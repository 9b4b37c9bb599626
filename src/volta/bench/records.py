"""What is kept of a run: cells and what decides their results, records of finished cells, the manifest.

Three fingerprints stand for code. *Training* decides weights and *method* predictions: both are in the cell's key.
*Scoring* decides metrics of stored predictions: it is in the record, and where it changes, metrics are computed again.
How outputs are cached, cells are distributed and costs are measured is in none: it changes no value.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volta._version import __version__
from volta.bench.cell_metrics import TEST, EvalSet, metrics_of
from volta.core.checksummed import FileKind
from volta.core.errors import InputError
from volta.core.files import canonical_json, hash_text
from volta.core.fingerprints import fingerprint
from volta.core.plugins import package_version
from volta.core.seeding import PAPER_SEEDS, check_seed
from volta.core.types import SplitDraw, check_plain_name
from volta.metrics import METRICS
from volta.metrics.table import plugin_metrics
from volta.networks.recipe import Budget, TrainingLog

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


@cache
def environment() -> Environment:
    """Return versions, hardware and commit of this process, for manifests and records."""
    import torch

    return replace(scoring_environment(), cpu_capability=torch.backends.cpu.get_cpu_capability(), blas=_blas())


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


def _blas() -> tuple[BlasLibrary, ...]:
    # Only loaded libraries are seen, and SciPy brings one of its own: every process is to see the same ones.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libraries = {
        BlasLibrary(library["internal_api"], library.get("version"), library.get("architecture")) for library in found
    }
    return tuple(sorted(libraries, key=str))


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
EXTERNAL = "external"
"""Origin of methods with external predictions, and the protocol of runs made of nothing else."""
NUMERIC = ("numpy", "scipy", "torch")
"""Libraries that results are computed with."""
RECORD_FILE = FileKind("record of a cell", 3, "run volta bench once more to compute it")


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
    parameters: Mapping[str, Any]
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


def instruction_sets(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the instruction sets that cells ran with, and how many cells with each; those not on record left out."""
    return dict(Counter(found for record in records if (found := record.environment.instruction_set)))


def library_versions(records: Iterable[CellRecord]) -> dict[str, int]:
    """Return the versions of libraries that numbers rest on, and how many cells ran with each; own models aside."""
    found = (record.environment.packages for record in records if record.origin != EXTERNAL)
    return dict(Counter(", ".join(f"{name} {packages.get(name)}" for name in NUMERIC) for packages in found))


def stopped_in_warmup(records: Iterable[CellRecord]) -> int:
    """Return how many cells rest on a network whose weights are from before the learning rate had reached its peak."""
    return sum(any("stopped in warm-up" in log.marks for log in record.trainings) for record in records)


MANIFEST_FILE = FileKind("manifest of a run", 2, "finished cells are safe: delete that file and run volta bench again")
EXTENDED = ("tasks", "methods", "protocols", "seeds")
MAX_THREADS = 4096
"""No machine has more; a run folder may come from anyone."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is asked for: tasks × protocols × methods × seeds, with one budget, device and thread count for all.

    ``amp``: train in automatic mixed precision; ``deterministic``: allow deterministic algorithms alone, which decides
    something on GPUs. ``backbone`` and its ``weights`` file make features of images. ``severities`` and ``shifts`` say
    which corrupted
    test sets there are. ``resplit``: whether train, val and cal are drawn again for every seed; None does so for tasks
    whose test rows rotate with the seed (``digits``), and leaves all others on their fixed split. ``scale`` says how
    columns are scaled. ``data`` is the data folder. ``array_tasks`` are
    tasks in memory and those of CSV files, which ``tasks`` also names.

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
    amp: bool = False
    deterministic: bool = False
    backbone: str | None = None
    weights: Path | None = None
    severities: tuple[int, ...] = (1,)
    shifts: str = "auto"
    resplit: bool | None = None
    scale: str = "auto"
    data: Path | None = None
    array_tasks: tuple[Any, ...] = ()

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
    def fixed(self) -> dict[str, object]:
        """What all cells of a run folder must have in common, by name."""
        return {name: value for name, value in self.stored.items() if name not in EXTENDED}

    def extended(self, more: RunConfig) -> RunConfig:
        """Return ``more`` with what was asked before in front of what it adds."""
        joined: dict[str, Any] = {
            name: tuple(dict.fromkeys(getattr(self, name) + getattr(more, name))) for name in EXTENDED
        }
        return replace(more, **joined)

    @property
    def stored(self) -> dict[str, object]:
        """What a manifest holds: every setting but the data folder and tasks of arrays; weights by their file name."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("data", "array_tasks")}
        values |= {"budget": asdict(self.budget), "weights": self.weights.name if self.weights else None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


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

    @property
    def stored(self) -> dict[str, object]:
        """What the file holds."""
        return {**vars(self), "config": self.config.stored if self.config else None}


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
