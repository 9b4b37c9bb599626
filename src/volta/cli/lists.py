"""``volta tasks``, ``volta methods`` and ``volta metrics``: what there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from volta.cli.printing import echo
from volta.cli.text_table import print_table
from volta.cli.warning_lines import warn_line
from volta.core.errors import InputError


def tasks(
    data: Annotated[Path | None, typer.Option(help="Data folder; VOLTA_DATA or the cache folder unless given.")] = None,
) -> None:
    """List the tasks, imported ones too."""
    from volta.data import all_tasks

    print_table(
        ("task", "what it is", "inputs", "download"),
        [(name, task.title, ", ".join(task.kinds), task.download) for name, task in all_tasks(data).items()],
    )


def methods() -> None:
    """List the methods, those of plug-ins and the ablation's rows."""
    from volta.core.plugins import plugins
    from volta.methods import ABLATION, METHODS, find_method

    def brought() -> Iterator[tuple[str, str, str]]:
        for name, found in plugins("volta.methods").items():
            if name not in METHODS:
                try:
                    yield name, find_method(name).title, f"plug-in {found.package}"
                except InputError as error:
                    warn_line(error)

    origins = {"volta": "this paper", "paper": "one of the paper's ten baselines", "extra": "extra, not in the paper"}
    asked = "extra, run where asked for (--methods all)"
    print_table(
        ("method", "name", "where it comes from"),
        [(name, method.title, origins[method.origin] if method.standard else asked) for name, method in METHODS.items()]
        + list(brought())
        + [(name, row.title, "ablation (--ablation)") for name, row in ABLATION.items()],
    )


def metrics() -> None:
    """List the metrics: direction, formula, convention, and which libraries differ."""
    from volta.metrics import METRICS

    for name, metric in METRICS.items():
        echo(f"{name} {metric.direction}")
        echo(f"    {metric.formula}")
        echo(f"    convention: {metric.convention}")
        echo(f"    others: {metric.others}")
