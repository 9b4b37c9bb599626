"""``report.html``: one file with its styles, scripts and numbers inside; it asks the network for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from volta._version import __version__
from volta.bench.records import OWN
from volta.figures.chart import Json
from volta.figures.style import PALETTE
from volta.report.across import AcrossView
from volta.report.payload import script_json
from volta.report.reproduce import reproduce_view
from volta.report.run import Run
from volta.report.table_model import COMPACT_COLUMNS
from volta.report.views import GroupView

PARTS = (
    ("leaderboard", "Leaderboard"),
    ("claims", "Claims"),
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


def render_page(
    run: Run, groups: Sequence[GroupView], data: Json, across: AcrossView | None, title: str | None = None
) -> str:
    """Return the whole page; ``data`` is what its script draws the charts from, ``title`` what it is about."""
    present = {part.key for group in groups for part in group.parts}
    about = title or ", ".join(dict.fromkeys(group.task for group in groups))
    what = "evaluation" if all(group.protocol == OWN for group in run.groups) else "benchmark"
    return (
        template_environment()
        .get_template("page.html")
        .render(
            title=f"VOLTA {what}: {about}",
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


def template_environment(package: str = "volta.report") -> Environment:
    """Return what renders the templates of a package: autoescaped, and strict about names."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["zip"] = zip
    environment.globals["compact_columns"] = COMPACT_COLUMNS
    return environment


def asset(name: str) -> str:
    """Return a file of ``report/assets`` as text."""
    return (files("volta.report") / "assets" / name).read_text(encoding="utf-8")
