"""The paper's claims, each in a line, with a verdict computed by rules and the figures that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from volta.methods.ablation import Ablation
from volta.paper.evidence import Evidence, evidence_of
from volta.paper.judges import (
    UNKNOWN,
    Judgement,
    Pair,
    Verdict,
    judge_against_median,
    judge_best,
    judge_matters,
    judge_no_help,
    judge_on_par,
)
from volta.paper.tasks import CLAIM_TASKS
from volta.stats import ALPHA, Bootstraps, Question, Results
from volta.stats.comparisons import bootstrap_of

_FIVE = ("accuracy", "ece", "brier", "nll", "auroc")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its ``statement``, the ``rule`` in words, and the function that judges it at a level.

    ``as_predicted``: ECE, Brier and NLL are always those of the probabilities as the method gives them.
    """

    key: str
    statement: str
    rule: str
    judge: Callable[[Evidence, float], Judgement]
    as_predicted: bool = False


@dataclass(frozen=True)
class ClaimRow:
    """A claim judged on one task and protocol; ``sentence`` holds the deciding figures and n.

    ``n``: the fewest seeds that its comparisons rest on; ``alpha``: the level it was judged at; ``seeds_needed``: the
    estimated number of seeds that decides it with 80 % probability, where it is undecided and a number is in sight;
    ``methods``: the methods it compares, separated by spaces.
    """

    task: str
    protocol: str
    claim: str
    statement: str
    verdict: Verdict
    sentence: str
    n: int
    alpha: float
    seeds_needed: int | None
    methods: str


def judge_claims(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[ClaimRow]:
    """Return a verdict on each claim of the paper for every protocol of its tasks, and of `digits`, that VOLTA ran."""
    return [
        row
        for table in tables
        if table.ours and table.task in CLAIM_TASKS
        for row in judge_evidence(evidence_of(table, table.ours, bootstrap_of(bootstraps, table)), alpha)
    ]


def judge_evidence(evidence: Evidence, alpha: float = ALPHA) -> list[ClaimRow]:
    """Return a verdict on each claim from one body of evidence, ours or the paper's own."""
    rows = []
    for claim in CLAIMS:
        found = claim.judge(evidence.as_predicted() if claim.as_predicted else evidence, alpha)
        known = (evidence.ours, *evidence.baselines, *(row.key for row in Ablation))
        compared = dict.fromkeys(name for test in found.tests for name in (test.first, test.second))
        if any(name not in known for name in compared):
            compared |= dict.fromkeys(evidence.baselines)
        rows.append(
            ClaimRow(
                evidence.task, evidence.protocol, claim.key, claim.statement, found.verdict, found.sentence,
                min((test.n for test in found.tests), default=0), alpha, found.seeds_needed,
                " ".join(name for name in compared if name in known),
            )
        )  # fmt: skip
    return rows


def questions_of(claims: Iterable[ClaimRow]) -> list[Question]:
    """Return the claims as questions of :func:`volta.stats.decide`; one that nothing was run for is not asked."""
    return [
        Question(
            f"{row.task} · {row.protocol} · {row.claim}",
            tuple(row.methods.split()),
            "" if row.verdict == UNKNOWN else row.verdict,
            row.n,
            row.seeds_needed,
            row.sentence,
        )
        for row in claims
        if row.methods
    ]


def _auxiliary_pairs(ours: str) -> tuple[Pair, ...]:
    removed = (Ablation.NO_MARGIN, Ablation.NO_RECONSTRUCTION, Ablation.NO_DIVERSITY, Ablation.NO_CONTRASTIVE)
    added = (Ablation.PLUS_MARGIN, Ablation.PLUS_RECONSTRUCTION, Ablation.PLUS_DIVERSITY, Ablation.PLUS_CONTRASTIVE)
    return (*((Ablation.FULL.key, row.key) for row in removed), *((row.key, ours) for row in added))


def _full_without(row: Ablation) -> Pair:
    return Ablation.FULL.key, row.key


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "best-ece",
        "VOLTA has the lowest ECE of all methods.",
        "holds if VOLTA is better than every baseline (two-sided p < 0.05 each); does not hold if a baseline is better "
        "(Bonferroni over baselines); no difference that matters if VOLTA loses less than 0.01 to every baseline and "
        "leads by less than 0.01 over one",
        partial(judge_best, "ece"),
    ),
    Claim(
        "accuracy-on-par",
        "VOLTA's accuracy is on par with the best baseline.",
        "holds if VOLTA is shown to lose less than 0.01 to every baseline; does not hold if it is shown to lose more "
        "to one of them",
        partial(judge_on_par, "accuracy"),
    ),
    Claim(
        "selective-prediction",
        "VOLTA's uncertainty gives the best selective prediction (AURC).",
        "as for best ECE, on AURC by each method's own score, margin 0.005",
        partial(judge_best, "aurc"),
    ),
    Claim(
        "ood-competitive",
        "VOLTA's OOD detection is competitive: not below the middle of the baselines on near-OOD AUROC.",
        "holds if VOLTA is shown to lose less than 0.01 to the median over baselines, taken in each seed; does not "
        "hold if it is shown to lose more",
        partial(judge_against_median, "auroc"),
    ),
    Claim(
        "auxiliary-losses-do-not-help",
        "Auxiliary losses (margin, reconstruction, diversity, contrastive) do not help.",
        "holds if every gain is shown to be below its margin; does not hold if one is shown to be above it",
        partial(judge_no_help, _auxiliary_pairs, _FIVE, "An auxiliary loss"),
    ),
    Claim(
        "deep-encoder-matters",
        "The deep encoder matters for calibration and accuracy.",
        "holds if deep is better than shallow on a metric and worse on none, negligible differences aside; does not "
        "hold if the opposite, or if every gain is below its margin; no difference that matters if every difference is",
        partial(
            judge_matters, _full_without(Ablation.SHALLOW), ("accuracy", "ece", "brier", "nll"), "The deep encoder"
        ),
    ),
    Claim(
        "temperature-matters",
        "Temperature (learned and post-hoc) matters for calibration.",
        "as for the deep encoder, on ECE and NLL of the probabilities as predicted",
        partial(judge_matters, _full_without(Ablation.NO_TEMPERATURE), ("ece", "nll"), "Temperature"),
        as_predicted=True,
    ),
    Claim(
        "mc-inference-does-not-help",
        "Monte Carlo inference does not help.",
        "as for auxiliary losses",
        partial(judge_no_help, lambda ours: (_full_without(Ablation.NO_MC),), _FIVE, "Monte Carlo inference"),
    ),
)
