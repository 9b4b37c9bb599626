"""What a result was made with: versions, hardware, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from volta._version import __version__
from volta.core.json_fields import JsonFields, JsonObject

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
