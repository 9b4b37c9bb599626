"""How to make a run again: its commands, everything it was asked, and where it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from volta.bench.environment import Environment
from volta.bench.store import RunStore
from volta.report.run import Run

CAPABILITIES = {"DEFAULT": "default", "NO AVX": "default", "AVX2": "avx2", "AVX512": "avx512"}
"""How torch calls an instruction set → the value of the variable that asks for it."""


@dataclass(frozen=True)
class Fact:
    """A named fact: words, and what is to be read letter by letter."""

    name: str
    value: str
    code: str = ""


@dataclass(frozen=True)
class Reproduce:
    """The commands of a run, what it was asked, versions, hardware and times."""

    commands: tuple[str, ...]
    facts: tuple[Fact, ...]


def reproduce_view(run: Run) -> Reproduce:
    """Return the commands, every setting, versions, hardware and times of the run."""
    manifest, environment = run.manifest, run.manifest.environment
    commit = environment.commit or ""
    facts = (
        *(Fact(name, _words(value)) for name, value in manifest.config.to_json().items()),
        Fact("variables", "" if (found := variables(environment)) else "none recorded", found),
        Fact("volta", f"{environment.volta}, commit" if commit else f"{environment.volta}, no checkout", commit),
        Fact("Python", environment.python),
        Fact("packages", ", ".join(f"{name} {version}" for name, version in environment.packages.items())),
        Fact("platform", f"{environment.platform}, {environment.machine}"),
        Fact("hardware", f"{environment.cpu}, {environment.cores} cores, {environment.memory_gb} GB"),
        Fact("instruction set", environment.instruction_set or "not recorded"),
        Fact("first command", manifest.created),
        Fact("last command", manifest.updated),
        Fact("last changed", last_change(run.store, manifest.updated)),
    )
    return Reproduce(tuple(manifest.commands), facts)


def variables(environment: Environment) -> str:
    """Return the variables that ask for the same instruction sets on another processor, as a shell has them.

    >>> from volta.bench.environment import BlasLibrary
    >>> known = Environment("0.2", None, "3.11", {}, "Linux", "x86_64", "cpu", 2, 8.0, "AVX2",
    ...     (BlasLibrary("openblas", "0.3", "Haswell"),))
    >>> variables(known)
    'ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell'
    """
    found = []
    if environment.cpu_capability in CAPABILITIES:
        found.append(f"ATEN_CPU_CAPABILITY={CAPABILITIES[environment.cpu_capability]}")
    kernels = {one.architecture for one in environment.blas if one.name == "openblas" and one.architecture}
    if len(kernels) == 1:
        found.append(f"OPENBLAS_CORETYPE={kernels.pop()}")
    return " ".join(found)


def last_change(store: RunStore, at_least: str) -> str:
    """Return when the newest record was written, by its file, or ``at_least`` where a command came after that."""
    times = [path.stat().st_mtime for path in store.cells_folder.glob("*/record.json")]
    newest = datetime.fromtimestamp(max(times, default=0.0), UTC).isoformat(timespec="seconds")
    return max(newest, at_least)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else str(value)
