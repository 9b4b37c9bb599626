"""The joint leaderboard as files: one sortable page that opens offline, and a CSV."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from markupsafe import Markup

from volta._version import __version__
from volta.core.files import write_text
from volta.figures.style import PALETTE
from volta.report.joint_leaderboard import JointGroup, JointLeaderboard
from volta.report.leaderboard import leaderboard_table
from volta.report.page import asset, template_environment
from volta.report.run import budget_words
from volta.stats import ALPHA, LeaderboardRow, rows_to_csv

PAGE = "leaderboard.html"
CSV = "leaderboard.csv"


def write_joint_leaderboard(found: JointLeaderboard, folder: Path) -> tuple[Path, Path]:
    """Write page and CSV into ``folder``; return their paths."""
    rows = [row for group in found.groups for row in group.rows]
    write_text(folder / CSV, rows_to_csv(LeaderboardRow, rows))
    write_text(folder / PAGE, joint_page(found))
    return folder / PAGE, folder / CSV


def joint_page(found: JointLeaderboard) -> str:
    """Return the page."""
    tables = [(_title(group), leaderboard_table(group.group, group.rows, ALPHA)) for group in found.groups]
    # Files of this package, not a user's text: they are styles and scripts and must stay as they are.
    scripts = "\n".join(asset(name) for name in ("base.js", "tables.js", "joint.js"))
    return (
        template_environment()
        .get_template("joint.html")
        .render(
            tables=tables,
            found=found,
            palette=PALETTE,
            version=__version__,
            style_sheet=Markup(asset("report.css")),
            early_script=Markup(asset("early.js")),
            scripts=Markup(scripts),
        )
    )


def _title(joint: JointGroup) -> str:
    context, records = joint.group.context, joint.group.records
    counts = sorted(Counter(method for method, _ in records).values())
    seeds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]}–{counts[-1]}"
    budgets = dict.fromkeys(budget_words(record.budget) for record in records.values())
    budget = next(iter(budgets)) if len(budgets) == 1 else f"budgets differ ({'; '.join(budgets)})"
    words = f"{seeds} seed{'' if seeds == '1' else 's'}"
    return f"{context.task} · {context.protocol} · {context.n_rows} test rows · {words} · {budget}"
