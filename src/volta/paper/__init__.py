"""What the VOLTA paper prints and claims, held against our results: from stored records alone, no torch."""

from volta.paper.agreement import PaperComparison, compare_with_paper
from volta.paper.claims import CLAIMS, FAILS, HOLDS, UNKNOWN, Claim, ClaimRow, Verdict, judge_claims, judge_evidence
from volta.paper.evidence import MARGINS, Evidence, evidence_of, paper_evidence
from volta.paper.published_tests import PaperTestRow, recompute_paper_tests
from volta.paper.values import PaperValue, paper_values

__all__ = [
    "CLAIMS",
    "FAILS",
    "HOLDS",
    "MARGINS",
    "UNKNOWN",
    "Claim",
    "ClaimRow",
    "Evidence",
    "PaperComparison",
    "PaperTestRow",
    "PaperValue",
    "Verdict",
    "compare_with_paper",
    "evidence_of",
    "judge_claims",
    "judge_evidence",
    "paper_evidence",
    "paper_values",
    "recompute_paper_tests",
]
