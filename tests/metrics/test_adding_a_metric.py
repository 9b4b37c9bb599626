"""A metric costs a function and a line in the table: all the rest of the package finds it there."""

import csv
import io
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.stats.builders import make_store
from volta import metrics
from volta.core.errors import InputError
from volta.figures.style import metric_label
from volta.metrics.table import OOD, PROBS, Metric
from volta.report import export
from volta.report.statistics import compute_statistics
from volta.stats.results import load_tables


def overconfidence(probs, labels):
    """Mean top probability of the rows that are predicted wrongly, 0 where there are none."""
    wrong = probs.argmax(axis=1) != labels
    return float(probs.max(axis=1)[wrong].mean()) if wrong.any() else 0.0


def median_gap(id_scores, ood_scores):
    return float(np.median(ood_scores) - np.median(id_scores))


NEW = (
    Metric("overconfidence", "Overconfidence", "calibration", overconfidence, False, PROBS, "f", "c", "o"),
    Metric("median_gap", "median gap", "ood", median_gap, True, OOD, "f", "c", "o"),
)


@pytest.fixture
def longer_table(monkeypatch):
    for metric in NEW:
        monkeypatch.setitem(metrics.METRICS, metric.name, metric)


def test_the_table_is_as_long_as_before():
    assert not {metric.name for metric in NEW} & set(metrics.METRICS)


@pytest.mark.usefixtures("longer_table")
def test_it_is_in_the_report_of_a_prediction_after_the_others():
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    labels, uncertainty = np.array([0, 1, 1]), np.array([0.1, 0.2, 0.3])
    result = metrics.report(probs, labels, uncertainty, ood={"far": [0.6, 0.8]})
    assert list(result["test"])[-1] == "overconfidence"
    assert result["test"]["overconfidence"] == 0.7
    assert result["ood:far"]["median_gap"] == pytest.approx(0.5)
    assert "median_gap" not in result["test"]


@pytest.mark.usefixtures("longer_table")
def test_it_is_in_the_tables_of_a_run_under_its_label(tmp_path):
    store = make_store(tmp_path / "run", {"volta": 3.0, "energy": 1.0}, seeds=(1, 2))
    summary = compute_statistics(store, load_tables(store), 0).to_csv()["summary.csv"]
    written = {(row["method"], row["set"], row["metric"]): row for row in csv.DictReader(io.StringIO(summary))}
    assert float(written["volta", "test", "overconfidence"]["mean"]) > 0
    assert ("energy", "ood:near", "median_gap") in written
    results = {row["method"]: row for row in csv.DictReader(io.StringIO(export(store, "csv")))}
    assert float(results["volta"]["overconfidence_mean"]) == float(written["volta", "test", "overconfidence"]["mean"])
    assert results["volta"]["median_gap@ood:near_mean"]
    assert "Overconfidence" in export(store, "html")


@pytest.mark.usefixtures("longer_table")
def test_it_is_listed_and_labelled():
    from volta.cli.main import app

    assert metric_label("overconfidence") == "Overconfidence ↓"
    assert metric_label("median_gap@ood:svhn") == "median gap ↑ (svhn)"
    assert {row["name"]: row["label"] for row in metrics.describe()}["median_gap"] == "median gap"
    assert re.search(r"overconfidence +Overconfidence +↓", CliRunner().invoke(app, ["metrics"]).output)


def test_one_that_gives_no_number_is_named(monkeypatch):
    broken = Metric("broken", "Broken", "calibration", lambda probs, labels: np.nan, False, PROBS, "f", "c", "o")
    monkeypatch.setitem(metrics.METRICS, "broken", broken)
    with pytest.raises(InputError, match="the metric broken gave nan; it has to give a finite number"):
        metrics.report(np.full((3, 2), 0.5), np.array([0, 1, 1]), np.zeros(3))
