"""``report.html``: one file without network requests, and the views that its template shows."""

from __future__ import annotations

import ast
import base64
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from inspect import cleandoc
from pathlib import Path
from typing import TypeAlias, get_args

import numpy as np
from markupsafe import Markup

from volta import figures
from volta.bench.records import EXTERNAL
from volta.core.errors import VoltaError, parse_errors
from volta.core.files import read_file
from volta.data import CORRUPTION_NAMES
from volta.data.images import decode
from volta.figures import Chart, Context, GroupNumbers, MethodValues, style_of
from volta.figures.chart_data import Json
from volta.figures.comparison import MEAN_RANKS
from volta.figures.style import full_name, metric_key, metric_name
from volta.metrics import METRICS
from volta.paper import ClaimRow, Verdict
from volta.report.leaderboard import leaderboard_table
from volta.report.result_tables import group_tables
from volta.report.run import Group, Run
from volta.report.statistics import Statistics
from volta.report.table_model import Table, render
from volta.report.words import Fact, finding_sentence, group_header, group_remarks, group_warnings, run_facts
from volta.stats.ranking import OVERALL, CriticalDifference, critical_differences

FIGURES = "figures"


def data_address(path: Path, media_type: str) -> str:
    """Return a file's content as an address that a page can hold."""
    return f"data:{media_type};base64,{base64.b64encode(path.read_bytes()).decode()}"


_SHEET_BYTES = 1 << 26


def draw_sheet(group: Group, stored: Path, folder: Path, prefix: str) -> tuple[str, str] | None:
    """Draw the stored sheet into ``folder``; return its address and why it has none, None where there is no sheet."""
    if not stored.is_file() or not group.sets("shift"):
        return None
    try:
        with parse_errors(stored, "cannot be read"):
            sheet = decode(read_file(stored, _SHEET_BYTES))
    except VoltaError as error:
        return "", f"The contact sheet {stored.name} cannot be read ({error})."
    if (sheet.shape[0] + 1) % len(CORRUPTION_NAMES) or (sheet.shape[1] + 1) % figures.N_SEVERITIES:
        size = f"{sheet.shape[1]} × {sheet.shape[0]} pixels"
        return "", f"The contact sheet {stored.name} is not one: it has {size}."
    drawn = figures.corruption_sheet(group.context, sheet, CORRUPTION_NAMES)
    png, _ = figures.save_figure(drawn, folder, f"{prefix}corruption_sheet")
    return data_address(png, "image/png"), ""


@dataclass(frozen=True)
class AcrossView:
    """What the page says over all tasks: diagrams (title, address), why some are not there, and mean ranks in words."""

    diagrams: Sequence[tuple[str, str]]
    reasons: Sequence[str]
    ranks: Sequence[str]


def across_view(run: Run, folder: Path | None) -> AcrossView | None:
    """Return the page's part about several tasks, None for one; diagrams are written to ``folder`` if given."""
    found = {key: numbers for key, numbers in critical_differences(run.tables).items() if len(numbers.tasks) > 1}
    if not found:
        return None
    titles = {name: group.title(name) for group in run.groups for name in group.methods}
    diagrams = [
        _diagram(run, titles, key, numbers, folder)
        for key, numbers in found.items()
        if folder is not None and numbers.critical_difference is not None
    ]
    ranks = [
        f"{metric_name(metric)}, {protocol} protocol, {len(numbers.tasks)} tasks: "
        + ", ".join(f"{titles[name]} {rank:.2f}" for name, rank in numbers.mean_ranks.items())
        for (protocol, metric), numbers in found.items()
        if numbers.mean_ranks
    ]
    reasons = dict.fromkeys(numbers.reason for numbers in found.values() if numbers.reason)
    return AcrossView(diagrams, list(reasons), ranks)


def _diagram(
    run: Run, titles: Mapping[str, str], key: tuple[str, str], numbers: CriticalDifference, folder: Path
) -> tuple[str, str]:
    protocol, metric = key
    own = [group for group in run.groups if group.protocol == protocol]
    n_rows, n_seeds = sum(group.context.n_rows for group in own), min(group.context.n_seeds for group in own)
    context = Context(f"{len(numbers.tasks)} tasks", protocol, n_rows, n_seeds)
    ours = {name for group in own for name in group.methods if group.is_ours(name)}
    ranks = [
        MethodValues(name, titles[name], {"rank": [rank]}, name in ours) for name, rank in numbers.mean_ranks.items()
    ]
    bars = [
        (min(found), max(found)) for names in numbers.groups if (found := [numbers.mean_ranks[name] for name in names])
    ]
    title = f"Mean ranks on {metric_name(metric)}"
    figure = figures.critical_difference(context, ranks, numbers.critical_difference, bars, title, len(numbers.tasks))
    png, _ = figures.save_figure(figure, folder, f"critical_difference-{protocol}-{metric}")
    return title, data_address(png, "image/png")


USE = """from volta import VoltaClassifier
model = VoltaClassifier(method="{name}").fit(X_train, y_train)
probs = model.predict_proba(X_test)
flags = model.is_ood(X_test)
decisions = model.decide(X_test)"""


@cache
def method_notes() -> Mapping[str, Mapping[str, str]]:
    """Return title → ``formula``, ``reference`` and ``code`` of every method of the package, from its docstring.

    The sources are parsed and not imported: a report needs no torch.

    >>> method_notes()["Energy"]["formula"]
    'p = softmax(l); u = −log Σ_k exp(l_k), higher where more OOD.'
    """
    found = {}
    for source in sorted(files("volta.methods").iterdir(), key=lambda file: file.name):
        if not source.name.endswith(".py"):
            continue
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and (title := _class_title(node)):
                about, _, reference = cleandoc(ast.get_docstring(node) or "").partition("Reference")
                name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()
                found[title] = {
                    "formula": about.strip(),
                    "reference": reference.removeprefix("s").removeprefix(":").strip(),
                    "code": USE.format(name=name),
                }
    return found


def _class_title(node: ast.ClassDef) -> str:
    """Return the value of the class's ``title``; empty where it has none."""
    for line in node.body:
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == ["title"]:
            return str(ast.literal_eval(line.value))
    return ""


DIGITS = 4


def group_json(group: Group, charts: Sequence[Chart], numbers: GroupNumbers) -> Json:
    """Return what the page's script needs of one group: its methods, and each chart's kind, choices and numbers."""
    styles = {name: style_of(name) for name in group.methods}
    notes = method_notes()
    best: dict[str, list[str]] = {}
    for row in numbers.leaderboard:
        if row.in_confidence_set and row.metric != OVERALL:
            best.setdefault(row.method, []).append(full_name(metric_key(row.metric, row.set)))
    return {
        "id": group.key,
        "networks": group.networks,
        "methods": [
            {
                "name": name,
                "title": group.title(name),
                "origin": group.origin(name),
                "ours": group.is_ours(name),
                "hue": style.hue,
                "marker": style.marker,
                "dash": " ".join(f"{part:g}" for part in style.dash),
                "about": notes.get(group.title(name).partition(" [")[0]),
                "best": best.get(name, []),
            }
            for name, style in styles.items()
        ],
        "charts": {
            chart.name: {
                "kind": chart.kind,
                "shared": chart.shared,
                "choices": [asdict(choice) for choice in chart.choices(numbers)],
                "switches": [{"name": name, "label": label} for name, label in chart.switches],
                "data": chart.data(numbers),
            }
            for chart in charts
        },
    }


def script_json(value: object) -> str:
    """Return JSON that cannot end its script element, whatever text it holds: <, >, & and line separators escaped.

    Numbers are rounded to four digits; those that are not finite become null.
    """
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: object) -> object:
    # Most values are numbers, and a page holds a quarter of a million of them.
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


FigureFile: TypeAlias = tuple[str, str]
"""A figure for print as the page offers it: the words on its button, and its address next to the page."""


@dataclass(frozen=True)
class Part:
    """A part of a group that the navigation reaches by ``key``: its heading and what stands below it.

    ``charts``: each with its figures for print, ``lead_chart`` the one before the table; ``sheet``: the contact sheet's
    address, or why it has none; ``folded``: the table is shown when a reader asks for it.
    """

    key: str
    title: str
    words: str = ""
    table: Table | None = None
    fold: Table | None = None
    charts: Sequence[tuple[Chart, Sequence[FigureFile]]] = ()
    lead_chart: tuple[Chart, Sequence[FigureFile]] | None = None
    folded: bool = False
    claims: Sequence[ClaimRow] = ()
    sheet: tuple[str, str] | None = None
    remarks: Mapping[str, Sequence[str | Fact]] | None = None


@dataclass(frozen=True)
class GroupView:
    """Everything the page says of one group."""

    group: Group
    header: str
    finding: str
    warnings: Sequence[str]
    parts: Sequence[Part]


def group_view(
    group: Group,
    own: Statistics,
    charts: Sequence[tuple[Chart, Sequence[FigureFile]]] = (),
    sheet: tuple[str, str] | None = None,
    design: str = "",
) -> GroupView:
    """Return everything the page says of one group.

    ``own`` holds the statistics of that group alone; ``design``: the sequential design in words.
    """
    tables = group_tables(group, own)
    # One method has no rank.
    ranked = own.leaderboard if len(group.compared) > 1 else []
    leaderboard = leaderboard_table(group, ranked, own.alpha) if ranked else None
    tests = tables.get("tests")
    first = next((chart for chart in charts if chart[0] is MEAN_RANKS), None)
    parts = [
        Part("leaderboard", "Leaderboard", "" if own.claims else design, leaderboard, lead_chart=first),
        Part("claims", claims_heading(own.claims), design if own.claims else "", claims=own.claims),
        Part("results", "Results", table=tables.get("results")),
        Part("ood", "OOD detection", table=tables.get("ood")),
        Part("figures", "Figures", charts=[chart for chart in charts if chart is not first]),
        Part("tests", tests.caption, detectable_sentence(own), tests, folded=True) if tests else Part("tests", ""),
        Part("ablation", "Ablation", table=tables.get("ablation")),
        Part("shifts", "Corrupted test sets", table=tables.get("shifts"), sheet=sheet),
        Part("training", "Training", table=tables.get("training"), folded=True),
        Part("paper", "Comparison with the paper", table=tables.get("paper"), fold=tables.get("paper_tests")),
        Part("missing", "Notes on this run", remarks=group_remarks(group)),
    ]
    shown = [part for part in parts if part.table or part.charts or part.claims or part.remarks]
    return GroupView(group, group_header(group), finding_sentence(group, own), group_warnings(group), shown)


def detectable_sentence(own: Statistics) -> str:
    """Return the minimum detectable differences of the tests in words."""
    n = max((test.n_reference for test in own.tests), default=0)
    parts = []
    for metric in ("accuracy", "ece", "auroc"):
        seen = sorted(
            t.detectable_difference for t in own.tests if t.metric == metric and t.detectable_difference is not None
        )
        if seen:
            parts.append(f"{seen[len(seen) // 2]:.3g} in {METRICS[metric].label}")
    if not parts:
        return "One seed gives no test; run more seeds."
    seeds = "one seed" if n == 1 else f"{n} seeds"
    return (
        f"Minimum detectable difference (80 % power) with {seeds}, median over methods: {', '.join(parts)}. "
        "Not significant does not mean equal."
    )


def claims_heading(claims: Sequence[ClaimRow]) -> str:
    """Return a heading with the number of claims by verdict."""
    count = Counter(claim.verdict for claim in claims)
    parts = [f"{count[verdict]} {verdict}" for verdict in get_args(Verdict) if count[verdict]]
    return f"The paper’s claims: {', '.join(parts)}"


PARTS = (
    ("leaderboard", "Leaderboard"),
    ("claims", "Claims"),
    ("results", "Results"),
    ("ood", "OOD"),
    ("figures", "Figures"),
    ("tests", "Tests"),
    ("ablation", "Ablation"),
    ("shifts", "Corruptions"),
    ("training", "Training"),
    ("paper", "Paper"),
    ("missing", "Notes"),
)


def render_page(
    run: Run, groups: Sequence[GroupView], data: Json, across: AcrossView | None, title: str | None = None
) -> str:
    """Return the whole page; ``data`` is what its script draws the charts from, ``title`` what it is about."""
    present = {part.key for view in groups for part in view.parts}
    about = title or ", ".join(dict.fromkeys(view.group.task for view in groups))
    what = "evaluation" if all(group.protocol == EXTERNAL for group in run.groups) else "benchmark"
    names = sorted(item.name for item in (files("volta.report") / "assets").iterdir())
    charts = [name for name in names if name.startswith("charts-") and name.endswith(".js")]
    return render(
        "page.html",
        ("base.js", "tables.js", "plot.js", *charts, "main.js"),
        title=f"VOLTA {what}: {about}",
        run=run,
        groups=groups,
        across=across,
        navigation=[(key, label) for key, label in PARTS if key in present],
        facts=run_facts(run),
        # In a script element entities are not read; script_json escapes what could end it.
        data=Markup(script_json(data)),
    )
