"""One leaderboard over many runs, every value computed again from stored predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from volta._version import __version__
from volta.bench.cell_metrics import TEST, metrics_of
from volta.bench.keys import COST_METRICS, Cell
from volta.bench.records import EXTERNAL, CellRecord
from volta.bench.store import RunStore
from volta.core.errors import StoreError
from volta.core.files import write_text
from volta.core.types import Array
from volta.figures.style import PALETTE
from volta.report.leaderboard import leaderboard_table
from volta.report.page import asset, template_environment
from volta.report.run import Group, budget_words
from volta.stats import ALPHA, LeaderboardRow, group_records, make_leaderboard, rows_to_csv, without_rows
from volta.stats.bootstrap import N_RESAMPLES, bootstrap_table

TOLERANCE = 1e-9
"""A stored value further than this from the one computed again does not follow from the predictions."""


@dataclass(frozen=True)
class JointGroup:
    """One task and protocol on one set of test rows: the methods of all runs that share them, and their places."""

    group: Group
    rows: tuple[LeaderboardRow, ...]


@dataclass(frozen=True)
class JointLeaderboard:
    """The groups; how many cells were computed again; which of them did not agree with what is stored."""

    groups: tuple[JointGroup, ...]
    n_checked: int
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    """A finished cell of a run, its metrics computed again."""

    run: str
    store: RunStore
    record: CellRecord


def joint_leaderboard(
    runs: Sequence[Path], n_resamples: int = N_RESAMPLES, say: Callable[[str], object] | None = None
) -> JointLeaderboard:
    """Return one leaderboard over run folders; nothing in them is changed and nothing is trained.

    Methods stand side by side where runs share task, protocol and test rows. A method that several runs have is named
    with its run. Cells that do not match their checksums are left out; those and cells whose stored metrics do not
    follow from their stored predictions are named among the problems.
    """
    found: list[_Found] = []
    problems: list[str] = []
    for run, path in zip(_run_names(runs), runs, strict=True):
        own, bad = _checked_cells(run, RunStore(path))
        found += own
        problems += bad
        if say is not None:
            say(f"{run}: metrics of {len(own)} cells computed again from their predictions, {len(bad)} do not agree")
    groups = tuple(_joint_group(part, n_resamples) for part in _by_test_rows(found))
    return JointLeaderboard(groups, len(found), tuple(problems))


def _checked_cells(run: str, store: RunStore) -> tuple[list[_Found], list[str]]:
    found, problems = [], []
    for cell in store.cells():
        if not store.is_done(cell):
            continue
        if not store.is_intact(cell):
            problems.append(f"{run}: {cell.label} does not match its checksum and is left out")
            continue
        record = store.read_record(cell)
        metrics, floored = metrics_of(store.read_arrays(cell), [one.name for one in record.near_ood])
        metrics[TEST] |= {name: value for name, value in record.test.items() if name in COST_METRICS}
        again = replace(record, metrics=metrics, floored_rows=floored)
        if difference := _difference(record, again):
            problems.append(f"{run}: {cell.label}: {difference}")
        found.append(_Found(run, store, again))
    return found, problems


def _difference(stored: CellRecord, again: CellRecord) -> str:
    """Return the first value that does not follow from the predictions, in words; empty where all do."""
    for eval_set, values in stored.metrics.items():
        for name, value in values.items():
            other = again.metrics.get(eval_set, {}).get(name)
            if other is not None and abs(other - value) > TOLERANCE * max(1.0, abs(value)):
                return f"{name} on {eval_set} is stored as {value:.6g}, its predictions give {other:.6g}"
    return ""


def _by_test_rows(found: Sequence[_Found]) -> list[list[_Found]]:
    """Return the cells that can be compared, run by run: same task, protocol and, in each seed, test rows."""
    by_run: dict[tuple[str, str, str], list[_Found]] = {}
    for one in found:
        by_run.setdefault((one.record.cell.task, one.record.cell.protocol, one.run), []).append(one)
    groups: list[tuple[tuple[str, str], dict[int, str], list[_Found]]] = []
    for (task, protocol, _), own in by_run.items():
        # Own predictions know the labels of their rows alone, so what a benchmark knows of a seed's rows comes last.
        benchmarked_last = sorted(own, key=lambda one: one.record.origin != EXTERNAL)
        rows = {one.record.cell.seed: one.record.data["test"] for one in benchmarked_last}
        for key, known, members in groups:
            shared = set(known) & set(rows)
            agree = all(known[seed] == rows[seed] for seed in shared) and set(known.values()) & set(rows.values())
            if key == (task, protocol) and agree:
                known.update(rows)
                members.extend(own)
                break
        else:
            groups.append(((task, protocol), rows, list(own)))
    return [members for _, _, members in groups]


def _joint_group(found: Sequence[_Found], n_resamples: int) -> JointGroup:
    n_runs = Counter(method for _, method in {(one.run, one.record.cell.method) for one in found})
    places: dict[tuple[str, int], tuple[RunStore, Cell]] = {}
    records = []
    for one in found:
        cell, mark = one.record.cell, f" [{one.run}]" if n_runs[one.record.cell.method] > 1 else ""
        named = replace(cell, method=cell.method + mark)
        places[named.method, cell.seed] = one.store, cell
        records.append(replace(one.record, cell=named, title=one.record.title + mark))
    (table,) = group_records(records)

    def read(method: str, seed: int) -> dict[str, Array]:
        store, cell = places[method, seed]
        return store.read_arrays(cell)

    bootstraps = without_rows([table])
    if n_resamples:
        bootstraps = {(table.task, table.protocol): bootstrap_table(table, read, n_resamples)}
    by_cell = {(record.cell.method, record.cell.seed): record for record in records}
    group = Group(table.task, table.protocol, table, by_cell, tuple(record.cell for record in records), (), {})
    return JointGroup(group, tuple(make_leaderboard([table], bootstraps, ALPHA)))


def _run_names(runs: Sequence[Path]) -> list[str]:
    """Return the folders' names, with so much of their paths that no two are alike."""
    whole = [path.resolve().parts for path in runs]
    if len(set(whole)) < len(whole):
        raise StoreError("a run folder is named twice; name each once")
    depth = 1
    while len({parts[-depth:] for parts in whole}) < len(whole):
        depth += 1
    return ["/".join(parts[-depth:]) for parts in whole]


PAGE = "leaderboard.html"
CSV = "leaderboard.csv"


def write_joint_leaderboard(found: JointLeaderboard, folder: Path) -> tuple[Path, Path]:
    """Write page and CSV into ``folder``; return their paths."""
    rows = [row for group in found.groups for row in group.rows]
    write_text(folder / CSV, rows_to_csv(LeaderboardRow, rows))
    write_text(folder / PAGE, joint_page(found))
    return folder / PAGE, folder / CSV


def joint_page(found: JointLeaderboard) -> str:
    """Return the page."""
    tables = [(_title(group), leaderboard_table(group.group, group.rows, ALPHA)) for group in found.groups]
    # Files of this package, not a user's text: they are styles and scripts and must stay as they are.
    scripts = "\n".join(asset(name) for name in ("base.js", "tables.js", "joint.js"))
    return (
        template_environment()
        .get_template("joint.html")
        .render(
            tables=tables,
            found=found,
            palette=PALETTE,
            version=__version__,
            style_sheet=Markup(asset("report.css")),
            early_script=Markup(asset("early.js")),
            scripts=Markup(scripts),
        )
    )


def _title(joint: JointGroup) -> str:
    context, records = joint.group.context, joint.group.records
    counts = sorted(Counter(method for method, _ in records).values())
    seeds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]}–{counts[-1]}"
    budgets = dict.fromkeys(budget_words(record.budget) for record in records.values())
    budget = next(iter(budgets)) if len(budgets) == 1 else f"budgets differ ({'; '.join(budgets)})"
    words = f"{seeds} seed{'' if seeds == '1' else 's'}"
    return f"{context.task} · {context.protocol} · {context.n_rows} test rows · {words} · {budget}"
