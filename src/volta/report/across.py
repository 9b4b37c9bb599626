"""What can be said over all tasks of a run: mean ranks and the critical-difference diagram."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volta import figures
from volta.figures import Context, MethodRank
from volta.figures.names import metric_name
from volta.report.figure_files import data_address
from volta.report.run import Run
from volta.stats import CriticalDifference, critical_differences


@dataclass(frozen=True)
class Picture:
    """A picture inside the page."""

    title: str
    address: str


@dataclass(frozen=True)
class AcrossView:
    """What the page says over all tasks: diagrams, why some are not there, and the mean ranks in words."""

    diagrams: tuple[Picture, ...]
    reasons: tuple[str, ...]
    ranks: tuple[str, ...]


def across_view(run: Run, folder: Path | None) -> AcrossView | None:
    """Return the page's part about several tasks, None for one; diagrams are written to ``folder`` if given."""
    found = {key: numbers for key, numbers in critical_differences(run.tables).items() if len(numbers.tasks) > 1}
    if not found:
        return None
    diagrams = [
        _diagram(run, key, numbers, folder)
        for key, numbers in found.items()
        if folder is not None and numbers.critical_difference is not None
    ]
    ranks = [
        f"{metric_name(metric)}, {protocol} protocol, {len(numbers.tasks)} tasks: {_ranks(run, numbers)}"
        for (protocol, metric), numbers in found.items()
        if numbers.mean_ranks
    ]
    reasons = dict.fromkeys(numbers.reason for numbers in found.values() if numbers.reason)
    return AcrossView(tuple(diagrams), tuple(reasons), tuple(ranks))


def _diagram(run: Run, key: tuple[str, str], numbers: CriticalDifference, folder: Path) -> Picture:
    protocol, metric = key
    own = [group for group in run.groups if group.protocol == protocol]
    n_rows, n_seeds = sum(group.context.n_rows for group in own), min(group.context.n_seeds for group in own)
    context = Context(f"{len(numbers.tasks)} tasks", protocol, n_rows, n_seeds)
    titles = _titles(run)
    ours = {name for group in own for name in group.methods if group.is_ours(name)}
    ranks = [MethodRank(name, titles.get(name, name), rank, name in ours) for name, rank in numbers.mean_ranks.items()]
    bars = [
        (min(found), max(found)) for names in numbers.groups if (found := [numbers.mean_ranks[name] for name in names])
    ]
    title = f"Mean ranks on {metric_name(metric)}"
    figure = figures.critical_difference(context, ranks, numbers.critical_difference, bars, title, len(numbers.tasks))
    png, _ = figures.save_figure(figure, folder, f"critical_difference-{protocol}-{metric}")
    return Picture(title, data_address(png, "image/png"))


def _ranks(run: Run, numbers: CriticalDifference) -> str:
    titles = _titles(run)
    return ", ".join(f"{titles.get(name, name)} {rank:.2f}" for name, rank in numbers.mean_ranks.items())


def _titles(run: Run) -> dict[str, str]:
    return {name: group.title(name) for group in run.groups for name in group.methods}
