"""What the page says of one task and protocol, as values that a template shows: finding, claims, tables, charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from volta.figures import Chart
from volta.metrics import METRICS
from volta.paper import FAILS, HOLDS, TIE, ClaimRow
from volta.report.comparisons import baseline_table, paper_table
from volta.report.figure_files import FigureFile
from volta.report.finding import finding_sentence
from volta.report.leaderboard import leaderboard_table
from volta.report.pair_matrix import pair_matrix
from volta.report.remarks import Remarks, group_remarks, group_warnings
from volta.report.result_tables import ablation_table, ood_table, results_table, shifts_table
from volta.report.run import Group
from volta.report.sheet import Sheet
from volta.report.statistics import ALL_PAIRS, Statistics
from volta.report.table_model import Table
from volta.report.training import training_table

NOT_RUN = "not run"
TONES = {HOLDS: "holds", FAILS: "fails", TIE: "tie", NOT_RUN: "missing"}


@dataclass(frozen=True)
class Claim:
    """A claim with its verdict, its tone (holds, fails, tie, open or missing), and the sentence that decides it."""

    statement: str
    verdict: str
    tone: str
    sentence: str


@dataclass(frozen=True)
class ChartView:
    """A chart's place on the page, with its figures for print."""

    chart: Chart
    files: tuple[FigureFile, ...]


@dataclass(frozen=True)
class Part:
    """A part of a group that the navigation reaches by ``key``: its heading and what stands below it."""

    key: str
    title: str
    words: str = ""
    table: Table | None = None
    charts: tuple[ChartView, ...] = ()
    claims: tuple[Claim, ...] = ()
    sheet: Sheet | None = None
    remarks: Remarks | None = None


@dataclass(frozen=True)
class GroupView:
    """Everything the page says of one group."""

    key: str
    task: str
    protocol: str
    lead: str
    finding: str
    warnings: tuple[str, ...]
    is_finished: bool
    parts: tuple[Part, ...] = field(default=())


def group_view(
    group: Group, own: Statistics, charts: Sequence[ChartView], sheet: Sheet | None, looks: str = ""
) -> GroupView:
    """Return everything the page says of one group.

    ``own`` holds the statistics of that group alone; ``looks`` says in words how often results were looked at.
    """
    return GroupView(
        group.key,
        group.task,
        group.protocol,
        f"{group.context.line} · {len(group.records)} of {len(group.planned)} cells",
        finding_sentence(group, own),
        tuple(group_warnings(group)),
        group.table is not None,
        tuple(_parts(group, own, charts, sheet, looks)),
    )


def _parts(group: Group, own: Statistics, charts: Sequence[ChartView], sheet: Sheet | None, looks: str) -> list[Part]:
    parts = []
    if group.table is not None:
        if own.leaderboard:
            places = leaderboard_table(group, own.leaderboard, own.alpha)
            parts.append(Part("leaderboard", "Leaderboard", "" if own.claims else looks, places))
        if own.claims:
            parts.append(Part("claims", claims_heading(own.claims), looks, claims=tuple(map(_claim, own.claims))))
        parts.append(Part("results", "Results", table=results_table(group, own.tests, own.paper, own.alpha)))
        if group.ood_means:
            parts.append(Part("ood", "OOD detection in brief", table=ood_table(group)))
        if charts:
            parts.append(Part("figures", "Figures", charts=tuple(charts)))
        if own.reference == ALL_PAIRS and own.pairs:
            parts.append(Part("tests", "All pairs", detectable_sentence(own), pair_matrix(group, own.pairs)))
        elif own.tests:
            table = baseline_table(group, own.tests, own.reference, own.alpha)
            parts.append(Part("tests", table.caption, detectable_sentence(own), table))
        if own.ablation:
            parts.append(Part("ablation", "Ablation", table=ablation_table(group, own.ablation)))
        if group.sets("shift"):
            parts.append(Part("shifts", "Under shift", table=shifts_table(group), sheet=sheet))
        training = training_table(group)
        if training is not None:
            parts.append(Part("training", "Training", table=training))
        if own.paper:
            parts.append(Part("paper", "Beside the paper", table=paper_table(group, own.paper)))
    return [*parts, Part("missing", "What to know about this run", remarks=group_remarks(group))]


def detectable_sentence(own: Statistics) -> str:
    """Return what difference these tests could have seen at all, in words."""
    n = max((test.n_reference for test in own.tests), default=0)
    parts = []
    for metric in ("accuracy", "ece", "auroc"):
        seen = sorted(
            t.detectable_difference for t in own.tests if t.metric == metric and t.detectable_difference is not None
        )
        if seen:
            parts.append(f"{seen[len(seen) // 2]:.3g} in {METRICS[metric].label}")
    if not parts:
        return "With one seed a test can see nothing; run more seeds."
    seeds = "one seed" if n == 1 else f"{n} seeds"
    return (
        f"With {seeds} such a test finds, in 80 % of cases, a true difference of about {', '.join(parts)} "
        "(median over baselines); smaller differences may exist and stay unseen. «Not significant» is not «equal»."
    )


def claims_heading(claims: Sequence[ClaimRow]) -> str:
    """Return how the paper's claims fared, in a heading."""
    count = Counter(TONES.get(_shown_verdict(claim), "open") for claim in claims)
    words = {
        "holds": ("holds", "hold"),
        "fails": ("does not", "do not"),
        "tie": ("no difference that matters",) * 2,
        "open": ("cannot be told",) * 2,
        "missing": (NOT_RUN,) * 2,
    }
    parts = [f"{count[tone]} {one if count[tone] == 1 else many}" for tone, (one, many) in words.items() if count[tone]]
    return f"The paper’s claims: {', '.join(parts)}"


def _claim(claim: ClaimRow) -> Claim:
    verdict = _shown_verdict(claim)
    return Claim(claim.statement, verdict, TONES.get(verdict, "open"), claim.sentence)


def _shown_verdict(claim: ClaimRow) -> str:
    """Return the verdict, or that what the claim is about was not run: that is another thing than a test in doubt."""
    return claim.verdict if claim.n else NOT_RUN
