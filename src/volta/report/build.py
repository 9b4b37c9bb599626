"""From a run folder to its tables, figures and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from volta.bench.store import RunStore, write_results
from volta.core.files import remove_temp_files, write_text
from volta.core.processes import n_cores
from volta.core.types import plain_name
from volta.figures import CHARTS, GroupNumbers
from volta.figures.charts import Drawing, check_style, figure_workers
from volta.report.curves import Predictions, read_group
from volta.report.page import FIGURES, across_view, draw_sheet, group_json, group_view, render_page
from volta.report.run import Group, Run, load_run
from volta.report.statistics import Statistics, StoredAnalyses, read_analyses, run_statistics
from volta.stats.bootstrap import N_RESAMPLES

REPORT = "report.html"
SUMMARY = "summary.csv"
"""The table that is written even where it is empty."""


@dataclass(frozen=True)
class BuiltReport:
    """A report's page, and the statistics in it."""

    path: Path
    statistics: Statistics


def build_report(
    store: RunStore,
    n_resamples: int = N_RESAMPLES,
    say: Callable[[str], object] | None = None,
    reference: str | None = None,
    style: str = "plain",
) -> BuiltReport:
    """Write ``results.csv``, the statistics, every figure and ``report.html``.

    ``n_resamples`` 0 leaves the bootstrap intervals out; ``say`` hears of metrics that had to be computed again.
    ``reference``: what the tests compare with, a method's name, "best" (the best of each metric) or "all" (a matrix of
    every pair); our method if None. A run with interim analyses is tested at the level of the last. ``style``: of the
    figures for print, "plain" or a venue, "neurips", "icml" or "ieee".
    """
    check_style(style)
    remove_temp_files(store.folder("figures"))
    with figure_workers(n_cores(), style) as draw:
        run = load_run(store, say)
        read = read_groups(store, run, with_rows=n_resamples > 0)
        # Most figures need no statistics, and are drawn meanwhile.
        early = figures_of(store, run, {key: one.numbers for key, one in read.items()})
        draw(early)
        write_results(store, run.records)
        rows = {(group.task, group.protocol): read[group.key].rows for group in run.groups}
        stats = run_statistics(store, run.tables, n_resamples, reference, rows)
        write_tables(store, stats)
        done = {path for _, _, path in early}
        draw([one for one in figures_of(store, run, with_statistics(run, stats, read)) if one[2] not in done])
        page = make_page(run, stats, read, drawn=store, analyses=read_analyses(store))
    path = store.root / REPORT
    write_text(path, page)
    return BuiltReport(path, stats)


def read_groups(store: RunStore, run: Run, with_rows: bool = False) -> dict[str, Predictions]:
    """Return what the stored predictions of each group come to, by its key."""
    return {group.key: read_group(group, store.arrays_of, with_rows) for group in run.groups}


def with_statistics(run: Run, stats: Statistics, read: Mapping[str, Predictions]) -> dict[str, GroupNumbers]:
    """Return the numbers of each group with its statistics, by its key."""
    found = {}
    for group in run.groups:
        own = stats.of(group.task, group.protocol)
        pairs = tuple(row for row in own.pairs if row.difference is not None and row.set)
        ablation, leaderboard = tuple(own.ablation), tuple(own.leaderboard)
        found[group.key] = replace(read[group.key].numbers, ablation=ablation, pairs=pairs, leaderboard=leaderboard)
    return found


def figures_of(store: RunStore, run: Run, numbers: Mapping[str, GroupNumbers]) -> list[Drawing]:
    """Return every figure for print that these numbers suffice for."""
    folder = store.folder("figures")
    return [
        (version, numbers[group.key], folder / f"{prefix_of(run, group)}{version.name}")
        for group in run.groups
        for chart in CHARTS
        if chart.available(numbers[group.key])
        for version in chart.prints
    ]


def prefix_of(run: Run, group: Group) -> str:
    """Return how names of a group's figures begin, where a run has several groups."""
    return f"{plain_name(group.key)}-" if len(run.groups) > 1 else ""


def make_page(
    run: Run,
    stats: Statistics,
    read: Mapping[str, Predictions],
    *,
    drawn: RunStore | None = None,
    analyses: StoredAnalyses | None = None,
    title: str | None = None,
) -> str:
    """Return the page, about its tasks unless ``title`` says otherwise.

    ``read``: what the stored predictions of each group come to. ``drawn``: the run folder whose figures for print the
    page links.
    """
    views, data = [], []
    numbers = with_statistics(run, stats, read)
    folder = drawn.folder("figures") if drawn else None
    for group in run.groups:
        prefix = prefix_of(run, group)
        charts = [chart for chart in CHARTS if chart.available(numbers[group.key])]
        places = [
            (
                chart,
                [
                    (f"PDF ({version.word})" if version.word else "PDF", f"{FIGURES}/{prefix}{version.name}.pdf")
                    for version in (chart.prints if folder else ())
                ],
            )
            for chart in charts
        ]
        sheet = draw_sheet(group, drawn.sheet_path(group.task), folder, prefix) if drawn and folder else None
        own = stats.of(group.task, group.protocol)
        views.append(group_view(group, own, places, sheet, analyses.sentence if analyses else ""))
        data.append(group_json(group, charts, numbers[group.key]))
    return render_page(run, views, {"groups": data}, across_view(run, folder), title)


def write_tables(store: RunStore, stats: Statistics) -> None:
    """Write the tables of statistics; those that would be empty are left out, and old ones removed."""
    for name, content in stats.to_csv().items():
        if name != SUMMARY and content.count("\n") < 2:
            (store.root / name).unlink(missing_ok=True)
        else:
            write_text(store.root / name, content)
