"""Fill the tables of docs/results*.md, reproduce.md and audit.md from the CSV files beside this script.

Run with: python docs/results/tables.py [RUN_FOLDER ...]
A table stands between "<!-- KIND RUN -->" and "<!-- end -->"; RUN is a folder here with rows of a run's own tables,
as ``volta bench`` wrote them, and the environment of its manifest. Folders given are taken in first: the rows of the
metrics below, the environment, and the figures that the page shows.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

from PIL import Image

from volta import open_run
from volta.paper import paper_values, recompute_paper_tests

FOLDER = Path(__file__).parent
NAMED = ("results.md", "results-tables.md", "results-checks.md", "reproduce.md", "audit.md", "serve.md")
PAGES = tuple(FOLDER.parent / name for name in NAMED)
QUALITY = (
    ("accuracy", "test"),
    ("nll", "test"),
    ("ece", "test"),
    ("nll", "test+T"),
    ("ece", "test+T"),
    ("aurc", "test"),
    ("aurc", "test+msp"),
)
COSTS = ("train_s", "latency_ms", "latency_p95_ms", "size_mb", "peak_mb")
METRICS = ("accuracy", "nll", "ece", "ece_expected", "brier", "aurc", "auroc", "fpr95", "coverage", "set_size", *COSTS)
NAMES = {"accuracy": "accuracy ↑", "ece": "ECE ↓", "nll": "NLL ↓", "brier": "Brier ↓", "aurc": "AURC ↓"}
SETS = {"test": "", "test+T": " +T", "test+msp": " by 1 − max p"}
DECIMALS = {"accuracy": 4, "ece": 4, "aurc": 4}
FILES = ("results", "summary", "tests", "ablation", "claims", "paper", "leaderboard")
ABLATION_KEYS = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("auroc", "near:"))
TOLD_ELSEWHERE = ("split", "instruction_set")
"""Columns of results.csv that are left out: by the seed, and by environment.json for the whole run, they are known."""
LARGEST_FIGURE = 150_000
SHIFTED = ("accuracy", "nll", "ece", "aurc")
MEAN_OF_ALL = "(mean)"
MARKS = {"worse": " ▲", "better": " ▼", "equivalent": " ="}
LETTERS = {"volta-full": (" f", " F"), "volta": (" v", " V")}
BLOCK = re.compile(r"(<!-- (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Row = dict[str, str]
Rows = list[Row]


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


def methods_table(run: str, keys: list[tuple[str, str]], heads: list[str]) -> str:
    """Return every method's means ± sample standard deviations, with the verdicts of the tests against VOLTA."""
    rows = [row for row in read(run, "summary") if not row["method"].startswith("volta-")]
    values = {(row["method"], row["metric"], row["set"]): row for row in rows}
    marks = {
        (row["method"], row["metric"], row["set"]): MARKS.get(row["verdict"], "")
        for row in read(run, "tests")
        if row["reference"] == "volta"
    }
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [f"**{method}**" if method == "volta" else method]
        for metric, name in keys:
            found = values.get((method, metric, name))
            mark = marks.get((method, metric, name), "")
            line.append(show(metric, found["mean"], found["std"]) + mark if found else "–")
        lines.append(line)
    return table(["method", *heads], lines)


def results(run: str) -> str:
    """Accuracy, calibration and selective prediction of every method."""
    return methods_table(run, list(QUALITY), [f"{NAMES[metric]}{SETS[name]}" for metric, name in QUALITY])


def ood(run: str) -> str:
    """AUROC of every method on near and far OOD sets."""
    sets = dict.fromkeys(row["set"] for row in read(run, "summary") if row["metric"] == "auroc")
    names = sorted((name for name in sets if name.startswith("ood:")), key=lambda name: name)
    keys = [*(name for name in ("near:", "far:") if name in sets), *names]
    heads = {"near:": "near, mean ↑", "far:": "far, mean ↑"}
    shown = [heads.get(name, f"{name.removeprefix('ood:')} ↑") for name in keys]
    return methods_table(run, [("auroc", name) for name in keys], shown)


def leaderboard(run: str) -> str:
    """Ranks by mean rank, and the metrics on which a method is in the confidence set of the best."""
    rows = read(run, "leaderboard")
    overall = [row for row in rows if row["metric"] == "(overall)"]
    best: dict[str, list[str]] = {}
    for row in rows:
        if row["in_confidence_set"] == "true":
            label = "AUROC " + row["set"].rstrip(":") if row["metric"] == "auroc" else row["metric"]
            best.setdefault(row["method"], []).append(label)
    lines = []
    for row in sorted(overall, key=lambda row: float(row["rank"])):
        place, mean = row["rank"].removesuffix(".0"), f"{float(row['mean']):.2f}"
        lines.append([place, row["method"], mean, ", ".join(best.get(row["method"], ["–"]))])
    return table(["rank", "method", "mean rank", "in the confidence set of the best on"], lines)


def shifted(run: str) -> str:
    """Every method's mean over all corruptions of the lowest severity, ± its deviation over seeds."""
    rows = [row for row in read(run, "corruptions") if row["corruption"] == MEAN_OF_ALL]
    lowest = min(row["severity"] for row in rows)
    values = {(row["method"], row["metric"]): row for row in rows if row["severity"] == lowest}
    lines = [
        [name, *(show(metric, values[name, metric]["mean"], values[name, metric]["std"]) for metric in SHIFTED)]
        for name in dict.fromkeys(row["method"] for row in rows)
    ]
    return table(["method", *(NAMES[metric] for metric in SHIFTED)], lines)


def severities(run: str) -> str:
    """Every method's mean over all corruptions of each severity, a table for each metric."""
    rows = [row for row in read(run, "corruptions") if row["corruption"] == MEAN_OF_ALL]
    methods = dict.fromkeys(row["method"] for row in rows)
    levels = sorted({row["severity"] for row in rows})
    head = [f"severity {level}" for level in levels]
    shown = []
    for metric in SHIFTED:
        mine = [row for row in rows if row["metric"] == metric]
        values = {(row["method"], row["severity"]): show(metric, row["mean"], row["std"]) for row in mine}
        lines = [[name, *(values[name, level] for level in levels)] for name in methods]
        shown.append(table([NAMES[metric], *head], lines))
    return "\n".join(shown)


def corruptions(run: str) -> str:
    """VOLTA on every corruption of the lowest severity, beside the best method there."""
    rows = [row for row in read(run, "corruptions") if row["corruption"] != MEAN_OF_ALL]
    lowest = min(row["severity"] for row in rows)
    lines = []
    for name in dict.fromkeys(row["corruption"] for row in rows):
        line = [name]
        for metric in SHIFTED:
            means = {
                row["method"]: float(row["mean"])
                for row in rows
                if (row["corruption"], row["severity"], row["metric"]) == (name, lowest, metric)
            }
            choose = max if metric == "accuracy" else min
            best = choose(means, key=lambda method: means[method])
            line += [show(metric, str(means["volta"])), f"{show(metric, str(means[best]))} {best}"]
        lines.append(line)
    heads = [f"{NAMES[metric]} {who}" for metric in SHIFTED for who in ("volta", "best")]
    return table(["corruption", *heads], lines)


def ablation(run: str) -> str:
    """Every row of the ablation with its mean, and whether it differs from full VOLTA and from VOLTA."""
    rows = read(run, "ablation")
    summary = {(row["method"], row["metric"], row["set"]): row for row in read(run, "summary")}
    letters = {
        (row["row"], row["metric"], row["set"], row["reference"]): LETTERS[row["reference"]][
            float(row["p_holm"] or 1) < 0.05
        ]
        for row in rows
        if float(row["p"] or 1) < 0.05 and row["reference"] in LETTERS
    }
    head = ["row"] + [NAMES.get(metric) or "AUROC near ↑" for metric, _ in ABLATION_KEYS]
    names = dict.fromkeys(["volta-full", *(row["row"] for row in rows), "volta"])
    lines = []
    for name in names:
        line = [name]
        for metric, where in ABLATION_KEYS:
            found = summary[name, metric, where]
            differs = "".join(letters.get((name, metric, where, reference), "") for reference in LETTERS)
            line.append(show(metric, found["mean"], found["std"]) + differs)
        lines.append(line)
    return table(head, lines)


FIGURES = re.compile(
    r"(?P<metric>[^;:.]+? [↑↓]) (?P<first>.+?) (?P<a>\d+\.\d+)[^(]*\(n = (?P<n>\d+)\), "
    r"(?P<second>.+?) (?P<b>\d+\.\d+)[^(]*\(n = \d+\)(?:, (?:paired )?p (?P<p>[=<] [\d.e-]+))?"
    r"(?:, gain (?P<gain>[+-][\d.]+ in \[[^]]+\]))?"
)


def claims(run: str) -> str:
    """The paper's claims that something was run for, with the report's verdicts and the deciding comparison."""
    lines = []
    for row in read(run, "claims"):
        if row["verdict"] == "not run":
            continue
        parts = [
            f"{found['metric'].strip()}: {found['first']} {found['a']}, {found['second']} {found['b']}"
            + (f" (p {found['p'].rstrip('.')})" if found["p"] else f" (gain {found['gain']})" if found["gain"] else "")
            for found in FIGURES.finditer(row["sentence"])
        ]
        figures = (
            "; ".join(parts if len(parts) < 2 else [part.partition(" (p")[0].partition(" (gain")[0] for part in parts])
            or "–"
        )
        figures = re.sub(r"the median of \d+ baselines", "their median", figures)
        lines.append([row["statement"], f"**{row['verdict']}**", figures, row["n"]])
    return table(["claim", "verdict", "deciding figures", "n"], lines)


def costs(run: str) -> str:
    """Training seconds, latency and size of every method."""
    rows = [row for row in read(run, "summary") if row["metric"] in COSTS and not row["method"].startswith("volta-")]
    values = {(row["method"], row["metric"]): f"{float(row['mean']):.3g}" for row in rows}
    methods = dict.fromkeys(row["method"] for row in rows)
    return table(["method", *COSTS], [[name, *(values.get((name, key), "–") for key in COSTS)] for name in methods])


TABLE_METRICS = ("accuracy", "ece", "nll", "brier", "auroc", "fpr95")
TABLE_SOURCE = "table of CIFAR-10 results"


def beside(row: dict[str, str], who: str) -> str:
    """Return the paper's value, or ours, with its deviation where there is one."""
    if who == "paper":
        return f"{row['paper_mean']} ± {row['paper_std']}" if row["paper_std"] else row["paper_mean"]
    return show(row["metric"], row["mean"], row["std"]) if row["mean"] else "–"


def paper(run: str) -> str:
    """The paper's table of CIFAR-10, all six columns with deviations, and ours below each row."""
    rows = {(row["method"], row["metric"]): row for row in read(run, "paper") if row["paper_source"] == TABLE_SOURCE}
    lines = [
        [f"{method}, {who}", *(beside(rows[method, metric], who) for metric in TABLE_METRICS)]
        for method in dict.fromkeys(name for name, _ in rows)
        for who in ("paper", "here")
    ]
    return table(["method", "accuracy ↑", "ECE ↓", "NLL ↓", "Brier ↓", "AUROC ↑", "FPR95 ↓"], lines)


def printed(run: str) -> str:
    """What the paper prints in its text, and ours."""
    lines = [
        [row["method"], row["metric"], row["set"], row["paper_source"], beside(row, "paper"), beside(row, "here")]
        for row in read(run, "paper")
        if row["paper_source"] != TABLE_SOURCE and not row["method"].startswith("volta-")
    ]
    return table(["method", "metric", "set", "where", "paper", "here"], lines)


def alone(run: str) -> str:
    """Every value that the paper prints of VOLTA, and ours."""
    lines = [
        [row["metric"], row["set"], row["paper_source"], beside(row, "paper"), beside(row, "here")]
        for row in read(run, "paper")
        if row["method"] == "volta"
    ]
    return table(["metric", "set", "where", "paper", "here"], lines)


def ablated(run: str) -> str:
    """The ablation with the paper's values and p against full VOLTA, and ours: mean ± deviation, Welch's p, verdict."""
    values = {(one.method, one.metric): one.mean for one in paper_values() if one.task == "cifar10"}
    stated = {(one.second, one.metric): one.statement for one in recompute_paper_tests() if one.first == "volta-full"}
    summary = {(row["method"], row["metric"], row["set"]): row for row in read(run, "summary")}
    tests = {
        (row["row"], row["metric"], row["set"]): row
        for row in read(run, "ablation")
        if row["reference"] == "volta-full"
    }
    near = next(where for _, metric, where in tests if metric == "auroc")
    keys = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("brier", "test"), ("auroc", near))
    lines = []
    for name in dict.fromkeys(["volta-full", *(key[0] for key in tests)]):
        for who in ("paper", "here"):
            line = [f"{name.removeprefix('volta-')}, {who}"]
            for metric, where in keys:
                if who == "paper":
                    p = stated.get((name, metric), "")
                    line.append(f"{values.get((name, metric), '–')}{f' ({p})' if p else ''}")
                    continue
                found, test = summary[name, metric, where], tests.get((name, metric, where))
                shown = show(metric, found["mean"], found["std"])
                p = f" (p {small(test['p_welch'])}) {test['verdict']}" if test and test["p_welch"] else ""
                line.append(shown + p)
            if who == "here" or any(cell != "–" for cell in line[1:]):
                lines.append(line)
    return table(["row", "accuracy ↑", "ECE ↓", "NLL ↓", "Brier ↓", "AUROC near ↑"], lines)


def against(run: str) -> str:
    """Every row of an ablation: mean ± deviation, and the paired verdict on the row compared with VOLTA."""
    summary = {(row["method"], row["metric"], row["set"]): row for row in read(run, "summary")}
    verdicts = {
        (row["row"], row["metric"], row["set"]): row["verdict"]
        for row in read(run, "ablation")
        if row["reference"] == "volta"
    }
    near = next(where for _, metric, where in verdicts if metric == "auroc")
    keys = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("brier", "test"), ("auroc", near))
    lines = []
    for name in dict.fromkeys(["volta", *(key[0] for key in verdicts)]):
        found = [summary[name, *key] for key in keys]
        words = (f" {verdicts[name, *key]}" if (name, *key) in verdicts else "" for key in keys)
        cells = [show(key[0], row["mean"], row["std"]) for key, row in zip(keys, found, strict=True)]
        lines.append([name, found[0]["n"], *(f"{cell}{word}" for cell, word in zip(cells, words, strict=True))])
    return table(["row", "n", "accuracy ↑", "ECE ↓", "NLL ↓", "Brier ↓", "AUROC near ↑"], lines)


def small(p: str) -> str:
    """Return a p-value in words of at most three decimals."""
    return "< .001" if float(p) < 0.001 else f"= {float(p):.3f}".replace("0.", ".", 1)


def stated(run: str) -> str:
    """The tests that the paper states of its table, recomputed from its printed values, with ours of the same pair."""
    ours = {
        (row["method"], row["metric"], row["set"]): row for row in read(run, "tests") if row["reference"] == "volta"
    }
    lines = []
    for row in recompute_paper_tests():
        test = ours.get((row.second, row.metric, row.set))
        if row.first != "volta" or row.p is None or not row.statement:
            continue
        own = [small(test["p_welch"]).removeprefix("= "), test["verdict"]] if test and test["p_welch"] else ["–", "–"]
        same = "yes" if row.agrees else "no"
        lines.append([row.metric, row.second, row.statement, small(str(row.p)).removeprefix("= "), same, *own])
    head = ["metric", "baseline", "the paper states", "recomputed p", "can hold", "our Welch p", "our verdict on VOLTA"]
    return table(head, lines)


def auxiliary(run: str) -> str:
    """Each auxiliary loss on top of VOLTA: the weight chosen on validation rows, and what it gains on test rows."""
    rows = read(run, "auxiliary")
    lines = []
    for task, loss in dict.fromkeys((row["task"], row["loss"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["loss"]) == (task, loss)]
        weights = {row["weight"]: float(row["val_nll"]) for row in mine}
        tried = ", ".join(f"{weight}: {value:.4f}" for weight, value in weights.items())
        taken = [row for row in mine if row["chosen"]]
        gains = (f"{float(row['gain']):+.4f} [{float(row['low']):+.4f}, {float(row['high']):+.4f}] {row['verdict']}"
                 if row["low"] else "–" for row in taken)  # fmt: skip
        lines.append([task, loss, tried, taken[0]["weight"], taken[0]["n"], *gains])
    heads = [NAMES.get(row["metric"]) or "AUROC near ↑" for row in taken]
    return table(["task", "loss", "validation NLL by weight", "chosen", "n", *heads], lines)


def change(run: str) -> str:
    """Version 0.1's means beside ours."""
    then, now = (
        {(row["method"], row["metric"], row["set"]): row for row in rows}
        for rows in (read("version-0.1", run), read(run, "summary"))
    )
    keys = [("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("auroc", "ood:cifar100")]
    lines = [
        [name, *(show(key[0], found[(name, *key)]["mean"]) for key in keys for found in (then, now))]
        for name in dict.fromkeys(method for method, _, _ in then)
    ]
    words = ("accuracy", "ECE", "NLL", "AUROC cifar100")
    return table(["method", *(f"{word} {when}" for word in words for when in ("0.1", "now"))], lines)


def recipe(run: str) -> str:
    """Validation NLL after temperature by number of epochs: the mean over seeds, and deviation and n where several."""
    rows = read(run, "recipe")
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        for n_epochs in sorted({int(row["epochs"]) for row in mine}):
            line = [f"{task} ({mine[0]['encoder']})", str(n_epochs)]
            for network in dict.fromkeys(row["network"] for row in rows):
                values = [
                    float(row["val_nll"]) for row in mine if (row["epochs"], row["network"]) == (str(n_epochs), network)
                ]
                spread = f" ± {stdev(values):.4f} ({len(values)})" if len(values) > 1 else ""
                line.append(f"{mean(values):.4f}{spread}" if values else "–")
            lines.append(line)
    return table(["task (encoder)", "N", *dict.fromkeys(row["network"] for row in rows)], lines)


def yardstick(run: str) -> str:
    """OpenOOD's published AUROC beside ours, the published order first."""
    rows = sorted(read("yardsticks", run), key=lambda row: -float(row["published_near"]))
    keys = ("published_near", "near", "published_far", "far")
    heads = ["near, OpenOOD", "near, here", "far, OpenOOD", "far (SVHN), here"]
    return table(["score", *heads], [[row["score"], *(show("auroc", row[key]) for key in keys)] for row in rows])


def many(run: str) -> str:
    """Over many tables: each method's mean NLL, mean rank, and on how many its NLL is within 0.01 of the lowest."""
    rows = read(run, "tasks")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    nll: dict[str, dict[str, float]] = {}
    for row in rows:
        nll.setdefault(row["task"], {})[row["method"]] = float(row["nll"])
    lines = []
    for name in methods:
        ranks = [1 + sum(found[other] < found[name] for other in methods) for found in nll.values()]
        near = sum(found[name] <= min(found.values()) + 0.01 for found in nll.values())
        other = [
            mean(float(row[key]) for row in rows if row["method"] == name) for key in ("accuracy", "ece", "train_s")
        ]
        cells = [mean(found[name] for found in nll.values()), mean(ranks), near, *other]
        lines.append([name, *(f"{cell:.{digits}f}" for cell, digits in zip(cells, (3, 2, 0, 3, 3, 1), strict=True))])
    lines.sort(key=lambda line: float(line[1]))
    head = ["method", "mean NLL ↓", "mean rank ↓", f"within 0.01 of the lowest, of {len(nll)}"]
    return table([*head, "mean accuracy ↑", "mean ECE ↓", "fit, s"], lines)


def rivals(run: str) -> str:
    """Over many tables, each model's means; the last column but two counts tables of the half that chose nothing."""
    rows = read(run, "tabular")
    tables_ = sorted({row["data"] for row in rows})
    unseen = tables_[1::2]
    lowest = {name: min(float(row["nll"]) for row in rows if row["data"] == name) for name in tables_}
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = {row["data"]: row for row in rows if row["model"] == model}
        near = {name for name, row in mine.items() if float(row["nll"]) <= lowest[name] + 0.01}
        means = {
            key: mean(float(row[key]) for row in mine.values() if row[key])
            for key in ("nll", "accuracy", "ece", "ece_expected", "aurc", "auroc_near", "auroc_far", "fit_s")
        }
        shown = [f"{value:.3f}" for key, value in means.items() if key != "fit_s"]
        half = f"{mean(float(mine[name]['nll']) for name in unseen):.3f}"
        counts = [str(len(near)), half, str(len(near & set(unseen)))]
        lines.append([model, *shown[:1], *counts, *shown[1:], f"{means['fit_s']:.1f}"])
    lines.sort(key=lambda line: float(line[1]))
    head = ["model", "NLL ↓", f"within 0.01, of {len(tables_)}", "NLL, other half ↓", f"within 0.01, of {len(unseen)}"]
    names = ["accuracy ↑", "ECE ↓", "expected ECE", "AURC ↓", "AUROC near ↑", "AUROC far ↑", "fit, s"]
    return table([*head, *names], lines)


def tabular(run: str) -> str:
    """Test NLL of every model on every data set, mean over splits; the lowest is bold."""
    rows = read(run, "tabular")
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == data]
        found = {
            name: mean(float(row["nll"]) for row in mine if row["model"] == name)
            for name in models
            if any(row["model"] == name for row in mine)
        }
        shown = {name: f"{value:.3f}" for name, value in found.items()}
        best = min(found, key=lambda name: found[name])
        shown[best] = f"**{shown[best]}**"
        shape = f"{data} ({mine[0]['rows']} × {mine[0]['columns']}, K = {mine[0]['classes']})"
        lines.append([shape, *(shown.get(name, "–") for name in models)])
    return table(["data (rows × columns)", *models], lines)


VERDICTS = ("broken", "too few draws", "kept", "refused")
STATES_NONE = "sklearn"
"""A library that states no guarantee breaks none: its rates are above what is read into its arguments."""


def audit(library: str) -> str:
    """Return a row for each guarantee of a library: its verdict, its worst attack, and those that it cannot meet."""
    rows = read("audit", library)
    lines = []
    for name in dict.fromkeys(row["guarantee"] for row in rows):
        own = [row for row in rows if row["guarantee"] == name]
        inside = [row for row in own if not row["outside"]]
        worst = max(inside, key=lambda row: (row["verdict"] == "broken", float(row["measured"])))
        verdicts = [verdict for verdict in VERDICTS if any(row["verdict"] == verdict for row in inside)]
        spread = f"{float(worst['measured']):.3f} [{float(worst['low']):.3f}, {float(worst['high']):.3f}]"

        def named(verdict: str, among: list[Row]) -> str:
            attacks = dict.fromkeys(row["attack"] for row in among if row["verdict"] == verdict)
            return ", ".join(attacks) or "–"

        told = verdicts[0]
        if told == "broken":
            told = f"{'exceeded' if library == STATES_NONE else told}**: {named(told, inside)}"
        lines.append(
            [
                f"`{name}`" if "," not in name and ":" not in name and " " not in name else name,
                own[0]["claim"],
                f"**{told}" + ("" if "**" in told else "**"),
                f"{worst['attack']} {worst['part']}".rstrip(),
                spread,
                named("refused", inside),
                named("outside the stated assumption", own),
            ]
        )
    head = ["guarantee", "claim", "verdict", "worst attack", "failures", "refused", "fails outside the assumption"]
    return f"{rows[0]['library']} {rows[0]['version']}:\n\n{table(head, lines)}"


def made(run: str) -> str:
    """What a run was made with."""
    about = json.loads((FOLDER / run / "environment.json").read_text(encoding="utf-8"))
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    machine = f"{about['cores']} cores ({about['cpu_capability']})"
    return f"Made with commit {about['commit'][:7]}, Python {about['python']}, {packages}; {machine}.\n"


def write_tasks(folder: Path, path: Path) -> None:
    """Write a row for each task and method of a run: means over seeds on test samples."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in open_run(folder).summary():
        if row["set"] == "test" and row["metric"] in ("accuracy", "nll", "ece", "train_s"):
            found.setdefault((row["task"], row["method"]), {"n": row["n"]})[row["metric"]] = row["mean"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "method", "n", "accuracy", "nll", "ece", "train_s"])
        for (task, method), means in found.items():
            writer.writerow([task, method, means["n"], *(means[key] for key in ("accuracy", "nll", "ece", "train_s"))])


def wanted(row: dict[str, str], name: str) -> bool:
    """Whether a row of one of the long tables is about a metric of the pages; shifted sets stand in corruptions.csv."""
    if name == "corruptions":
        return row["metric"] in SHIFTED
    return name not in ("results", "summary") or (row["metric"] in METRICS and not row["set"].startswith("shift:"))


def copy_rows(source: Path, target: Path, costs: bool) -> None:
    """Copy a table; of the long ones only the rows that are wanted, and ``costs`` where a page shows them."""
    with source.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = [row for row in reader if wanted(row, source.stem) and (costs or row.get("metric") not in COSTS)]
        with target.open("w", encoding="utf-8", newline="") as copy:
            columns = [name for name in reader.fieldnames or () if name not in TOLD_ELSEWHERE]
            writer = csv.DictWriter(copy, columns, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def _blocks() -> list[re.Match[str]]:
    """Return every table of the pages: the whole, its opening, its kind, its run, its end."""
    return [found for page in PAGES for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def copy_figure(source: Path, target: Path) -> None:
    """Copy a figure; a large one with fewer colours."""
    if source.stat().st_size <= LARGEST_FIGURE:
        shutil.copyfile(source, target)
        return
    with Image.open(source) as image:
        image.convert("RGB").quantize(64).save(target, optimize=True)


def take(folder: Path) -> None:
    """Copy what the pages need of a run folder; of one that is there for its corruptions, those alone."""
    target = FOLDER / folder.name
    target.mkdir(exist_ok=True)
    shown = {found[2] for found in _blocks() if found[3] == folder.name}
    if "many" in shown:
        write_tasks(folder, target / "tasks.csv")
    about_shifts = bool(shown & SHIFT_KINDS.keys())
    for name in ("corruptions",) if about_shifts else FILES:
        if (folder / f"{name}.csv").is_file():
            copy_rows(folder / f"{name}.csv", target / f"{name}.csv", "costs" in shown)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    text = json.dumps(manifest["environment"], indent=2, sort_keys=True)
    (target / "environment.json").write_text(text + "\n", encoding="utf-8")
    for page in PAGES:
        for figure in re.findall(rf"results/{folder.name}/(\w+\.png)", page.read_text(encoding="utf-8")):
            copy_figure(folder / "figures" / figure, target / figure)


SHIFT_KINDS: dict[str, Callable[[str], str]] = {
    "shifted": shifted,
    "severities": severities,
    "corruptions": corruptions,
}


def rates(run: str) -> str:
    """Return one-row requests to `volta serve` and to the other service with one parser, as ratios within one run."""
    run, _, parser = run.partition("-")
    head = ["training samples", "clients", "median, ms", "rate", "p99", "processor time"]
    lines = []
    for row in [row for row in read(run, "rate") if row["peer_http"] == parser]:
        line = [f"{int(row['train_rows']):,}", row["clients"], f"{row['volta_p50_ms']} and {row['peer_p50_ms']}"]
        rate, cpu = (
            f"{row[f'{name}_ratio']} ({row[f'{name}_ratio_low']} to {row[f'{name}_ratio_high']})"
            for name in ("rate", "cpu")
        )
        lines.append([*line, rate, row["p99_ratio"], cpu])
    return table(head, lines)


def folders(run: str) -> str:
    """Return the rate and memory of a folder of files, and what follows from the rate for more machines."""
    head = ["method", "rows", "rows a second", "core time a row", "memory in both halves", "100 million, estimate"]
    lines = []
    for row in read(run, "folder"):
        estimate = f"{60 * float(row['estimate_100m_minutes_16_nodes']):.0f} s"
        memory = f"{row['largest_mb_first_half']} MB, {row['largest_mb_second_half']} MB"
        rate = f"{int(row['rows_per_s']):,}"
        lines.append([row["method"], f"{int(row['rows']):,}", rate, f"{row['core_us_a_row']} µs", memory, estimate])
    return table(head, lines)


KINDS: dict[str, Callable[[str], str]] = {
    **SHIFT_KINDS,
    "results": results,
    "ood": ood,
    "leaderboard": leaderboard,
    "ablation": ablation,
    "claims": claims,
    "costs": costs,
    "paper": paper,
    "printed": printed,
    "alone": alone,
    "ablated": ablated,
    "against": against,
    "stated": stated,
    "auxiliary": auxiliary,
    "change": change,
    "recipe": recipe,
    "many": many,
    "rivals": rivals,
    "tabular": tabular,
    "yardstick": yardstick,
    "audit": audit,
    "made": made,
    "rates": rates,
    "folders": folders,
}


def fill(page: str) -> str:
    """Return the page with every table made anew."""
    return BLOCK.sub(lambda found: found[1] + KINDS[found[2]](found[3]) + found[4], page)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        take(Path(given))
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
