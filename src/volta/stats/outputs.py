"""From a run folder to its tables of statistics: reads records and predictions, runs nothing again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta.bench.rescoring import current_records
from volta.bench.store import RunStore
from volta.core.errors import StoreError
from volta.core.files import write_text
from volta.core.types import Array
from volta.stats.ablation import AblationRow, compare_ablation
from volta.stats.beside import BesideRow, beside_paper
from volta.stats.bootstrap import N_RESAMPLES, Bootstrap, paired_bootstrap
from volta.stats.claims import ClaimRow, judge_claims
from volta.stats.comparisons import TestRow, compare_with_baselines
from volta.stats.csv_rows import rows_to_csv
from volta.stats.rankings import RankRow, rank_tables
from volta.stats.results import VOLTA, Results, group_records
from volta.stats.rowscores import RowScores, row_scores
from volta.stats.summary import CorruptionRow, SummaryRow, summarise, summarise_corruptions

Bootstraps = dict[tuple[str, str], Bootstrap | str]


@dataclass(frozen=True)
class Statistics:
    """Every table of statistics of a run."""

    summary: list[SummaryRow]
    tests: list[TestRow]
    ablation: list[AblationRow]
    corruptions: list[CorruptionRow]
    ranks: list[RankRow]
    paper: list[BesideRow]
    claims: list[ClaimRow]

    def to_csv(self) -> dict[str, str]:
        """Return file name → CSV text."""
        return {
            "summary.csv": rows_to_csv(SummaryRow, self.summary),
            "tests.csv": rows_to_csv(TestRow, self.tests),
            "ablation.csv": rows_to_csv(AblationRow, self.ablation),
            "corruptions.csv": rows_to_csv(CorruptionRow, self.corruptions),
            "ranks.csv": rows_to_csv(RankRow, self.ranks),
            "paper.csv": rows_to_csv(BesideRow, self.paper),
            "claims.csv": rows_to_csv(ClaimRow, self.claims),
        }


def load_tables(store: RunStore) -> list[Results]:
    """Return one table per task and protocol of a run folder."""
    return group_records(current_records(store, store.cells()))


def compute_statistics(store: RunStore, tables: Sequence[Results], n_resamples: int = N_RESAMPLES) -> Statistics:
    """Return every table of statistics of a run whose records are in ``tables``; predictions come from ``store``.

    ``n_resamples`` 0 leaves the bootstrap out.
    """
    bootstraps = bootstrap_tables(store, tables, n_resamples) if n_resamples else None
    return Statistics(
        summary=summarise(tables),
        tests=compare_with_baselines(tables, bootstraps),
        ablation=compare_ablation(tables),
        corruptions=summarise_corruptions(tables),
        ranks=rank_tables(tables),
        paper=beside_paper(tables),
        claims=judge_claims(tables),
    )


def write_statistics(store: RunStore, n_resamples: int = N_RESAMPLES) -> list[Path]:
    """Write the tables of statistics into the run folder and return their paths."""
    paths = []
    for name, text in compute_statistics(store, load_tables(store), n_resamples).to_csv().items():
        write_text(store.root / name, text)
        paths.append(store.root / name)
    return paths


def bootstrap_tables(store: RunStore, tables: Sequence[Results], n_resamples: int = N_RESAMPLES) -> Bootstraps:
    """Return the paired bootstrap of VOLTA and its baselines for each (task, protocol), or why there is none."""
    return {
        (table.task, table.protocol): _bootstrap(store, table, n_resamples)
        for table in tables
        if VOLTA in table.values and table.baselines
    }


def _bootstrap(store: RunStore, table: Results, n_resamples: int) -> Bootstrap | str:
    labels: Array | None = None
    models: dict[str, list[RowScores]] = {}
    for method in (VOLTA, *table.baselines):
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
        # An interval over fewer seeds than the test beside it would speak of another difference.
        if len(found) == len(table.seeds(method)):
            models[method] = found
    return paired_bootstrap(models, n_resamples) if models else "no bootstrap: no stored predictions"


def _scores(arrays: dict[str, Array], near_sets: tuple[str, ...]) -> RowScores:
    outside = {name: arrays[f"{name}/ood_score"] for name in near_sets if f"{name}/ood_score" in arrays}
    own = arrays.get("test/ood_score")
    return row_scores(arrays["test/probs"], arrays["test/labels"], own, outside if own is not None else {})
