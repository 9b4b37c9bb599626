"""The reference's pages on commands and on methods, made from the command line's own definitions and the registry."""

from __future__ import annotations

import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = re.compile(r"Reference: (.+?)\.?(?:(?<=\.)\n[A-Z]|\n\n|\Z)", re.DOTALL)
NAME = re.compile(r"`(\w+)`")
DEFAULT = re.compile(r"\[((?:default: |required)[^\]]*)\]")
KINDS = {"list[str]": "TEXT", "str": "TEXT", "int": "N", "int range": "N", "float": "X", "path": "PATH"}
GROUPS = {
    "paper": "The paper's ten baselines",
    "standard": "Extras, in every standard run",
    "more": "More, with `--methods all` or by name",
}


def cli_page() -> str:
    """Return the page of all commands, with every argument, option and default."""
    from typer.main import get_command

    from volta.cli.main import app

    root = get_command(app)
    parts = [
        "# Commands",
        "Every command of `volta` with its arguments, options and defaults.",
        "Exit codes: 0 success, 1 a problem that the command reports, 2 wrong input. "
        "[Use a model from the shell](../shell.md) and [Run the benchmark](../benchmark.md) show them at work.",
    ]
    for panel, commands in groupby(root.commands.values(), lambda command: command.rich_help_panel):
        parts.append(f"## {panel}")
        for command in commands:
            inner = getattr(command, "commands", {})
            parts += _command(command, f"volta {command.name}") if not inner else []
            for each in inner.values():
                parts += _command(each, f"volta {command.name} {each.name}")
    return "\n\n".join(parts) + "\n"


def _command(command: Any, name: str) -> list[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    records = [one.get_help_record(context) for one in command.get_params(context) if one.name != "help"]
    rows = [_row(*record) for record in records if record]
    table = ["| argument or option | default | what it is |\n|---|---|---|\n" + "\n".join(rows)] if rows else []
    about = _cell(inspect.cleandoc(command.help or "").replace("\b", ""))
    usage = re.sub(r"[{}]", "", " ".join([name, *command.collect_usage_pieces(context)]))
    return [f"### `{name}`", about, f"```text\n{usage}\n```", *table]


def _row(names: str, text: str) -> str:
    default = ", ".join(word.removeprefix("default: ") for word in DEFAULT.findall(text))
    shown = f"`{default}`" if default not in {"", "required"} else default or "–"
    names = re.sub(r"<([^>]+)>", lambda kind: KINDS.get(kind[1], kind[1]), names).replace("|", "\\|")
    return f"| `{names}` | {shown} | {_cell(DEFAULT.sub('', text))} |"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def methods_page() -> str:
    """Return the table of all methods: what each needs and gives, its cost and its paper."""
    from volta.methods import METHODS
    from volta.methods.registry import needs_of, summary_of

    costs = cost_by_method((ROOT / "docs" / "methods.md").read_text(encoding="utf-8"))
    parts = [
        "# Table of methods",
        "All methods: what each needs of a network, what it gives, its cost and its paper.",
        "Made from the registry when these pages are built. *needs*: `logits` alone, `features` (penultimate vectors "
        "too), `last-layer` (its weight and bias too), or `training`. *cost* is what a prediction costs, with w the "
        "width of the vectors, K the classes and n the training samples. [Methods](../methods.md) has the formulas.",
    ]
    rows: dict[str, list[str]] = {"VOLTA": [], **{title: [] for title in GROUPS.values()}}
    for name, kind in METHODS.items():
        group = "standard" if kind.standard else "more"
        title = "VOLTA" if name == "volta" else GROUPS["paper" if kind.origin == "paper" else group]
        needs, gives = needs_of(name), gives_of(name)
        rows[title].append(
            f"| `{name}` | {_cell(summary_of(name))} | {needs} | {gives} | {costs[name]} | {_cell(paper_of(kind))} |"
        )
    head = "| name | what it is | needs | gives | cost | paper |\n|---|---|---|---|---|---|\n"
    for title, lines in rows.items():
        parts += [f"## {title}", head + "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def gives_of(name: str) -> str:
    """Return what a method gives that its network does not."""
    from volta.methods import METHODS
    from volta.methods.base import PostHoc

    kind = METHODS[name]
    module = kind.__module__.rpartition(".")[2]
    if module == "conformal":
        return "sets"
    if not issubclass(kind, PostHoc) or module == "laplace":
        return "probabilities, score"
    return "probabilities" if module == "calibrated" else "score"


def paper_of(kind: Any) -> str:
    """Return the reference in a method's docstring; without its title where both are long."""
    found = REFERENCE.search(inspect.getdoc(kind) or "")
    if not found:
        return "–" if kind.origin == "extra" else "the VOLTA paper"
    text = " ".join(found[1].replace("``", "").split()).rstrip(".")
    return text if len(text) <= 110 else f"{text.partition(')')[0]})"


def cost_by_method(methods: str) -> dict[str, str]:
    """Return each method's cost at test, as the page on methods has it in its tables and its sentence on scores."""
    costs: dict[str, str] = {}
    header: list[str] = []
    for line in methods.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == ["name"]:
            header = cells
        elif cells and (found := NAME.fullmatch(cells[0])):
            costs.setdefault(found[1], cells[header.index("cost at test")] if "cost at test" in header else "1 pass")
    (sentence,) = re.findall(r"^Cost at test is one pass plus: (.*?)\.\n\n", methods, flags=re.MULTILINE | re.DOTALL)
    for part in " ".join(sentence.split()).split("; "):
        cost, _, names = part.rpartition(" for ")
        costs |= {name: f"1 pass + {cost.rpartition(', ')[2]}" for name in NAME.findall(names)}
    return costs
