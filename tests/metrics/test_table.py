import dataclasses
import inspect
from pathlib import Path

import pytest

from volta import metrics
from volta.core.errors import InputError

NAMES = [
    "accuracy",
    "nll",
    "brier",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "brier_residual",
    "ece",
    "ece_expected",
    "ece_expected_low",
    "ece_expected_high",
    "mce",
    "ece_equal_mass",
    "ece_classwise",
    "smece",
    "ece_debiased",
    "signed_ce",
    "aurc",
    "augrc",
    "eaurc",
    "eaurc_paper",
    "selective_auc",
    "risk_at_80",
    "coverage_at_5",
    "auroc",
    "aupr_out",
    "aupr_in",
    "fpr95",
    "fpr95_id",
    "autc",
    "oscr",
    "scod_aurc",
    "scod_augrc",
    "coverage",
    "coverage_gap",
    "set_size",
    "empty_sets",
    "latency_ms",
    "latency_p95_ms",
    "size_mb",
    "latency_features_ms",
    "size_features_mb",
    "peak_mb",
    "train_s",
]
EXPECTED_ECE = ("ece_expected", "ece_expected_low", "ece_expected_high")
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_names_are_the_fixed_ones():
    assert list(metrics.METRICS) == NAMES
    assert all(name == metric.name for name, metric in metrics.METRICS.items())


@pytest.mark.parametrize("name", NAMES)
def test_function_stands_under_its_name_and_takes_what_it_needs(name):
    metric = metrics.METRICS[name]
    if metric.family == "efficiency":
        assert metric.function is None
        return
    assert metric.function is getattr(metrics, name)
    assert name in metrics.__all__
    assert tuple(inspect.signature(metric.function).parameters)[: len(metric.needs)] == metric.needs


def test_rows_are_frozen_and_text_is_complete():
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics.METRICS["ece"].name = "other"
    for row in metrics.describe():
        assert all(isinstance(value, str) and value and "\n" not in value for value in row.values())


def test_every_metric_has_a_label_of_its_own():
    labels = [metric.label for metric in metrics.METRICS.values()]
    assert len(set(labels)) == len(labels)
    assert [metrics.METRICS[n].label for n in ("accuracy", "ece", "fpr95", "peak_mb")] == [
        "accuracy",
        "ECE",
        "FPR95",
        "peak memory, MB",
    ]


def test_what_is_measured_on_a_model_and_what_differs_between_equal_runs():
    measured = {name for name, metric in metrics.METRICS.items() if metric.measured}
    assert measured == {name for name, metric in metrics.METRICS.items() if metric.family == "efficiency"}
    assert measured - {name for name, metric in metrics.METRICS.items() if metric.timing} == {
        "size_mb",
        "size_features_mb",
    }


def test_a_need_that_no_prediction_has_is_refused():
    with pytest.raises(InputError, match="metric 'ece' needs 'logits'; its needs can be: probs, labels"):
        dataclasses.replace(metrics.METRICS["ece"], needs=("logits", "labels"))


def test_directions():
    up = {name for name, metric in metrics.METRICS.items() if metric.higher_is_better}
    neither = {name for name, metric in metrics.METRICS.items() if metric.higher_is_better is None}
    assert up == {
        "accuracy",
        "brier_resolution",
        "selective_auc",
        "coverage_at_5",
        "auroc",
        "aupr_out",
        "aupr_in",
        "oscr",
    }
    assert neither == {"brier_uncertainty", "brier_residual", "signed_ce", "coverage", *EXPECTED_ECE}
    assert [metrics.METRICS[n].direction for n in ("accuracy", "ece", "coverage")] == ["↑", "↓", "–"]


def test_margins():
    """A difference within the margin does not matter; costs and parts that no method chooses have none."""
    margins = {name: metric.margin for name, metric in metrics.METRICS.items()}
    assert {name: margins[name] for name in ("accuracy", "ece", "brier", "nll", "aurc", "auroc")} == {
        "accuracy": 0.01,
        "ece": 0.01,
        "brier": 0.01,
        "nll": 0.02,
        "aurc": 0.005,
        "auroc": 0.01,
    }
    without = {name for name, margin in margins.items() if margin is None}
    measured = {name for name, metric in metrics.METRICS.items() if metric.measured}
    assert without == {"brier_uncertainty", "brier_residual", *EXPECTED_ECE} | measured
    with pytest.raises(InputError, match="metric 'ece' has margin 0; expected a number above 0, or None"):
        dataclasses.replace(metrics.METRICS["ece"], margin=0)


def test_variants_follow_from_what_a_metric_is_made_of():
    for name, metric in metrics.METRICS.items():
        if metric.needs == ("uncertainty", "correct"):
            assert metric.variants == ("test+msp",), name
        elif metric.needs in (("probs",), ("probs", "labels")) and name not in ("accuracy", "brier_uncertainty"):
            assert metric.variants == ("test+T",), name
        else:
            # A temperature changes neither which class is the most probable nor the labels.
            assert metric.variants == (), name
    with pytest.raises(
        InputError, match=r"metric 'ece' has variant 'test\+x'; its variants can be: test\+T, test\+msp"
    ):
        dataclasses.replace(metrics.METRICS["ece"], variants=("test+x",))


def test_page_holds_the_table():
    lines = [
        "| name | label | | needs | formula | convention | elsewhere | margin | also on |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in metrics.describe():
        cells = [
            f"`{row['name']}`",
            row["label"],
            row["direction"],
            row["needs"],
            row["formula"],
            row["convention"],
            row["others"],
            row["margin"],
            row["variants"],
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")
