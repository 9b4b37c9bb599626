"""The tables of the pages of results are those of the committed CSV files."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ALONE = ("cifar10-paper-features", "cifar100-paper-features")
"""Runs of VOLTA by the paper's recipe, three seeds."""


def script(path: Path) -> ModuleType:
    """Return a script of the docs as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = script(DOCS / "results" / "tables.py")
RUNS = sorted(path.parent.name for path in (DOCS / "results").glob("*/tests.csv"))
ABLATIONS = sorted({path.parent.name for path in (DOCS / "results").glob("*/ablation.csv")} - {*RUNS})
"""Runs without a baseline, of VOLTA and rows of its ablation alone."""
COSTS = "cifar10-costs"
"""Of a run that had its machine to itself, costs alone."""
FEW_SEEDS = {
    "cifar10-paper": (3, "\n## CIFAR-10, `paper`, on pixels: three seeds\n"),
    "tinyimagenet-paper": (3, "\n## Tiny ImageNet, `paper`, on features: three seeds\n"),
}
"""Runs with fewer seeds than the others, and where the page says so."""


def pages() -> str:
    return "".join(page.read_text(encoding="utf-8") for page in TABLES.PAGES)


def test_the_pages_tables_are_the_csv_files() -> None:
    assert TABLES.fill(pages()) == pages()


def test_a_changed_number_is_noticed() -> None:
    changed = pages().replace(" ± 0.", " ± 1.", 1)
    assert changed != pages()
    assert TABLES.fill(changed) == pages()


@pytest.mark.parametrize("run", RUNS)
def test_every_run_has_its_tables_its_verdicts_and_its_command(run: str) -> None:
    judged = "claims" if (DOCS / "results" / run / "claims.csv").is_file() else "leaderboard"
    for kind in ("results", judged, "made"):
        assert f"<!-- {kind} {run} -->" in pages()
    assert f"--out runs/{run}" in pages()


def test_costs_are_those_of_a_run_that_is_named() -> None:
    without_tests = {path.parent.name for path in (DOCS / "results").glob("*/summary.csv")} - {*RUNS, *ABLATIONS}
    assert without_tests == {COSTS, *ALONE}
    assert {found[2] for found in TABLES.BLOCK.finditer(pages()) if found[3] == COSTS} == {"made", "costs"}
    assert {row["metric"] for row in TABLES.read(COSTS, "summary")} == {*TABLES.COSTS}


@pytest.mark.parametrize("run", ALONE)
def test_runs_of_volta_alone_stand_next_to_what_the_paper_prints(run: str) -> None:
    for kind in ("made", "alone"):
        assert f"<!-- {kind} {run} -->" in pages()
    assert f"--out runs/{run}" in pages()
    assert {(row["method"], row["n"]) for row in TABLES.read(run, "summary")} == {("volta", "3")}


def test_runs_of_corruptions_have_their_tables_and_their_command() -> None:
    runs = sorted(path.parent.name for path in (DOCS / "results").glob("*/corruptions.csv"))
    assert runs
    for run in runs:
        kinds = {found[2] for found in TABLES.BLOCK.finditer(pages()) if found[3] == run}
        assert "made" in kinds
        assert kinds & {"shifted", "severities"}
        assert f"--out runs/{run}" in pages()
        rows = TABLES.read(run, "corruptions")
        assert {row["n"] for row in rows} == {"10"}
        assert len({row["corruption"] for row in rows}) == 19 + 1


@pytest.mark.parametrize("run", ABLATIONS)
def test_every_ablation_has_its_tables_its_verdicts_and_its_command(run: str) -> None:
    for kind in ("claims", "made"):
        assert f"<!-- {kind} {run} -->" in pages()
    assert f"<!-- against {run} -->" in pages() or f"<!-- ablated {run} -->" in pages()
    assert f"--out runs/{run}" in pages()


@pytest.mark.parametrize("run", RUNS)
def test_the_files_are_small_and_whole(run: str) -> None:
    folder = DOCS / "results" / run
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5_000_000
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    accuracy = {row["method"]: int(row["n"]) for row in rows if (row["set"], row["metric"]) == ("test", "accuracy")}
    assert "volta" in accuracy
    assert min(accuracy.values()) == max(accuracy.values())
    if run in FEW_SEEDS:
        n_seeds, words = FEW_SEEDS[run]
        assert set(accuracy.values()) == {n_seeds}
        assert words in pages()
    else:
        assert min(accuracy.values()) >= 5


def test_the_architecture_is_what_its_script_draws() -> None:
    pictures = script(DOCS / "pictures" / "architecture.py")
    assert (DOCS / "pictures" / "volta.svg").read_text(encoding="utf-8") == pictures.drawing()
    assert (DOCS / "pictures" / "packages.svg").read_text(encoding="utf-8") == pictures.packages()


def test_the_forest_plot_is_of_the_csv_files() -> None:
    forest = script(DOCS / "results" / "forest.py")
    rows = {name: (rival, gain, low, high) for name, rival, gain, low, high in forest.best_rivals("cifar10-fair")}
    rival, gain, low, high = rows["near-OOD AUROC"]
    assert rival == "energy"
    tests = TABLES.read("cifar10-fair", "tests")
    (row,) = [r for r in tests if (r["method"], r["metric"], r["set"]) == ("energy", "auroc", "near:")]
    assert gain == pytest.approx(float(row["gain"]) / 0.01)
    assert low < gain < high < 0
    labels = (DOCS / "results" / "forest.svg").read_text(encoding="utf-8")
    assert all(f"{name}, {rows[name][0]}" in labels for name in rows)


@pytest.mark.parametrize("folder", sorted({path.parent for path in (DOCS / "results").glob("*/*.png")}))
def test_figures_are_small(folder: Path) -> None:
    assert max(path.stat().st_size for path in folder.glob("*.png")) < 200_000
