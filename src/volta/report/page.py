"""``report.html``: one file with its styles, scripts and numbers inside; it asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from volta._version import __version__
from volta.figures.style import PALETTE
from volta.report.markup import element, facts, text
from volta.report.payload import script_json
from volta.report.run import Run

SCRIPTS = (
    "base.js",
    "tables.js",
    "plot.js",
    "charts-points.js",
    "charts-lines.js",
    "charts-panels.js",
    "charts-grids.js",
    "charts-bars.js",
    "main.js",
)
PARTS = (
    ("claims", "Claims"),
    ("results", "Results"),
    ("figures", "Figures"),
    ("tests", "Tests"),
    ("ablation", "Ablation"),
    ("shifts", "Shift"),
    ("paper", "Paper"),
    ("missing", "Notes"),
)
# The theme is set before anything is painted, so that a dark page does not flash white.
_EARLY = """(()=>{let t=null;try{t=localStorage.getItem("volta-theme")}catch{}
const d=window.matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme=t==="dark"||t==="light"?t:d?"dark":"light"})();"""


def page(run: Run, sections: Sequence[str], payload: Mapping[str, Any], across: str = "") -> str:
    """Return the whole page."""
    tasks = list(dict.fromkeys(group.task for group in run.groups))
    title = f"VOLTA benchmark: {', '.join(tasks)}"
    body = [
        '<a class="skip" href="#main">Skip to the report</a>',
        _top(sections),
        f'<main id="main"><h1>{text(title)}</h1>',
        _lead(run),
        _tabs(run),
        *sections,
        across,
        reproduce_part(run),
        f"<footer>Made by volta {text(__version__)} from the stored records alone; nothing was re-run.</footer></main>",
        f'<script type="application/json" id="volta-data">{script_json(payload)}</script>',
        f'<script>(()=>{{"use strict";\n{scripts()}}})();</script>',
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        '<link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{styles()}</style><script>{_EARLY}</script>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def styles() -> str:
    """Return the style sheet with the methods' colours for both themes."""
    light = "".join(f"--m{index}:{color};" for index, (color, _) in enumerate(PALETTE))
    dark = "".join(f"--m{index}:{color};" for index, (_, color) in enumerate(PALETTE))
    return f':root{{{light}}}:root[data-theme="dark"]{{{dark}}}\n{_asset("report.css")}'


def scripts() -> str:
    """Return the page's scripts as one text."""
    return "\n".join(_asset(name) for name in SCRIPTS)


def reproduce_part(run: Run) -> str:
    """Return the commands, versions, hardware and times of the run."""
    manifest, config = run.manifest, run.manifest.config
    environment, commands = manifest.environment, manifest.commands
    pairs = [
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
    ]
    shown = element("pre", text("\n".join(commands))) if commands else element("p", "The manifest names no command.")
    return (
        '<h2 id="reproduce">How to reproduce this</h2>'
        + element(
            "p",
            "The commands, in order; each goes on where an earlier one stopped and runs only what is missing.",
        )
        + shown
        + facts(pairs)
    )


def _lead(run: Run) -> str:
    n_groups = len(run.groups)
    if n_groups < 2:
        return ""
    words = f"{run.n_done} of {run.n_planned} cells finished"
    words += f", {n_groups} combinations of task and protocol."
    return element("p", text(words), class_="lead")


def _top(sections: Sequence[str]) -> str:
    present = [(key, label) for key, label in PARTS if any(f'data-part="{key}"' in section for section in sections)]
    links = "".join(element("a", label, href="#main", data_part=key) for key, label in present)
    links += element("a", "Reproduce", href="#reproduce")
    toggle = element("button", "Dark", type="button", id="theme", class_="button")
    return f'<header class="top"><span class="brand">VOLTA</span><nav aria-label="Parts">{links}</nav>{toggle}</header>'


def _tabs(run: Run) -> str:
    if len(run.groups) < 2:
        return ""
    tabs = "".join(
        element("button", text(f"{group.task} · {group.protocol}"), type="button", class_="chip", role="tab")
        for group in run.groups
    )
    return element("div", tabs, class_="groups", role="tablist", aria_label="Task and protocol")


def _asset(name: str) -> str:
    return (files("volta.report") / "assets" / name).read_text(encoding="utf-8")
