from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from volta.bench.cell_metrics import TEST
from volta.bench.store import RunStore
from volta.core.errors import StoreError
from volta.report import build_report
from volta.report.build import make_page, read_groups
from volta.report.page import script_json
from volta.report.run import load_run
from volta.report.statistics import compute_statistics

from .conftest import NASTY
from .synthetic import FULL, Plan, write_run

VOID = {"meta", "link", "input", "img", "br"}
TINY = Plan(seeds=(1, 2), n_rows=60)


class Outline(HTMLParser):
    """Collects tags, checks that they close in order, and keeps the text outside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def words_of(store: RunStore) -> str:
    page = build_report(store, 50).path.read_text(encoding="utf-8")
    return " ".join(outline(page).words)


def words_without_figures(store: RunStore) -> str:
    """Return the words of a page whose figures are not drawn."""
    run = load_run(store)
    return " ".join(outline(make_page(run, compute_statistics(store, run.tables, 0), read_groups(store, run))).words)


def test_the_page_is_well_formed_and_asks_the_network_for_nothing(page):
    tags = outline(page).tags
    addresses = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(address.startswith(("#", "data:", "figures/")) for address in addresses)
    assert (
        re.findall(r"(?:https?:)?//[a-z]+\.[a-z.]+", re.sub(r"data:[^\"]*|http://www\.w3\.org/2000/svg", "", page))
        == []
    )


def test_hostile_names_stay_text(page):
    parsed = outline(page)
    assert not any(attributes.get("onerror") or attributes.get("src") == "x" for _, attributes in parsed.tags)
    assert f"Soft {NASTY}" in parsed.words
    data = re.search(r'<script type="application/json" id="volta-data">(.*?)</script>', page, re.S)
    assert data is not None
    payload = json.loads(data.group(1))
    assert payload["groups"][0]["methods"][1]["title"] == f"Soft {NASTY}"


def test_json_in_a_script_cannot_end_it():
    text = script_json({"a": "</script><!-- \u2028 & é"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- \u2028 & é"}


def test_the_page_says_what_a_reader_must_know(page):
    words = " ".join(outline(page).words)
    assert "Reduced run (at most 5 epochs): these numbers are not comparable" in words
    assert "1 of 21 cells are not finished" in words
    assert "digits · fair · mahalanobis · seed 456: ValueError: loss is <nan> & gone" in words
    assert "2 samples gave their true class a probability of 0 and were floored in NLL" in words
    assert f"a note {NASTY}" in words
    assert "volta bench digits --out runs/digits" in words
    assert "numpy 2.0.0" in words
    assert "sha256  " + "a" * 64 in words
    assert "Minimum detectable difference (80 % power) with 3 seeds, median over methods: " in words
    assert "VOLTA has the lowest ECE of all methods." in words


def test_figures_and_page_are_written(small, page):
    names = {path.name for path in (small.root / "figures").iterdir()}
    wanted = [
        "mean_ranks",
        "accuracy_ece",
        "accuracy_ece_density",
        "parallel_coordinates",
        "calibration_bars",
        "reliability",
        "pairwise",
        "severity_curves",
        "ood_bars",
        "roc_curves",
        "pr_curves",
        "score_histograms",
        "risk_coverage",
        "efficiency",
        "summary_heatmap",
        "corruption_heatmap_accuracy",
        "corruption_heatmap_ece",
        "ablation_bars",
    ]
    assert names == {f"{name}.{kind}" for name in wanted for kind in ("png", "pdf")}
    assert page.count('.pdf" download') == len(wanted)


# Over two seconds: all figures are drawn again.
def test_the_same_run_gives_the_same_page(small, page):
    pdf = (small.root / "figures" / "accuracy_ece.pdf").read_bytes()
    build_report(small, 500)
    assert (small.root / "report.html").read_text(encoding="utf-8") == page
    assert (small.root / "figures" / "accuracy_ece.pdf").read_bytes() == pdf


def test_nothing_here_imports_torch():
    code = "import sys, volta.report, volta.figures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_seed(folder, quick_figures):
    words = words_of(write_run(folder, replace(TINY, seeds=(1,))))
    assert "One seed: no standard deviations and no tests." in words
    assert "One seed gives no test; run more seeds." in words


def test_one_method_that_is_not_volta(folder, quick_figures):
    words = words_of(write_run(folder, replace(TINY, methods=(("softmax", "Softmax", "extra"),))))
    assert "VOLTA itself is not in this run" in words


def test_a_task_without_ood_sets_and_shifts(folder, quick_figures):
    store = write_run(folder, replace(TINY, ood=(), shifts=()))
    words = words_of(store)
    assert "The task has no OOD sets" in words
    assert "The task has no shifted test sets" in words
    assert not list((store.root / "figures").glob("*ood*"))
    assert not (store.root / "corruptions.csv").exists()


def test_two_hundred_classes(folder, quick_figures):
    assert "Accuracy against calibration error" in words_of(write_run(folder, replace(TINY, n_classes=200, n_rows=400)))


def test_several_tasks_and_both_protocols(folder, quick_figures):
    store = write_run(
        folder,
        replace(TINY, tasks=("digits", "cifar10"), protocols=("fair", "paper"), methods=TINY.methods[:2], shifts=()),
    )
    page = build_report(store, 0).path.read_text(encoding="utf-8")
    assert page.count('role="tab"') == page.count('class="group"') == 4
    names = {path.name for path in (store.root / "figures").glob("*.png")}
    assert {"digits-fair-reliability.png", "cifar10-paper-reliability.png"} <= names
    assert "Across tasks" in page
    assert "paper 0.877 ± 0.005" in page


def test_only_ablation_rows(folder, quick_figures):
    rows = tuple((name, name, "ablation") for name in ("volta-full", "volta-full-shallow"))
    assert "shallow" in words_of(write_run(folder, replace(TINY, methods=rows)))


def test_nothing_finished(folder, quick_figures):
    missing = frozenset((name, seed) for name, _, _ in TINY.methods for seed in TINY.seeds)
    words = words_of(write_run(folder, replace(TINY, missing=missing)))
    assert "No cell of this task and protocol has finished" in words
    assert "digits · fair · volta · seed 1" in words


def test_a_method_without_some_metric(folder, quick_figures):
    store = write_run(folder, TINY)
    cell = next(cell for cell in store.cells() if cell.method == "softmax")
    record = store.read_record(cell)
    test = {metric: value for metric, value in record.test.items() if metric not in ("latency_ms", "nll")}
    store.replace_record(replace(record, metrics={**record.metrics, TEST: test}))
    assert "Results" in words_of(store)


def test_features_of_another_backbone_are_named_first(folder):
    words = words_without_figures(write_run(folder, replace(TINY, backbone="efficientnet-lite0")))
    assert "Features: efficientnet-lite0." in words
    assert "Features:" not in words_without_figures(
        write_run(folder.with_name("usual"), replace(TINY, backbone="resnet18"))
    )


def test_no_backbone_is_the_papers_on_tiny_imagenet(folder):
    words = words_without_figures(write_run(folder, replace(TINY, tasks=("tinyimagenet",), backbone="resnet18")))
    assert "Features: resnet18." in words
    assert "which saw the classes that are out of distribution here" in words


def test_the_papers_tests_are_in_a_fold(folder, quick_figures):
    store = write_run(folder, replace(TINY, tasks=("cifar10",), methods=TINY.methods[:2], shifts=()))
    page = build_report(store, 0).path.read_text(encoding="utf-8")
    assert "<summary>The paper’s tests</summary>" in page


def test_mixed_versions_of_libraries_are_said_first(folder):
    store = write_run(folder, TINY)
    assert "Versions of libraries are mixed" not in words_without_figures(store)
    record = store.records()[0]
    packages = {**record.environment.packages, "torch": "2.99"}
    store.replace_record(replace(record, environment=replace(record.environment, packages=packages)))
    words = words_without_figures(store)
    assert "Versions of libraries are mixed, and equal seeds may give other numbers with each" in words
    assert "1 cell with numpy" in words
    assert "torch 2.99" in words


def test_mixed_instruction_sets_are_said_first(folder):
    store = write_run(folder, TINY)
    assert "Instruction sets are mixed" not in words_without_figures(store)
    record = store.records()[0]
    store.replace_record(replace(record, environment=replace(record.environment, cpu_capability="AVX512")))
    words = words_without_figures(store)
    assert "1 cell on AVX512, openblas 0.3.27 Haswell; 5 cells on AVX2, openblas 0.3.27 Haswell." in words


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(StoreError, match="is not a run folder"):
        build_report(RunStore(tmp_path))


# slow: the statistics of 22 methods
@pytest.mark.slow
def test_a_full_page_stays_small(tmp_path):
    methods = FULL.methods[:22]
    plan = replace(FULL, methods=methods, n_rows=120, ood=("a", "b", "c", "d"))
    store = write_run(tmp_path / "run", plan)
    run = load_run(store)
    page = make_page(run, compute_statistics(store, run.tables, 0), read_groups(store, run))
    assert len(page.encode()) < 2_500_000
