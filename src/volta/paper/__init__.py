"""The VOLTA paper's printed values and claims, compared with our results from stored records."""

from volta.paper.claim_evidence import Evidence, evidence_of, paper_evidence
from volta.paper.claims import (
    CLAIMS,
    EQUIVALENT,
    INCONCLUSIVE,
    NOT_RUN,
    REFUTED,
    SUPPORTED,
    Claim,
    ClaimRow,
    Verdict,
    evaluate_claims,
    evaluate_evidence,
    questions_of,
)
from volta.paper.values import (
    CLAIM_TASKS,
    PaperComparison,
    PaperTestRow,
    PaperValue,
    compare_with_paper,
    paper_values,
    recompute_paper_tests,
)

__all__ = [
    "CLAIMS",
    "CLAIM_TASKS",
    "EQUIVALENT",
    "INCONCLUSIVE",
    "NOT_RUN",
    "REFUTED",
    "SUPPORTED",
    "Claim",
    "ClaimRow",
    "Evidence",
    "PaperComparison",
    "PaperTestRow",
    "PaperValue",
    "Verdict",
    "compare_with_paper",
    "evaluate_claims",
    "evaluate_evidence",
    "evidence_of",
    "paper_evidence",
    "paper_values",
    "questions_of",
    "recompute_paper_tests",
]
