"""Two runs as one table: the values, and the test rows, of the seeds that both have."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from volta.bench.cells import Cell
from volta.bench.records import OWN
from volta.core.errors import StoreError
from volta.report.run import Group, Run, budget_words
from volta.stats import Bootstrap, Results, RowScores, paired_bootstrap
from volta.stats.stored_bootstrap import cell_scores, with_averages

A, B = "a:", "b:"
"""What the names of a run's methods begin with in the joined table."""


def joined_table(a: Group, b: Group) -> Results | None:
    """Return both groups' values of the seeds they share as one table, methods named a:METHOD and b:METHOD."""
    if a.table is None or b.table is None:
        return None
    values: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    cells: dict[tuple[str, int], Cell] = {}
    for method in a.methods:
        shared = _shared(a, b, method)
        for side, table in ((A, a.table), (B, b.table)):
            if shared:
                values[side + method] = {
                    where: {name: {s: v for s, v in by.items() if s in shared} for name, by in found.items()}
                    for where, found in table.values[method].items()
                }
                cells |= {(side + method, seed): table.cells[method, seed] for seed in shared}
    near = tuple(name for name in a.near_first if name in b.near_first)
    own = {method for method in a.methods if a.origin(method) == b.origin(method) == OWN}
    origins = {name: OWN if name[len(A) :] in own else "extra" for name in values}
    return Results(a.task, a.protocol, values, {name: name[len(A) :] for name in values}, origins, near, cells)


def joined_bootstrap(run_a: Run, run_b: Run, table: Results, n_resamples: int) -> Bootstrap | str:
    """Return the bootstrap of both runs' stored predictions, or why there is none."""
    if not n_resamples:
        return "rows not resampled: no bootstrap was asked for"
    stores = {A: run_a.store, B: run_b.store}
    models: dict[str, dict[int, RowScores]] = {}
    rows_of: dict[int, bytes] = {}
    for (name, seed), cell in table.cells.items():
        try:
            arrays = stores[name[: len(A)]].read_arrays(cell)
        except StoreError:
            continue
        labels = np.asarray(arrays["test/labels"], dtype=np.int64).tobytes()
        if rows_of.setdefault(seed, labels) != labels:
            return "rows not resampled: the runs were scored on different test rows"
        models.setdefault(name, {})[seed] = cell_scores(arrays, table.ood_sets)
    whole = {name: found for name, found in models.items() if len(found) == len(table.seeds(name))}
    if not whole:
        return "rows not resampled: no predictions"
    return with_averages(paired_bootstrap(whole, n_resamples, rows_of=rows_of), table)


def n_identical(a: Group, b: Group, method: str) -> int:
    """Return how many shared seeds of a method have the same predictions to the last bit."""
    pairs = [(a.records[method, seed], b.records[method, seed]) for seed in _shared(a, b, method)]
    return sum(one.predictions == other.predictions for one, other in pairs)


def without_shared_seeds(a: Group, b: Group) -> Iterable[str]:
    """Give the methods that both runs have but with no seed in common, in words."""
    for method in a.methods:
        if method in b.methods and not _shared(a, b, method):
            mine, theirs = (", ".join(str(s) for name, s in sorted(g.records) if name == method) for g in (a, b))
            yield f"{a.task}, {a.protocol}, {method}: no seed in common ({mine} in A, {theirs} in B), not compared"


def run_remarks(a: Run, b: Run) -> Iterable[str]:
    """Give what differs between two runs besides their results: budget, device, code, machine, data."""
    first, second = a.manifest, b.manifest
    pairs = (
        ("budgets differ", budget_words(first.config.budget), budget_words(second.config.budget)),
        ("devices differ", first.config.device, second.config.device),
        ("numbers of threads differ", first.config.threads, second.config.threads),
        ("instruction sets differ", first.environment.instruction_set, second.environment.instruction_set),
        ("volta differs", first.environment.volta, second.environment.volta),
        ("commit differs", first.environment.commit, second.environment.commit),
    )
    yield from (
        f"{words}: {left or 'not recorded'} in A, {right or 'not recorded'} in B"
        for words, left, right in pairs
        if left != right
    )
    data = [{(g.task, g.protocol): g.first_record.data for g in run.groups if g.first_record} for run in (a, b)]
    for key in data[0]:
        if key in data[1]:
            other = [name for name in data[0][key] if name in data[1][key] and data[0][key][name] != data[1][key][name]]
            if other:
                yield f"{key[0]}, {key[1]}: the data differ ({', '.join(other)})"


def _shared(a: Group, b: Group, method: str) -> list[int]:
    return sorted(seed for name, seed in a.records if name == method and (method, seed) in b.records)
