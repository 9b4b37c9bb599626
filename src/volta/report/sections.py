"""The parts of the page about one task and protocol: cards, claims, warnings, tables, places for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from volta.bench.records import CellRecord, instruction_sets
from volta.figures.names import set_name
from volta.metrics import METRICS
from volta.report.charts import PrintFigure, charts_markup
from volta.report.comparisons import baseline_table, paper_table
from volta.report.drawings import headline_keys
from volta.report.markup import element, facts, listing, table_markup, text
from volta.report.run import Group
from volta.report.table import decimals_for, show
from volta.report.tables import ablation_table, results_table, shifts_table
from volta.stats import ClaimRow, Statistics, sample_of
from volta.stats.claims import FAILS, HOLDS

VERDICTS = {HOLDS: "holds", FAILS: "fails"}


def group_section(
    group: Group, own: Statistics, printed: Mapping[str, PrintFigure], charts: Sequence[str], sheet: str = ""
) -> str:
    """Return everything the page says of one group; ``own`` holds the statistics of that group alone.

    ``sheet`` is the markup of the corruptions' contact sheet.
    """
    parts = [element("p", text(group.context.line), class_="lead"), warnings_part(group)]
    if group.table is None:
        parts.append(element("p", "No cell of this task and protocol has finished, so there is nothing to show yet."))
    else:
        parts += [cards(group, own), claims_part(own.claims)]
        parts.append(_part("results", "Results", table_markup(results_table(group, own.tests, own.paper))))
        parts.append(_part("figures", "Figures", charts_markup(printed, charts)))
        if own.tests:
            words = element("p", text(detectable_sentence(group, own)))
            parts.append(
                _part("tests", "VOLTA against each baseline", words + table_markup(baseline_table(group, own.tests)))
            )
        if own.ablation:
            parts.append(_part("ablation", "Ablation", table_markup(ablation_table(group, own.ablation))))
        if group.sets("shift"):
            parts.append(_part("shifts", "Under shift", table_markup(shifts_table(group)) + sheet))
        if own.paper:
            parts.append(_part("paper", "Beside the paper", table_markup(paper_table(group, own.paper))))
    parts.append(_part("missing", "What to know about this run", remarks_part(group)))
    return element(
        "section",
        "".join(parts),
        class_="group",
        data_group=group.key,
        aria_label=f"{group.task}, {group.protocol} protocol",
    )


def own_statistics(group: Group, stats: Statistics) -> Statistics:
    """Return the rows of the statistics that belong to a group."""

    def mine(rows: Sequence[object]) -> list[object]:
        return [row for row in rows if (getattr(row, "task"), getattr(row, "protocol")) == (group.task, group.protocol)]  # noqa: B009

    fields = {name: mine(getattr(stats, name)) for name in Statistics.__dataclass_fields__}
    return Statistics(**fields)  # type: ignore[arg-type]


def cards(group: Group, own: Statistics) -> str:
    """Return the summary cards: what was run, who is best at what, where VOLTA stands, which claims held."""
    seeds = sorted({seed for _, seed in group.records})
    done, planned = len(group.records), len(group.planned)
    items = [
        (
            "Cells finished",
            f"{done} of {planned}",
            f"{_count(len(group.methods), 'method')} × {_count(len({c.seed for c in group.planned}), 'seed')}",
        ),
        (
            "Test rows",
            f"{group.context.n_rows:,}",
            f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}",
        ),
    ]
    names = {"accuracy": "Best accuracy", "ece": "Lowest ECE", "aurc": "Lowest AURC", "auroc": "Best near-OOD AUROC"}
    for key in headline_keys(group):
        metric, _, where = key.partition("@")
        if metric not in names:
            continue
        means = {m: sample_of(v).mean for m in group.compared if (v := group.values(m, key))}
        if means:
            best = (max if METRICS[metric].higher_is_better else min)(means, key=lambda m: means[m])
            spread = sample_of(group.values(best, key)).std
            decimals = decimals_for([means[best]])
            who = group.title(best) + (f", {set_name(where)}" if where else "")
            items.append(
                (
                    names[metric],
                    show(metric, means[best], decimals),
                    who + ("" if spread is None else f" (± {show(metric, spread, decimals)})"),
                )
            )
    rank = next(
        (row for row in own.ranks if row.method == "volta" and row.metric == "(mean)" and row.rank is not None), None
    )
    if rank is not None and rank.n_methods > 1:
        items.append(
            (
                "VOLTA’s mean rank",
                f"{rank.rank:.1f} of {rank.n_methods}",
                "over accuracy, ECE, Brier, NLL, near-OOD AUROC",
            )
        )
    if own.claims:
        count = Counter(VERDICTS.get(claim.verdict, "open") for claim in own.claims)
        words = f"{count['fails']} do not hold, {count['open']} cannot be told"
        items.append(("The paper’s claims", f"{count['holds']} of {len(own.claims)} hold", words))
    return element("ul", "".join(_card(*item) for item in items), class_="cards")


def claims_part(claims: Sequence[ClaimRow]) -> str:
    """Return the claims, each with its verdict and the sentence that decides it."""
    if not claims:
        return ""
    items = "".join(
        element(
            "li",
            element("div", text(claim.verdict), class_=f"verdict {VERDICTS.get(claim.verdict, 'open')}")
            + element(
                "div",
                element("div", text(claim.statement), class_="statement")
                + element("p", text(claim.sentence), class_="sentence"),
            ),
        )
        for claim in claims
    )
    return _part("claims", "What held, what did not", element("ul", items, class_="claims"))


def warnings_part(group: Group) -> str:
    """Return what a reader must know before any number: a reduced budget, other features, unfinished cells."""
    lines = []
    if group.budget.startswith("reduced"):
        lines.append(
            f"Reduced run ({group.budget.removeprefix('reduced: ')}): "
            "these numbers are not comparable with a full run’s or the paper’s."
        )
    lines += [f"Features: {name}." for name in unusual_features(group)]
    mixed = instruction_sets(group.records.values())
    if len(mixed) > 1:
        shares = "; ".join(f"{_count(n, 'cell')} on {name}" for name, n in mixed.items())
        lines.append(f"Instruction sets are mixed, and equal seeds give other numbers on each: {shares}.")
    if group.missing:
        lines.append(
            f"{len(group.missing)} of {len(group.planned)} cells are not finished; "
            "every mean is over the seeds that are. They are named below."
        )
    seeds = {seed for _, seed in group.records}
    if len(seeds) == 1:
        lines.append("One seed: no standard deviations and no tests.")
    return (
        element("div", "".join(element("p", text(line)) for line in lines), class_="banner", role="note")
        if lines
        else ""
    )


def unusual_features(group: Group) -> list[str]:
    """Return what the records say of the features they rest on, where that is not the paper's backbone."""
    found = {record.backbone for record in group.records.values() if record.backbone is not None}
    return sorted(found - {"resnet18"})


def detectable_sentence(group: Group, own: Statistics) -> str:
    """Return what difference these tests could have seen at all, in words."""
    n = max((test.n_volta for test in own.tests), default=0)
    parts = []
    for metric in ("accuracy", "ece", "auroc"):
        seen = sorted(
            t.detectable_difference for t in own.tests if t.metric == metric and t.detectable_difference is not None
        )
        if seen:
            parts.append(f"{seen[len(seen) // 2]:.3g} in {metric if metric == 'accuracy' else metric.upper()}")
    if not parts:
        return "With one seed a test can see nothing; run more seeds."
    return (
        f"With {n} seeds such a test finds, in 80 % of cases, a true difference of about {', '.join(parts)} "
        "(median over baselines); smaller differences may exist and stay unseen. «Not significant» is not «equal»."
    )


def remarks_part(group: Group) -> str:
    """Return what is missing or failed, sets the task lacks, notes of the methods, floored rows."""
    parts = []
    failed = [f"{cell.label}: {message}" for cell, message in group.failures.items()]
    never = [cell.label for cell in group.missing if cell not in group.failures]
    if failed:
        parts.append(element("h3", "Failed cells") + listing(failed))
    if never:
        parts.append(element("h3", "Cells that have not run") + listing(never))
    absent = [
        words
        for kind, words in (
            ("ood", "The task has no OOD sets: no AUROC, FPR95 or score histograms."),
            ("shift", "The task has no shifted test sets: no robustness table."),
        )
        if group.table and not group.sets(kind)
    ]
    if group.table and "volta" not in group.methods:
        absent.append("VOLTA itself is not in this run: no tests against baselines, no claims.")
    notes: dict[str, list[str]] = {}
    floored = []
    for (method, seed), record in group.records.items():
        for note in record.notes:
            notes.setdefault(note, []).append(f"{group.title(method)} ({seed})")
        for name, count in record.floored_rows.items():
            floored.append(
                f"{group.title(method)}, seed {seed}, {name}: {count} rows gave their true class a probability of 0 "
                "and were floored in NLL"
            )
    if absent:
        parts.append(listing(absent))
    if floored:
        parts.append(element("h3", "Floored rows") + listing(floored))
    if notes:
        items = [
            f"{' '.join(note.split())} — {', '.join(who[:6])}{f' and {len(who) - 6} more' if len(who) > 6 else ''}"
            for note, who in notes.items()
        ]
        parts.append(
            element(
                "details", element("summary", f"Notes the methods left ({len(items)})") + listing(items), class_="more"
            )
        )
    if group.first_record is not None:
        pairs = _data_facts(group.first_record)
        parts.append(element("details", element("summary", "Rows and data hashes") + facts(pairs), class_="more"))
    return "".join(parts) or element("p", "Every planned cell has finished and no method left a note.")


def _data_facts(record: CellRecord) -> list[tuple[str, str]]:
    rows, hashes = record.rows, record.data
    names = dict.fromkeys([*rows, *hashes])
    counts = {name: f"{rows[name]:,} rows" for name in rows}
    sums = {name: f"sha256 {hashes[name]}" for name in hashes}
    return [(name, f"{counts.get(name, '')} {sums.get(name, '')}".strip()) for name in names]


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _card(what: str, value: str, who: str) -> str:
    return element(
        "li",
        element("div", text(what), class_="what")
        + element("div", text(value), class_="value")
        + element("div", text(who), class_="who"),
    )


def _part(name: str, title: str, content: str) -> str:
    return element("h2", text(title), data_part=name, tabindex="-1") + content if content else ""
