"""The bootstrap of a run, from its stored predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volta.bench.store import RunStore
from volta.bench.temperature import tempered_probs
from volta.core.errors import StoreError
from volta.core.types import Array
from volta.methods.scores import one_minus_max
from volta.stats.bootstrap import N_RESAMPLES, Bootstrap, paired_bootstrap
from volta.stats.comparisons import AFTER_TEMPERATURE, BY_CONFIDENCE, OOD_AVERAGES, Bootstraps
from volta.stats.results import Results
from volta.stats.rowscores import RowScores, row_scores


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A cell's test rows as the bootstrap takes them: the row scores, and the bytes of the labels, which tell rows."""

    labels: bytes
    scores: RowScores


RowsOfCells = Mapping[tuple[str, int], StoredRows]
"""(method, seed) → its rows; a cell without stored predictions is not there."""


def bootstrap_tables(
    store: RunStore,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
) -> Bootstraps:
    """Return the bootstrap of all methods for each (task, protocol), or why there is none.

    ``rows`` by (task, protocol), where they have been read already; else they are read from ``store``.
    """

    def of(table: Results) -> Bootstrap | str:
        if rows is not None:
            return bootstrap_rows(table, rows[table.task, table.protocol], n_resamples)
        return bootstrap_table(table, lambda method, seed: store.read_arrays(table.cells[method, seed]), n_resamples)

    return {(table.task, table.protocol): of(table) for table in tables}


def bootstrap_table(
    table: Results, read: Callable[[str, int], Mapping[str, Array]], n_resamples: int
) -> Bootstrap | str:
    """Return the bootstrap of a table's methods, or why there is none; ``read`` gives a method's arrays with a seed."""
    rows: dict[tuple[str, int], StoredRows] = {}
    for method, seed in table.cells:
        try:
            found = rows_of_cell(table, read(method, seed))
        except StoreError:
            continue
        if found is not None:
            rows[method, seed] = found
    return bootstrap_rows(table, rows, n_resamples)


def rows_of_cell(table: Results, arrays: Mapping[str, Array]) -> StoredRows | None:
    """Return a cell's test rows with its scores on the OOD sets that are resampled; None without test predictions."""
    if "test/probs" not in arrays or "test/labels" not in arrays:
        return None
    labels = np.asarray(arrays["test/labels"], dtype=np.int64).tobytes()
    return StoredRows(labels, cell_scores(arrays, table.ood_sets))


def bootstrap_rows(table: Results, rows: RowsOfCells, n_resamples: int) -> Bootstrap | str:
    """Return the bootstrap of a table's methods from the rows of its cells, or why there is none."""
    rows_of: dict[int, bytes] = {}
    models: dict[str, dict[int, RowScores]] = {}
    for method in table.methods:
        found = {}
        for seed in table.seeds(method):
            if (method, seed) not in rows:
                continue
            own = rows[method, seed]
            if rows_of.setdefault(seed, own.labels) != own.labels:
                return f"rows not resampled: {method} seed {seed} was scored on other test rows"
            found[seed] = own.scores
        # An interval over fewer seeds than the test in the same row would speak of another difference.
        if len(found) == len(table.seeds(method)):
            models[method] = found
    if not models:
        return "rows not resampled: no stored predictions"
    return with_averages(paired_bootstrap(models, n_resamples, rows_of=rows_of), table)


def cell_scores(arrays: Mapping[str, Array], ood_sets: tuple[str, ...]) -> RowScores:
    """Return the row scores of a cell's stored arrays, with its OOD scores on ``ood_sets`` and the test variants."""
    probs, labels = arrays["test/probs"], arrays["test/labels"]
    own = arrays.get("test/ood_score")
    outside = {name: arrays[f"{name}/ood_score"] for name in ood_sets if f"{name}/ood_score" in arrays}
    variants = {}
    tempered = tempered_probs(arrays)
    if tempered is not None:
        variants[AFTER_TEMPERATURE] = row_scores(tempered, labels)
    variants[BY_CONFIDENCE] = row_scores(probs, labels, uncertainty=one_minus_max(probs))
    return row_scores(probs, labels, own, outside if own is not None else {}, arrays.get("test/uncertainty"), variants)


def with_averages(bootstrap: Bootstrap, table: Results) -> Bootstrap:
    """Return the bootstrap of a table with AUROC averaged over near and over far OOD sets beside that of each set."""
    near = () if table.no_near_set else table.near_sets
    far = tuple(name for name in table.ood_sets if name not in near)
    for name, sets in zip(OOD_AVERAGES, (near, far), strict=True):
        bootstrap = _with_average(bootstrap, sets, name)
    return bootstrap


def _with_average(bootstrap: Bootstrap, ood_sets: tuple[str, ...], name: str) -> Bootstrap:
    """Add AUROC averaged over OOD sets, under the name of that mean, for the models that have all of them."""
    keys = [("auroc", one) for one in ood_sets]
    if not keys or any(key not in bootstrap.observed for key in keys):
        return bootstrap
    average = ("auroc", name)
    observed: dict[str, dict[int, float]] = {}
    resampled = {}
    for method, by_seed in bootstrap.observed[keys[0]].items():
        seeds = [seed for seed in by_seed if all(seed in bootstrap.observed[key].get(method, {}) for key in keys)]
        observed[method] = {
            seed: float(np.mean([bootstrap.observed[key][method][seed] for key in keys])) for seed in seeds
        }
        resampled[method] = {
            seed: np.mean([bootstrap.resampled[key][method][seed] for key in keys], axis=0) for seed in seeds
        }
    return replace(
        bootstrap,
        observed={**bootstrap.observed, average: observed},
        resampled={**bootstrap.resampled, average: resampled},
    )
