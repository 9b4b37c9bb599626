"""``report.html``: one file with its styles, scripts and numbers inside; it asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from volta._version import __version__
from volta.figures.chart import Json
from volta.figures.style import PALETTE
from volta.report.across import AcrossView
from volta.report.payload import script_json
from volta.report.run import Run
from volta.report.views import GroupView

PARTS = (
    ("claims", "Claims"),
    ("leaderboard", "Leaderboard"),
    ("results", "Results"),
    ("ood", "OOD"),
    ("figures", "Figures"),
    ("tests", "Tests"),
    ("ablation", "Ablation"),
    ("shifts", "Shift"),
    ("training", "Training"),
    ("paper", "Paper"),
    ("missing", "Notes"),
)


@dataclass(frozen=True)
class Reproduce:
    """The commands, versions, hardware and times of a run."""

    commands: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def render_page(run: Run, groups: Sequence[GroupView], data: Json, across: AcrossView | None) -> str:
    """Return the whole page; ``data`` is what its script draws the charts from."""
    present = {part.key for group in groups for part in group.parts}
    tasks = dict.fromkeys(group.task for group in groups)
    return (
        template_environment()
        .get_template("page.html")
        .render(
            title=f"VOLTA benchmark: {', '.join(tasks)}",
            run=run,
            groups=groups,
            across=across,
            navigation=[(key, label) for key, label in PARTS if key in present],
            reproduce=reproduce_view(run),
            version=__version__,
            palette=PALETTE,
            # Files of this package, not a user's text: they are styles and scripts and must stay as they are.
            style_sheet=Markup(asset("report.css")),
            early_script=Markup(asset("early.js")),
            scripts=Markup(scripts()),
            # In a script element entities are not read; script_json escapes what could end it.
            data=Markup(script_json(data)),
        )
    )


def scripts() -> str:
    """Return the page's scripts as one text: what charts share, every ``charts-*.js``, and what starts them."""
    names = sorted(item.name for item in (files("volta.report") / "assets").iterdir())
    charts = [name for name in names if name.startswith("charts-") and name.endswith(".js")]
    return "\n".join(asset(name) for name in ("base.js", "tables.js", "plot.js", *charts, "main.js"))


def reproduce_view(run: Run) -> Reproduce:
    """Return the commands, versions, hardware and times of the run."""
    manifest, config, environment = run.manifest, run.manifest.config, run.manifest.environment
    facts = (
        ("volta", f"{environment.volta}, commit {environment.commit or 'unknown'}"),
        ("Python", environment.python),
        ("packages", ", ".join(f"{name} {version}" for name, version in environment.packages.items())),
        ("platform", environment.platform),
        ("hardware", f"{environment.cpu}, {environment.cores} cores, {environment.memory_gb} GB"),
        ("instruction set", environment.instruction_set or "not recorded"),
        ("device", f"{config.device}, {config.threads} thread(s) per cell"),
        ("budget", json.dumps(asdict(config.budget), sort_keys=True)),
        ("seeds", ", ".join(map(str, config.seeds))),
        ("started", manifest.created),
        ("last changed", manifest.updated),
    )
    return Reproduce(tuple(manifest.commands), facts)


def template_environment() -> Environment:
    """Return what renders the templates: autoescaped, and strict about names."""
    environment = Environment(
        loader=PackageLoader("volta.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["zip"] = zip
    return environment


def asset(name: str) -> str:
    """Return a file of ``report/assets`` as text."""
    return (files("volta.report") / "assets" / name).read_text(encoding="utf-8")
