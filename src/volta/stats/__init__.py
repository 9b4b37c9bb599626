"""Statistics from stored records alone: no torch, nothing is re-run."""

from volta.stats.ablation import AblationRow, compare_ablation
from volta.stats.best import p_best
from volta.stats.bootstrap import Bootstrap, paired_bootstrap
from volta.stats.comparisons import (
    COMPARED_METRICS,
    Bootstraps,
    TestRow,
    check_reference,
    compare_all_pairs,
    compare_with_reference,
    without_rows,
)
from volta.stats.csv_rows import rows_to_csv
from volta.stats.estimate import Estimate
from volta.stats.finding import Aspect, Finding, find
from volta.stats.holm import holm
from volta.stats.leaderboard import LeaderboardRow, make_leaderboard
from volta.stats.looks import LOOKS, LookReport, Question, alpha_at, decide, next_look
from volta.stats.margins import MARGINS, margin_of
from volta.stats.networks import shared_networks
from volta.stats.paired import paired_estimate, welch_estimate
from volta.stats.pairs import PairTest, compare_pair
from volta.stats.power import detectable_difference
from volta.stats.rankings import RankRow, compare_over_tasks, critical_differences, rank_tables
from volta.stats.ranks import CriticalDifference, critical_difference, higher_is_better, rank_values
from volta.stats.results import Results, group_records, load_tables
from volta.stats.rowscores import RowScores, row_scores
from volta.stats.samples import Sample, sample_of
from volta.stats.stored_bootstrap import RowsOfCells, bootstrap_tables, rows_of_cell
from volta.stats.summary import CorruptionRow, SummaryRow, summarise, summarise_corruptions
from volta.stats.welch import ALPHA, Comparison, hedges_g, welch

__all__ = [
    "ALPHA",
    "COMPARED_METRICS",
    "LOOKS",
    "MARGINS",
    "AblationRow",
    "Aspect",
    "Bootstrap",
    "Bootstraps",
    "Comparison",
    "CorruptionRow",
    "CriticalDifference",
    "Estimate",
    "Finding",
    "LeaderboardRow",
    "LookReport",
    "PairTest",
    "Question",
    "RankRow",
    "Results",
    "RowScores",
    "RowsOfCells",
    "Sample",
    "SummaryRow",
    "TestRow",
    "alpha_at",
    "bootstrap_tables",
    "check_reference",
    "compare_ablation",
    "compare_all_pairs",
    "compare_over_tasks",
    "compare_pair",
    "compare_with_reference",
    "critical_difference",
    "critical_differences",
    "decide",
    "detectable_difference",
    "find",
    "group_records",
    "hedges_g",
    "higher_is_better",
    "holm",
    "load_tables",
    "make_leaderboard",
    "margin_of",
    "next_look",
    "p_best",
    "paired_bootstrap",
    "paired_estimate",
    "rank_tables",
    "rank_values",
    "row_scores",
    "rows_of_cell",
    "rows_to_csv",
    "sample_of",
    "shared_networks",
    "summarise",
    "summarise_corruptions",
    "welch",
    "welch_estimate",
    "without_rows",
]
