"""``volta card``: the page opens in a real browser, says what the model promises, and escapes what users write."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cli.conftest import make_rows, run, write_csv
from tests.report.browser import run_page
from volta import VoltaClassifier, metrics
from volta.core.errors import InputError
from volta.core.files import hash_file

NASTY = '<img src=x onerror="problems.push(1)"> & | `x`'


@pytest.fixture(scope="module")
def cards(shell, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards")
    assert run("card", shell.model, "--out", folder / "kept").exit_code == 0
    test = write_csv(folder / "test.csv", *make_rows(300, 3))
    done = run("card", shell.model, "--data", test, "--id", "tree", "--out", folder / "judged", "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"card: {folder}/judged/model-card.html, {folder}/judged/model-card.md\n"
    return folder


def text_of(folder, kind):
    return (folder / kind / "model-card.md").read_text(encoding="utf-8")


def test_the_card_says_what_the_model_is_and_rests_on(shell, cards):
    text = text_of(cards, "kept")
    assert "# Model card: model.safetensors" in text
    assert "**classes**: ash, birch, oak" in text
    assert "length, width, weight, g" in text
    assert "600 training, 600 calibration" in text
    assert "each of 5 fits leaves out a fold of the samples, which calibrate it" in text
    assert "Losses are those of the validation set." in text
    assert "cross-conformal prediction: near what is asked" in text
    assert "measured, not proven" in text
    assert f"SHA-256 {hash_file(shell.model)}" in text
    assert f"| train.csv | {hash_file(shell.train)} |" in text
    for title in ("Calibration", "Risk and coverage", "Policies", "Prediction sets", "OOD flags", "Data", "Limits"):
        assert f"## {title}" in text
    assert "with confidence 95 % at most 20 % of answered samples are wrong" in text
    assert "too few" not in text
    assert "What is not guaranteed:" in text


def test_the_numbers_are_those_of_the_metrics(shell, cards):
    rows, labels = make_rows(300, 3)
    classifier = VoltaClassifier.load(shell.model)
    del classifier.feature_names_in_
    found = classifier.predict_full(rows)
    numbers = np.searchsorted(classifier.classes_, labels)
    interval = metrics.ece_interval(found.probs, numbers)
    text = text_of(cards, "judged")
    assert "the 300 labelled samples of test.csv" in text
    assert f"| accuracy | {metrics.accuracy(found.probs, numbers):.4f} |" in text
    expected = metrics.ece_expected(found.probs)
    told = f"{interval.low:.4f} to {interval.high:.4f} (bootstrap)"
    if interval.estimate <= expected.high:
        told = "within the range expected under perfect calibration"
    assert f"| ECE, 15 bins | {interval.estimate:.4f} | {told} |" in text
    chance = f"{expected.estimate:.4f} | {expected.low:.4f} to {expected.high:.4f} (its range) |"
    assert f"| expected ECE | {chance}" in text
    assert f"| NLL | {metrics.nll(found.probs, numbers):.4f} |" in text
    assert f"AURC {metrics.aurc(found.uncertainty, found.labels == numbers):.4f}" in text
    sets = classifier.predict_set(rows, alpha=0.1)
    line = next(line for line in text.splitlines() if line.startswith("| 0.1 |"))
    assert f"| {sets.sum(1).mean():.3f} | {100 * sets[np.arange(300), numbers].mean():.3g} % |" in line
    assert f"{100 * classifier.is_ood(rows, fpr=0.05).mean():.3g} %" in text


def test_the_stored_calibration_rows_give_their_own_numbers(shell, cards):
    kept = VoltaClassifier.load(shell.model).calibration_
    text = text_of(cards, "kept")
    assert f"| accuracy | {np.mean(kept.predicted == kept.labels):.4f} |" in text
    assert f"| NLL | {-np.log(kept.true_probs).mean():.4f} |" in text
    line = next(line for line in text.splitlines() if line.startswith("| 0.1 |"))
    assert line.endswith(f"| {kept.set_sizes['lac'][1]:.3f} |")


def test_rows_out_of_all_range_count_as_flagged_at_every_rate(shell, tmp_path):
    rows, labels = make_rows(100, 3)
    rows[:7] *= 1e12
    test = write_csv(tmp_path / "test.csv", rows, labels)
    done = run("card", shell.model, "--data", test, "--id", "tree", "--out", tmp_path, "--quiet")
    assert done.exit_code == 0, done.output
    text = text_of(tmp_path, "")
    line = next(line for line in text.splitlines() if line.startswith("| 1 % |") and "enough" in line)
    assert float(line.split("|")[-2].strip(" %")) >= 7.0
    classifier = VoltaClassifier.load(shell.model)
    del classifier.feature_names_in_
    line = next(line for line in text.splitlines() if line.startswith("| 10 % |") and "enough" in line)
    assert line.endswith(f"| {100 * classifier.is_ood(rows, fpr=0.1).mean():.3g} % |")


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_opens_alone_in_a_browser(cards, tmp_path, theme, width):
    page = cards / "judged" / "model-card.html"
    script = """
    const at = (what) => [...document.querySelectorAll(what)];
    return {
      theme: document.documentElement.dataset.theme,
      paper: getComputedStyle(document.body).backgroundColor,
      figures: at("figure svg").map((svg) => svg.getBoundingClientRect().width > 100),
      bars: at("svg .bar").length,
      tables: at("table").length,
      limits: at("li").length,
      wide: document.documentElement.scrollWidth - window.innerWidth,
    };"""
    answer = run_page(page, script, tmp_path, width=width, theme=theme)
    assert answer["problems"] == []
    assert answer["requests"] == []
    value = answer["value"]
    assert value["theme"] == theme
    assert value["paper"] == {"light": "rgb(251, 250, 248)", "dark": "rgb(20, 22, 26)"}[theme]
    assert value["figures"] == [True, True, True]
    assert value["bars"] > 3
    assert value["tables"] >= 8
    assert value["limits"] >= 6
    assert value["wide"] <= 0


def test_names_from_a_table_are_text(tmp_path):
    rows, labels = make_rows(120, 0)
    names = np.where(labels == "oak", NASTY, labels)
    table = write_csv(tmp_path / "train.csv", rows, names, names=(NASTY, "b", "c"))
    done = run("fit", table, "--label", "species", "--id", "tree", "--max-epochs", 1, "--out", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert run("card", tmp_path / "m").exit_code == 0
    answer = run_page(tmp_path / "m-card.html", "return document.querySelectorAll('img').length", tmp_path)
    assert (answer["value"], answer["problems"]) == (0, [])
    markdown = (tmp_path / "m-card.md").read_text(encoding="utf-8")
    assert "<img" not in re.sub(r"\\<img", "", markdown)


def test_bad_input(shell, cards, tmp_path):
    text = (cards / "test.csv").read_text().replace("oak", "elm", 1)
    (tmp_path / "test.csv").write_text(text)
    for words, message in (
        (("card", shell.model, "--out", cards / "kept"), "exists; name another file, or pass --force"),
        (("card", shell.model, "--out", shell.train), "is a file; name a folder"),
        (("card", shell.model, "--out", tmp_path, "--data", shell.new, "--id", "tree"), "--label is 'species', which"),
        (
            ("card", shell.model, "--out", tmp_path, "--data", tmp_path / "test.csv", "--id", "tree"),
            "row 2 (line 4), column 'species' is 'elm', a class that the model does not know",
        ),
    ):
        done = run(*words)
        assert isinstance(done.exception, InputError), done.output
        assert message in str(done.exception)
    assert [item.name for item in tmp_path.iterdir()] == ["test.csv"]
