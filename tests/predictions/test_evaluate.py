"""``volta.evaluate`` and ``volta.compare``: the same numbers as the metrics, intervals that mean something, plots, pages."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import volta
from tests.predictions.made import labels_of, probs_of
from volta.bench.store import RunStore
from volta.metrics import ece_expected, report

LABELS = labels_of(400)
PROBS = probs_of(LABELS, 2.0)
RNG = np.random.default_rng(3)
SCORE, OUTSIDE = RNG.normal(size=400), RNG.normal(1.0, size=150)


@pytest.fixture(scope="module")
def evaluation():
    return volta.evaluate(
        PROBS, LABELS, ood={"svhn": OUTSIDE, "noise": OUTSIDE + 1}, id_score=SCORE, sets=PROBS > 0.1, near=["svhn"],
        n_resamples=200,
    )  # fmt: skip


def test_metrics_are_those_of_the_report(evaluation):
    expected = report(
        PROBS, LABELS, 1 - PROBS.max(axis=1), {"svhn": OUTSIDE, "noise": OUTSIDE + 1}, SCORE, PROBS > 0.1, near=["svhn"]
    )
    for name, values in expected.items():
        assert evaluation.metrics[name] == pytest.approx(values)
    assert "test+msp" in evaluation.metrics


def test_logits_give_the_metrics_of_their_softmax():
    found = volta.evaluate(logits=np.log(PROBS), labels=LABELS).metrics["test"]
    assert found == pytest.approx(volta.evaluate(PROBS, LABELS).metrics["test"])


def test_validation_rows_add_the_test_rows_after_one_temperature():
    found = volta.evaluate(logits=4 * np.log(PROBS), labels=LABELS, val=(4 * np.log(PROBS), LABELS)).metrics
    assert found["test+T"]["nll"] < found["test"]["nll"]


def test_the_interval_of_accuracy_is_the_exact_binomial_one():
    labels = np.arange(50) % 2
    probs = np.stack([1.0 - 0.8 * labels - 0.1, 0.8 * labels + 0.1], axis=1)
    interval = volta.evaluate(probs, labels, n_resamples=50).intervals["test"]["accuracy"]
    assert (interval.estimate, interval.high) == (1.0, 1.0)
    assert interval.low == pytest.approx(0.025 ** (1 / 50))


def test_intervals_hold_the_estimate_and_shrink_with_the_rows(evaluation):
    interval = evaluation.intervals["test"]["accuracy"]
    accuracy = evaluation.metrics["test"]["accuracy"]
    assert interval.estimate == accuracy
    # The binomial's normal interval, which resampling rows has to find again.
    half = 1.96 * np.sqrt(accuracy * (1 - accuracy) / 400)
    assert interval.low == pytest.approx(accuracy - half, abs=0.01)
    assert interval.high == pytest.approx(accuracy + half, abs=0.01)
    auroc = evaluation.intervals["ood:noise"]["auroc"]
    assert auroc.low < evaluation.metrics["ood:noise"]["auroc"] < auroc.high <= 1
    few = volta.evaluate(PROBS[:100], LABELS[:100], n_resamples=200).intervals["test"]["nll"]
    many = evaluation.intervals["test"]["nll"]
    assert many.high - many.low < few.high - few.low


def test_it_shows_itself(evaluation):
    assert f"accuracy={evaluation.metrics['test']['accuracy']:.4f}" in repr(evaluation)
    assert "auroc[svhn]=" in repr(evaluation)
    page = evaluation._repr_html_()
    assert page.startswith("<table>")
    assert f"{evaluation.intervals['test']['ece'].high:.4f}" in page
    expected = ece_expected(PROBS)
    beside = f"(expected {expected.estimate:.4f}, {expected.low:.4f}–{expected.high:.4f})"
    ece = evaluation.metrics["test"]["ece"]
    assert f"ece={ece:.4f} {beside}, " in repr(evaluation)
    assert f"<td>{ece:.4f} {beside}</td>" in page


def test_plots_are_axes_with_the_curves_on_them(evaluation):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, 3)
    assert evaluation.plot.reliability(places[0]) is places[0]
    x, y = evaluation.plot.risk_coverage(places[1]).lines[0].get_data()
    assert (x[-1], y[-1]) == pytest.approx((1, 1 - evaluation.metrics["test"]["accuracy"]))
    labels = [text.get_text() for text in evaluation.plot.roc(places[2]).get_legend().get_texts()]
    assert labels == [f"{name}: AUROC {evaluation.metrics[f'ood:{name}']['auroc']:.4f}" for name in ("svhn", "noise")]
    pyplot.close(figure)
    own = volta.evaluate(PROBS, LABELS).plot
    with pytest.raises(volta.InputError, match="there is no OOD set to draw a ROC curve of"):
        own.roc()


def test_comparisons_are_paired_on_the_rows(tmp_path):
    sharp, blunt = volta.evaluate(PROBS, LABELS), volta.evaluate(probs_of(LABELS, 1.0), LABELS)
    found = volta.compare({"sharp": sharp, "blunt": blunt, "twin": volta.evaluate(PROBS, LABELS)}, n_resamples=200)
    row = found.pair("sharp", "blunt", "accuracy")
    assert row.difference == pytest.approx(sharp.metrics["test"]["accuracy"] - blunt.metrics["test"]["accuracy"])
    assert (row.verdict, row.paired) == ("better", True)
    assert row.boot_low is not None
    assert 0 < row.boot_low < row.difference < row.boot_high
    assert found.pair("sharp", "twin", "nll").verdict == "equivalent"
    assert "accuracy: may be the best: sharp" in repr(found)
    assert "blunt" not in repr(found).splitlines()[1]
    assert found.report(tmp_path / "all.html").stat().st_size > 10_000
    with pytest.raises(volta.InputError, match="there is no test of 'sharp' and 'blunt' on mce of test; tested are:"):
        found.pair("sharp", "blunt", "mce")


def test_lists_are_seeds():
    runs = {
        name: [volta.evaluate(probs_of(LABELS, skill, seed), LABELS) for seed in range(3)]
        for name, skill in (("sharp", 3.0), ("blunt", 0.5))
    }
    row = volta.compare(runs, n_resamples=100).pair("sharp", "blunt", "accuracy")
    assert (row.n, row.verdict) == (3, "better")
    assert row.note == ""


def test_other_rows_are_not_compared():
    first = volta.evaluate(PROBS, LABELS)
    with pytest.raises(volta.InputError, match=r"'b', test rows, row .: label . where 'a' has"):
        volta.compare({"a": first, "b": volta.evaluate(PROBS, np.roll(LABELS, 1))})
    with pytest.raises(volta.InputError, match="'b', test rows has 399 rows but 'a' has 400"):
        volta.compare({"a": first, "b": volta.evaluate(PROBS[1:], LABELS[1:])})
    with pytest.raises(volta.InputError, match="holds 1 methods; pass at least two"):
        volta.compare({"a": first})


def test_an_evaluation_is_saved_as_a_run(evaluation, tmp_path):
    folder = evaluation.save(tmp_path / "run", "net", 5)
    (record,) = RunStore(folder).records()
    assert (record.cell.method, record.cell.seed) == ("net", 5)
    assert dict(record.test) == pytest.approx(dict(evaluation.metrics["test"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "pass either probs or logits"),
        ({"probs": PROBS, "logits": PROBS, "labels": LABELS}, "pass either probs or logits"),
        ({"probs": PROBS}, "labels is missing"),
        ({"probs": np.log(PROBS), "labels": LABELS}, r"test rows, row 0: class . has -.*\(in Python logits=…\)"),
        ({"probs": PROBS, "labels": LABELS[1:]}, "test rows: labels has 399 rows but probs has 400"),
        ({"probs": PROBS, "labels": LABELS + 1}, "label 3 is not one of 0 … 2"),
        ({"probs": PROBS, "labels": LABELS, "ood": {"x": OUTSIDE}}, "ood is given without id_score"),
        ({"probs": PROBS, "labels": LABELS, "near": ["x"]}, "near names 'x', which is not among the ood sets: none"),
        ({"probs": PROBS, "labels": LABELS, "n_resamples": 0}, "n_resamples is 0; pass at least 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(volta.InputError, match=words):
        volta.evaluate(**arguments)


def test_neither_torch_nor_matplotlib_is_needed_for_numbers():
    code = (
        "import sys, volta; e = volta.evaluate([[0.9, 0.1], [0.2, 0.8]], [0, 1], n_resamples=10); e.intervals; "
        "volta.compare({'a': e, 'b': e}).pairs; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pair_is_turned_as_it_is_asked():
    sharp, blunt = volta.evaluate(PROBS, LABELS), volta.evaluate(probs_of(LABELS, 0.5), LABELS)
    comparison = volta.compare({"sharp": sharp, "blunt": blunt}, n_resamples=50)
    row, turned = comparison.pair("sharp", "blunt", "nll"), comparison.pair("blunt", "sharp", "nll")
    assert (row.verdict, turned.verdict) == ("better", "worse")
    assert (turned.reference, turned.method, turned.mean_reference) == ("blunt", "sharp", row.mean_method)
    assert (turned.difference, turned.gain) == (-row.difference, -row.gain)
    assert (turned.low, turned.high) == (-row.high, -row.low)
    assert (turned.boot_low, turned.boot_high) == (-row.boot_high, -row.boot_low)
    assert turned.p == row.p
    assert turned.turned() == row


def test_means_over_near_sets_are_of_the_same_sets():
    outside = {"a": OUTSIDE, "b": OUTSIDE + 1}
    first = volta.evaluate(PROBS, LABELS, ood=outside, id_score=SCORE, near=["a"])
    second = volta.evaluate(PROBS, LABELS, ood=outside, id_score=SCORE, near=["b"])
    comparison = volta.compare({"first": first, "second": second}, n_resamples=20)
    assert "auroc on near: may be the best" in repr(comparison)
    row = comparison.pair("first", "second", "auroc", "near:")
    assert row.mean_reference == row.mean_method
    assert row.mean_method == pytest.approx(np.mean([first.metrics[f"ood:{name}"]["auroc"] for name in outside]))


def test_a_title_is_any_text(tmp_path):
    page = volta.evaluate(PROBS, LABELS, n_resamples=20).report(tmp_path / "in" / "page.html", title="../../../x & y")
    assert "../../../x &amp; y" in page.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ood": [1.0], "id_score": SCORE}, "ood is a list; pass name → scores"),
        ({"val": [[0.5, 0.5]]}, r"val is not a pair; pass \(probs, labels\)"),
        ({"probs": [[0.5, 0.5], [1.0]]}, "probs has rows of different lengths"),
        ({"probs": [0.5, 0.5], "labels": [0, 1]}, r"probs is float64 of shape \(2,\); expected numbers \(n, classes\)"),
        ({"labels": 1}, "labels is 1; pass an array"),
        ({"near": "svhn", "ood": {"svhn": OUTSIDE}, "id_score": SCORE}, r"near is the text 'svhn'; pass a list"),
        ({"ood": {"../../x": OUTSIDE}, "id_score": SCORE}, "has a name that is none"),
    ],
)
def test_arguments_of_another_shape_are_named(arguments, said):
    with pytest.raises(volta.InputError, match=said):
        volta.evaluate(**{"probs": PROBS, "labels": LABELS} | arguments)


def test_what_cannot_be_compared_is_named():
    one = volta.evaluate(PROBS, LABELS)
    for given, said in (
        ([one, one], "evaluations is a list"),
        ({1: one, 2: one}, "a method called 1"),
        ({"a": one, "b": 3}, r"evaluations\['b'\] is a int"),
        ({"a": one, "b": [3]}, "something else than evaluations"),
    ):
        with pytest.raises(volta.InputError, match=said):
            volta.compare(given)


def test_the_sharper_of_two_calibrated_models_is_not_called_better_calibrated():
    random = np.random.default_rng(0)
    labels = random.integers(10, size=1000)

    def calibrated(confidence):
        right = random.random(1000) < confidence
        predicted = np.where(right, labels, (labels + 1 + random.integers(9, size=1000)) % 10)
        probs = np.repeat(((1 - confidence) / 9)[:, None], 10, axis=1)
        probs[np.arange(1000), predicted] = confidence
        return volta.evaluate(probs, labels)

    sharp, soft = calibrated(0.9 + 0.1 * random.random(1000) ** 0.3), calibrated(0.35 + 0.6 * random.random(1000))
    assert sharp.metrics["test"]["ece"] < soft.metrics["test"]["ece"] - 0.005
    pair = volta.compare({"sharp": sharp, "soft": soft}, n_resamples=200).pair("sharp", "soft", "ece")
    assert pair.verdict in ("inconclusive", "equivalent")
    assert "both within the range expected under perfect calibration: not ranked" in pair.note


def test_tensors_and_booleans_are_taken():
    torch = pytest.importorskip("torch")
    probs, labels = torch.tensor([[0.1, 0.9], [0.8, 0.2]], requires_grad=True), torch.tensor([True, False])
    assert volta.evaluate(probs, labels).metrics["test"]["accuracy"] == 1.0
    assert (
        volta.evaluate(logits=torch.tensor([[0.0, 2.0], [1.0, 0.0]]).bfloat16(), labels=labels).metrics["test"][
            "accuracy"
        ]
        == 1.0
    )


def test_rows_near_certainty_are_ordered_by_what_their_probabilities_hold():
    random = np.random.default_rng(0)
    gap = random.uniform(30, 60, 1000)
    right = random.random(1000) < 1 / (1 + np.exp(-(gap - 40) / 3))
    logits, labels = np.stack([gap, np.zeros(1000), np.zeros(1000)], axis=1), np.where(right, 0, 1)
    found = volta.evaluate(logits=logits, labels=labels).metrics
    assert found["test"]["aurc"] == pytest.approx(found["test+msp"]["aurc"], rel=1e-9)
    exponentials = np.exp(logits - gap[:, None])
    probs = exponentials / exponentials.sum(axis=1, keepdims=True)
    assert volta.evaluate(probs, labels).metrics["test"]["aurc"] == pytest.approx(found["test"]["aurc"], rel=1e-9)
