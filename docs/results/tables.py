"""Fill the tables of docs/results.md from the CSV files beside this script.

Run with: python docs/results/tables.py [RUN_FOLDER ...]
A table stands between «<!-- KIND RUN -->» and «<!-- end -->»; RUN is a folder here that holds a run's own summary.csv,
tests.csv, ablation.csv, claims.csv and paper.csv, as ``volta bench`` wrote them, and the environment of its manifest.
Folders given are taken in first: their tables, their environment and the figures that the page shows.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "results.md"
HEADLINE = ("accuracy", "ece", "nll", "brier", "aurc")
DECIMALS = {"ece": 4, "aurc": 4}
NAMES = {"accuracy": "accuracy ↑", "ece": "ECE ↓", "nll": "NLL ↓", "brier": "Brier ↓", "aurc": "AURC ↓"}
FILES = ("summary", "tests", "ablation", "claims", "paper")
ABLATION_KEYS = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("auroc", "near"))
LETTERS = {"volta-full": (" f", " F"), "volta": (" v", " V")}
BLOCK = re.compile(r"(<!-- (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Rows = list[dict[str, str]]


def read(run: str, name: str) -> Rows:
    """Return the rows of one of a run's tables."""
    with (FOLDER / run / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def show(metric: str, mean: str, std: str = "") -> str:
    """Return a mean, with its deviation where there is one, in the decimals of its metric."""
    decimals = DECIMALS.get(metric, 3)
    shown = f"{float(mean):.{decimals}f}"
    return f"{shown} ± {float(std):.{decimals}f}" if std else shown


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def near_set(run: str) -> str:
    """The foreign set that the tests are about: the near one."""
    return next((row["set"] for row in read(run, "tests") if row["metric"] == "auroc"), "")


def foreign_sets(rows: Rows, near: str) -> list[str]:
    """Return the foreign sets, the near one first."""
    names = dict.fromkeys(row["set"] for row in rows if row["set"].startswith("ood:"))
    return sorted(names, key=lambda name: (name != near, name))


def results(run: str) -> str:
    """Every method: mean ± sample standard deviation over seeds; † and ‡ as in the report."""
    rows = [row for row in read(run, "summary") if not row["method"].startswith("volta-")]
    near = near_set(run)
    keys = [(metric, "test") for metric in HEADLINE] + [("auroc", name) for name in foreign_sets(rows, near)]
    values = {(row["method"], row["metric"], row["set"]): row for row in rows}
    marks = {(row["baseline"], row["metric"], row["set"]): mark(row) for row in read(run, "tests")}
    head = ["method"] + [NAMES.get(metric) or f"AUROC {name.removeprefix('ood:')} ↑" for metric, name in keys]
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [f"**{method}**" if method == "volta" else method]
        for metric, name in keys:
            found = values.get((method, metric, name))
            line.append(
                show(metric, found["mean"], found["std"]) + marks.get((method, metric, name), "") if found else "–"
            )
        lines.append(line)
    return table(head, lines)


def mark(test: dict[str, str]) -> str:
    """Return ‡ where a test holds after Holm's correction, † where it holds without."""
    return " ‡" if test["significant_holm"] == "true" else " †" if test["significant"] == "true" else ""


def ablation(run: str) -> str:
    """Every row of the ablation with its mean, and whether it differs from full VOLTA and from VOLTA."""
    rows = read(run, "ablation")
    summary = {(row["method"], row["metric"], row["set"]): row for row in read(run, "summary")}
    near = near_set(run)
    keys = [(metric, near if name == "near" else name) for metric, name in ABLATION_KEYS]
    letters = {
        (row["row"], row["metric"], row["set"], row["reference"]): LETTERS[row["reference"]][
            row["significant_holm"] == "true"
        ]
        for row in rows
        if row["significant"] == "true" and row["reference"] in LETTERS
    }
    head = ["row"] + [NAMES.get(metric) or "AUROC near ↑" for metric, _ in keys]
    names = dict.fromkeys(["volta-full", *(row["row"] for row in rows), "volta"])
    lines = []
    for name in names:
        line = [name]
        for metric, where in keys:
            found = summary[name, metric, where]
            differs = "".join(letters.get((name, metric, where, reference), "") for reference in LETTERS)
            line.append(show(metric, found["mean"], found["std"]) + differs)
        lines.append(line)
    return table(head, lines)


def claims(run: str) -> str:
    """The paper's claims with the report's verdicts and the figures behind them."""
    return table(
        ["claim", "verdict", "figures"],
        [
            [row["statement"], f"**{row['verdict']}**", row["sentence"].replace("|", "\\|")]
            for row in read(run, "claims")
        ],
    )


def costs(run: str) -> str:
    """Training seconds, latency and size of every method."""
    wanted = ("train_s", "latency_ms", "latency_p95_ms", "size_mb", "peak_mb")
    rows = [row for row in read(run, "summary") if row["metric"] in wanted and not row["method"].startswith("volta-")]
    values = {(row["method"], row["metric"]): f"{float(row['mean']):.3g}" for row in rows}
    methods = dict.fromkeys(row["method"] for row in rows)
    return table(["method", *wanted], [[name, *(values.get((name, key), "–") for key in wanted)] for name in methods])


def paper(run: str) -> str:
    """The paper's printed means beside ours, for what both have."""
    rows = {(row["method"], row["metric"], row["set"]): row for row in read(run, "paper")}
    keys = [("accuracy", "test"), ("ece", "test"), ("auroc", near_set(run))]
    lines = []
    for method in dict.fromkeys(name for name, _, _ in rows):
        line = [method]
        for metric, name in keys:
            found = rows.get((method, metric, name))
            line += [show(metric, found["paper_mean"]), show(metric, found["mean"])] if found else ["–", "–"]
        lines.append(line)
    head = [f"{word} {who}" for word in ("accuracy", "ECE", "near AUROC") for who in ("paper", "here")]
    return table(["method", *head], lines)


def made(run: str) -> str:
    """What a run was made with."""
    about = json.loads((FOLDER / run / "environment.json").read_text(encoding="utf-8"))
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    return f"Made with commit {about['commit'][:7]}, Python {about['python']}, {packages}; {about['cores']} cores.\n"


def take(folder: Path) -> None:
    """Copy what the page needs of a run folder."""
    target = FOLDER / folder.name
    target.mkdir(exist_ok=True)
    for name in FILES:
        if (folder / f"{name}.csv").is_file():
            shutil.copyfile(folder / f"{name}.csv", target / f"{name}.csv")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    text = json.dumps(manifest["environment"], indent=2, sort_keys=True)
    (target / "environment.json").write_text(text + "\n", encoding="utf-8")
    for figure in re.findall(rf"results/{folder.name}/(\w+\.png)", PAGE.read_text(encoding="utf-8")):
        shutil.copyfile(folder / "figures" / figure, target / figure)


KINDS: dict[str, Callable[[str], str]] = {
    "results": results,
    "ablation": ablation,
    "claims": claims,
    "costs": costs,
    "paper": paper,
    "made": made,
}


def fill(page: str) -> str:
    """Return the page with every table made anew."""
    return BLOCK.sub(lambda found: found[1] + KINDS[found[2]](found[3]) + found[4], page)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        take(Path(given))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
