"""What the VOLTA paper prints and claims, held against our results: from stored records alone, no torch."""

from volta.paper.agreement import PaperComparison, compare_with_paper
from volta.paper.claims import CLAIMS, Claim, ClaimRow, judge_claims, judge_evidence, questions_of
from volta.paper.evidence import Evidence, evidence_of, paper_evidence
from volta.paper.judges import FAILS, HOLDS, TIE, UNKNOWN, Verdict
from volta.paper.published_tests import PaperTestRow, recompute_paper_tests
from volta.paper.tasks import CLAIM_TASKS
from volta.paper.values import PaperValue, paper_values

__all__ = [
    "CLAIMS",
    "CLAIM_TASKS",
    "FAILS",
    "HOLDS",
    "TIE",
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
    "questions_of",
    "recompute_paper_tests",
]
