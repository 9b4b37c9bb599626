"""Statistics from stored records alone: no torch, nothing is re-run."""

from volta.stats.ablation import AblationRow, compare_ablation
from volta.stats.bootstrap import Bootstrap, paired_bootstrap
from volta.stats.comparisons import COMPARED_METRICS, TestRow, compare_with_baselines
from volta.stats.csv_rows import rows_to_csv
from volta.stats.holm import holm
from volta.stats.pair_test import PairTest, compare_pair
from volta.stats.power import detectable_difference
from volta.stats.rankings import RankRow, compare_over_tasks, critical_differences, rank_tables
from volta.stats.ranks import CriticalDifference, critical_difference, higher_is_better, rank_values
from volta.stats.results import Results, group_records, load_tables
from volta.stats.rowscores import RowScores, row_scores
from volta.stats.samples import Sample, sample_of
from volta.stats.stored_bootstrap import bootstrap_tables
from volta.stats.summary import CorruptionRow, SummaryRow, summarise, summarise_corruptions
from volta.stats.welch import ALPHA, Comparison, hedges_g, welch

__all__ = [
    "ALPHA",
    "COMPARED_METRICS",
    "AblationRow",
    "Bootstrap",
    "Comparison",
    "CorruptionRow",
    "CriticalDifference",
    "PairTest",
    "RankRow",
    "Results",
    "RowScores",
    "Sample",
    "SummaryRow",
    "TestRow",
    "bootstrap_tables",
    "compare_ablation",
    "compare_over_tasks",
    "compare_pair",
    "compare_with_baselines",
    "critical_difference",
    "critical_differences",
    "detectable_difference",
    "group_records",
    "hedges_g",
    "higher_is_better",
    "holm",
    "load_tables",
    "paired_bootstrap",
    "rank_tables",
    "rank_values",
    "row_scores",
    "rows_to_csv",
    "sample_of",
    "summarise",
    "summarise_corruptions",
    "welch",
]
