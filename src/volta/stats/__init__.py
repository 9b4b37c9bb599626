"""Statistics from stored records alone: no torch, nothing is re-run."""

from volta.stats.ablation import AblationRow, compare_ablation
from volta.stats.beside import BesideRow, beside_paper
from volta.stats.bootstrap import Bootstrap, paired_bootstrap
from volta.stats.claims import CLAIMS, ClaimRow, judge_claims, judge_evidence
from volta.stats.comparisons import TESTED, TestRow, compare_with_baselines
from volta.stats.csv_rows import rows_to_csv
from volta.stats.evidence import MARGINS, Evidence, evidence_of, paper_evidence
from volta.stats.holm import holm
from volta.stats.outputs import (
    Statistics,
    bootstrap_tables,
    compute_statistics,
    load_tables,
    write_statistics,
)
from volta.stats.paper import PaperValue, paper_values
from volta.stats.power import detectable_difference
from volta.stats.printed import PaperTestRow, recompute_paper_tests
from volta.stats.rankings import RankRow, compare_over_tasks, critical_differences, rank_tables
from volta.stats.ranks import CriticalDifference, critical_difference, rank_values
from volta.stats.results import Results, group_records
from volta.stats.rowscores import RowScores, row_scores
from volta.stats.samples import Sample, sample_of
from volta.stats.summary import CorruptionRow, SummaryRow, summarise, summarise_corruptions
from volta.stats.welch import ALPHA, Comparison, hedges_g, welch

__all__ = [
    "ALPHA",
    "CLAIMS",
    "MARGINS",
    "TESTED",
    "AblationRow",
    "BesideRow",
    "Bootstrap",
    "ClaimRow",
    "Comparison",
    "CorruptionRow",
    "CriticalDifference",
    "Evidence",
    "PaperTestRow",
    "PaperValue",
    "RankRow",
    "Results",
    "RowScores",
    "Sample",
    "Statistics",
    "SummaryRow",
    "TestRow",
    "beside_paper",
    "bootstrap_tables",
    "compare_ablation",
    "compare_over_tasks",
    "compare_with_baselines",
    "compute_statistics",
    "critical_difference",
    "critical_differences",
    "detectable_difference",
    "evidence_of",
    "group_records",
    "hedges_g",
    "holm",
    "judge_claims",
    "judge_evidence",
    "load_tables",
    "paired_bootstrap",
    "paper_evidence",
    "paper_values",
    "rank_tables",
    "rank_values",
    "recompute_paper_tests",
    "row_scores",
    "rows_to_csv",
    "sample_of",
    "summarise",
    "summarise_corruptions",
    "welch",
    "write_statistics",
]
