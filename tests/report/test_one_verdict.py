"""A pair and metric has one verdict, wherever it is shown: CSV files, leaderboard, page, terminal, claims."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from volta.api import open_run
from volta.report import build_report
from volta.report.run import load_run
from volta.report.statistics import run_statistics
from volta.report.words import finding_sentence

from .synthetic import ABLATION, EXTRA, PAPER, Plan, write_run

OURS = ("volta", "VOLTA", "volta")
BASELINES = tuple((name, title, "paper") for name, title in PAPER[:4])
EXTRAS = tuple((name, title, "extra") for name, title in EXTRA[:3])
RUNS = {
    "volta": (Plan(methods=(OURS, *BASELINES, *EXTRAS), seeds=(1, 2, 3, 4, 5), n_rows=300, variants=True), None),
    "own": (Plan(tasks=("mine",), methods=(*BASELINES, *EXTRAS), seeds=(1, 2, 3, 4), n_rows=200), "swag"),
    "ablation": (
        Plan(
            methods=(*BASELINES[:2], OURS, *((name, title, "ablation") for name, title in ABLATION[:4])),
            seeds=(1, 2, 3),
            n_rows=150,
        ),
        "best",
    ),
}
OPPOSITE = {"better": "worse", "worse": "better"}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module", params=RUNS)
def built(request, tmp_path_factory):
    plan, reference = RUNS[request.param]
    store = write_run(tmp_path_factory.mktemp(request.param) / "run", plan)
    build_report(store, 100, reference=reference)
    return store, reference


def primary(root: Path) -> dict[tuple[str, str, str, str], str]:
    """Return (first, second, metric, set) → the verdict on the first, of both directions of every pair."""
    found = {}
    for row in read(root / "pairs.csv"):
        first, second, about, verdict = row["reference"], row["method"], (row["metric"], row["set"]), row["verdict"]
        assert (first, second, *about) not in found
        found[first, second, *about] = verdict
        found[second, first, *about] = OPPOSITE.get(verdict, verdict)
    return found


def test_tests_are_the_pairs_of_the_reference(built):
    verdicts = primary(built[0].root)
    rows = read(built[0].root / "tests.csv")
    assert rows
    for row in rows:
        assert row["verdict"] == verdicts[row["reference"], row["method"], row["metric"], row["set"]]


def test_every_verdict_follows_from_the_corrected_p_of_its_family(built):
    for row in read(built[0].root / "pairs.csv"):
        if row["verdict"] in OPPOSITE:
            assert float(row["p_holm"]) < 0.05
            assert (float(row["gain"]) > 0) == (row["verdict"] == "better")
        elif row["verdict"] == "inconclusive" and row["p_holm"]:
            assert float(row["p_holm"]) >= 0.05


def test_the_leaderboard_excludes_whom_a_pair_calls_worse(built):
    verdicts = primary(built[0].root)
    rows = [row for row in read(built[0].root / "leaderboard.csv") if row["metric"] != "(overall)"]
    for row in rows:
        own = {
            v
            for (first, _, *about), v in verdicts.items()
            if [first, *about] == [row[key] for key in ("method", "metric", "set")]
        }
        assert own
        assert row["in_confidence_set"] == str("worse" not in own).lower()
    assert {row["in_confidence_set"] for row in rows} == {"true", "false"}


def test_the_headline_counts_the_pairs(built):
    store, reference = built
    run = load_run(store)
    (group,) = run.groups
    stats = run_statistics(store, run.tables, 100, reference).of(group.task, group.protocol)
    ranked = {(row.metric, row.set) for row in stats.leaderboard if row.metric != "(overall)"}
    verdicts = primary(store.root)
    all_pairs = {frozenset(key[:2]) for key in verdicts if key[2:] in ranked}
    different = {frozenset(key[:2]) for key, verdict in verdicts.items() if key[2:] in ranked and verdict in OPPOSITE}
    assert f"{len(different)} of {len(all_pairs)} pairs differ" in finding_sentence(group, stats)


def test_the_terminal_marks_the_confidence_set(built):
    store, reference = built
    run = open_run(store.root)
    run.report(reference)
    (found,) = run.standings()
    best = {}
    for row in read(store.root / "leaderboard.csv"):
        if row["metric"] != "(overall)":
            best.setdefault(row["method"], []).append(row["in_confidence_set"] == "true")
    titles = {name: title for name, title, _ in RUNS["volta"][0].methods}
    shown = {row[1]: [cell.endswith("*") for cell in row[2:-1]] for row in found.rows}
    assert shown == {titles[name]: marks for name, marks in best.items()}


def test_the_page_shows_the_verdicts_of_the_pairs(built):
    store, _ = built
    page = (store.root / "report.html").read_text(encoding="utf-8")
    table = re.search(r'<table id="tests-.*?</table>', page, re.DOTALL)[0]
    shown = re.findall(r'class="(better|worse|equivalent|inconclusive)"', table)
    rows = [row for row in read(store.root / "tests.csv") if row["set"]]
    assert {(word, shown.count(word)) for word in shown} <= {
        (word, n) for word in {*shown} for n in range(1, sum(row["verdict"] == word for row in rows) + 1)
    }
    # A set that a mean over sets is of alone stands once.
    averaged = {row["method"] for row in rows if row["set"] == "near:"}
    rows = [row for row in rows if row["method"] not in averaged or not row["set"].startswith("ood:")]
    marks = sum(row["verdict"] in OPPOSITE for row in rows)
    results = re.search(r'<table id="results-.*?</table>', page, re.DOTALL)[0]
    assert results.count('<sup class="mark">†</sup>') == marks


def test_no_claim_contradicts_a_pair(built):
    verdicts = primary(built[0].root)
    for row in read(built[0].root / "claims.csv") if (built[0].root / "claims.csv").is_file() else ():
        if row["claim"] not in ("best-ece", "selective-prediction"):
            continue
        metric = "ece" if row["claim"] == "best-ece" else "aurc"
        own = [v for (first, second, name, _), v in verdicts.items() if first == "volta" and name == metric]
        if row["verdict"] == "supported":
            assert "worse" not in own
        assert " p = " not in row["sentence"]
        assert "gain" in row["sentence"]


def test_a_pair_stands_once_in_the_ablation(built):
    path = built[0].root / "ablation.csv"
    keys = (
        [(frozenset((row["row"], row["reference"])), row["metric"], row["set"]) for row in read(path)]
        if path.is_file()
        else []
    )
    assert len(keys) == len(set(keys))
