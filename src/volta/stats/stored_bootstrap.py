"""The paired bootstrap of a run, from its stored predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from volta.bench.store import RunStore
from volta.core.errors import StoreError
from volta.core.types import Array
from volta.stats.bootstrap import N_RESAMPLES, Bootstrap, paired_bootstrap
from volta.stats.results import Results
from volta.stats.rowscores import RowScores, row_scores

Bootstraps = Mapping[tuple[str, str], Bootstrap | str]
"""(task, protocol) → the bootstrap of its methods, or the reason there is none."""


def bootstrap_tables(store: RunStore, tables: Sequence[Results], n_resamples: int = N_RESAMPLES) -> Bootstraps:
    """Return the paired bootstrap of our method and its baselines for each (task, protocol), or why there is none."""
    return {
        (table.task, table.protocol): _bootstrap(store, table, (table.ours, *table.baselines), n_resamples)
        for table in tables
        if table.ours is not None and table.baselines
    }


def _bootstrap(store: RunStore, table: Results, methods: Sequence[str], n_resamples: int) -> Bootstrap | str:
    labels: Array | None = None
    models: dict[str, list[RowScores]] = {}
    for method in methods:
        found = []
        for seed in table.seeds(method):
            try:
                arrays = store.read_arrays(table.cells[method, seed])
            except StoreError:
                continue
            if "test/probs" not in arrays or "test/labels" not in arrays:
                continue
            if labels is None:
                labels = arrays["test/labels"]
            if not np.array_equal(labels, arrays["test/labels"]):
                return f"no bootstrap: {method} seed {seed} was scored on other test rows"
            found.append(_scores(arrays, table.near_sets))
        # An interval over fewer seeds than the test in the same row would speak of another difference.
        if len(found) == len(table.seeds(method)):
            models[method] = found
    return paired_bootstrap(models, n_resamples) if models else "no bootstrap: no stored predictions"


def _scores(arrays: Mapping[str, Array], near_sets: tuple[str, ...]) -> RowScores:
    outside = {name: arrays[f"{name}/ood_score"] for name in near_sets if f"{name}/ood_score" in arrays}
    own = arrays.get("test/ood_score")
    return row_scores(arrays["test/probs"], arrays["test/labels"], own, outside if own is not None else {})
