"""``volta doctor``: what is installed, what it runs on, where files are kept, and what is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.printing import echo
from volta.cli.text_table import print_table

if TYPE_CHECKING:
    from volta.bench.environment import Environment

EXIT_PROBLEMS = 1


def doctor(
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
) -> None:
    """Say what is installed, on which processor, where files are kept, what is missing and how to get it."""
    from volta.bench.environment import environment
    from volta.cli.installation import needs

    found = needs()
    missing_core = [need for need in found if need.extra is None and need.state != "ok"]
    for need in missing_core:
        echo(f"problem: {need.name} is {need.state}; {need.remedy}", err=True)
    if missing_core:
        raise typer.Exit(EXIT_PROBLEMS)
    for line in _machine(environment()):
        echo(line)
    if not found:
        echo("packages: unknown, since volta-uq is not installed here; install it with: pip install .")
    print_table(
        ("package", "for", "needed", "installed"),
        [
            (need.name, need.extra or "all", f">= {need.least}" if need.least else "any", need.installed or "–")
            for need in found
        ],
    )
    for line in _folders(data):
        echo(line)
    lacking = [need for need in found if need.state != "ok"]
    for remedy in dict.fromkeys(need.remedy for need in lacking):
        states = ", ".join(f"{need.name} is {need.state}" for need in lacking if need.remedy == remedy)
        echo(f"{states}: {remedy}")
    for line in _missing_data(data):
        echo(line)
    if not lacking:
        echo("every optional package is there")


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


def _folders(data: Path | None) -> list[str]:
    from volta.data.options import CACHE_VARIABLE, ROOT_VARIABLE, cache_folder, data_root

    return [
        _folder("data folder", data_root(data), ROOT_VARIABLE),
        _folder("cache of derived arrays", cache_folder(), CACHE_VARIABLE),
    ]


def _folder(what: str, path: Path, variable: str) -> str:
    from volta.core.files import stored_bytes

    chosen = f"{variable} is set" if os.environ.get(variable) else f"set {variable} to choose another"
    if not path.is_dir():
        return f"{what}: {path} (not there yet; {chosen})"
    n_bytes = stored_bytes(path)
    writable = "" if os.access(path, os.W_OK) else ", not writable"
    return f"{what}: {path} ({n_bytes / 1e6:,.0f} MB{writable}; {chosen})"


def _missing_data(data: Path | None) -> list[str]:
    from volta.data.holdings import list_data

    names = [holding.name for holding in list_data(data) if holding.state not in ("ready", "stand-in")]
    return [f"data not there: {', '.join(names)}: volta data get NAME"] if names else []
