"""What can be said over all tasks of a run: mean ranks and the critical-difference diagram."""

from __future__ import annotations

import base64
from pathlib import Path

from volta import figures
from volta.figures import Context
from volta.figures.names import metric_name
from volta.report.markup import element, listing, text
from volta.report.run import Run
from volta.stats import CriticalDifference, critical_differences

Diagrams = dict[tuple[str, str], CriticalDifference]


def across_part(run: Run, folder: Path | None) -> str:
    """Return the page's part about several tasks, empty for one; diagrams are written to ``folder`` if given."""
    found = critical_differences(run.tables)
    found = {key: numbers for key, numbers in found.items() if len(numbers.tasks) > 1}
    if not found:
        return ""
    parts = [element("h2", "Across tasks", id="across")]
    drawn = {key: numbers for key, numbers in found.items() if numbers.critical_difference is not None}
    if folder is not None:
        parts += [_diagram(run, key, numbers, folder) for key, numbers in drawn.items()]
    reasons = dict.fromkeys(numbers.reason for numbers in found.values() if numbers.reason)
    if reasons:
        parts.append(element("p", "No critical-difference diagram for some metrics:") + listing(reasons))
    lines = [
        f"{metric_name(metric)}, {protocol} protocol, {len(numbers.tasks)} tasks: {_ranks(run, numbers)}"
        for (protocol, metric), numbers in found.items()
        if numbers.mean_ranks
    ]
    return "".join(parts) + (element("h3", "Mean ranks, best first") + listing(lines) if lines else "")


def _diagram(run: Run, key: tuple[str, str], numbers: CriticalDifference, folder: Path) -> str:
    protocol, metric = key
    n_rows = sum(group.context.n_rows for group in run.groups if group.protocol == protocol)
    n_seeds = min(group.context.n_seeds for group in run.groups if group.protocol == protocol)
    context = Context(f"{len(numbers.tasks)} tasks", protocol, n_rows, n_seeds)
    titles = _titles(run)
    ranks = [(name, titles.get(name, name), rank) for name, rank in numbers.mean_ranks.items()]
    bars = [
        (min(found), max(found)) for names in numbers.groups if (found := [numbers.mean_ranks[name] for name in names])
    ]
    title = f"Mean ranks on {metric_name(metric)}"
    figure = figures.critical_difference(context, ranks, numbers.critical_difference, bars, title, len(numbers.tasks))
    png, _ = figures.save_figure(figure, folder, f"critical_difference-{protocol}-{metric}")
    source = f"data:image/png;base64,{base64.b64encode(png.read_bytes()).decode()}"
    return f'<img class="print" alt="{text(title)}" src="{source}">'


def _ranks(run: Run, numbers: CriticalDifference) -> str:
    titles = _titles(run)
    return ", ".join(f"{titles.get(name, name)} {rank:.2f}" for name, rank in numbers.mean_ranks.items())


def _titles(run: Run) -> dict[str, str]:
    return {name: group.title(name) for group in run.groups for name in group.methods}
