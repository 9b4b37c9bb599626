import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volta import metrics
from volta.core.errors import InputError

from .strategies import predictions
from .test_scoring import softmax_sample

TEST = [n for n, m in metrics.METRICS.items() if m.family in ("prediction", "calibration", "selective")]
CONFORMAL = [n for n, m in metrics.METRICS.items() if m.family == "conformal"]
OOD = [n for n, m in metrics.METRICS.items() if m.family == "ood"]


def quiet_report(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics.FlooredProbabilityWarning)
        return metrics.report(*args, **kwargs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_samples", "n_classes"), [(1, 3), (40_000, 10), (600, 300)])
def test_equals_the_single_functions(n_samples, n_classes, dtype):
    probs, labels = softmax_sample(n_samples, n_classes, seed=8, dtype=dtype)
    rng = np.random.default_rng(0)
    uncertainty = 1 - probs.max(axis=1)
    id_scores = rng.standard_normal(n_samples)
    ood = {"near": rng.standard_normal(50) + 1, "far": rng.standard_normal(70) + 3}
    sets = probs > 0.2
    result = metrics.report(probs, labels, uncertainty, ood, id_ood_score=id_scores, sets=sets)
    assert list(result) == ["test", "ood:near", "ood:far"]
    assert list(result["test"]) == TEST + CONFORMAL
    assert list(result["ood:near"]) == OOD
    given_arguments = {
        "probs": probs,
        "labels": labels,
        "uncertainty": uncertainty,
        "correct": probs.argmax(axis=1) == labels,
        "sets": sets,
        "id_scores": id_scores,
    }
    for name in TEST + CONFORMAL + OOD:
        metric = metrics.METRICS[name]
        if name in OOD:
            for data, scores in ood.items():
                expected = metric.function(*((given_arguments | {"ood_scores": scores})[need] for need in metric.needs))
                assert result[f"ood:{data}"][name] == pytest.approx(expected, abs=1e-14), name
        else:
            expected = float(metric.function(*(given_arguments[need] for need in metric.needs)))
            assert result["test"][name] == pytest.approx(expected, abs=1e-14), name
    assert all(type(value) is float for values in result.values() for value in values.values())


def test_near_and_far_hold_the_means_over_their_sets():
    probs, labels = softmax_sample(200, 3, seed=1)
    rng = np.random.default_rng(0)
    uncertainty = 1 - probs.max(axis=1)
    ood = {name: rng.random(30) + shift for name, shift in (("a", 0.0), ("b", 0.2), ("c", 0.4))}
    result = metrics.report(probs, labels, uncertainty, ood, near=["c", "a"])
    assert list(result) == ["test", "ood:a", "ood:b", "ood:c", "near:", "far:"]
    assert list(result["near:"]) == OOD
    for name in OOD:
        mean = (result["ood:a"][name] + result["ood:c"][name]) / 2
        assert result["near:"][name] == pytest.approx(mean, abs=1e-15)
        assert result["far:"][name] == result["ood:b"][name]
    assert list(metrics.report(probs, labels, uncertainty, ood, near=[])) == ["test", "ood:a", "ood:b", "ood:c", "far:"]
    assert "far:" not in metrics.report(probs, labels, uncertainty, ood, near={"a", "b", "c"})
    assert list(metrics.report(probs, labels, uncertainty, near=())) == ["test"]
    assert not {"near:", "far:"} & set(metrics.report(probs, labels, uncertainty, ood))


@pytest.mark.parametrize("variant", ["test+T", "test+msp"])
def test_only_the_metrics_of_a_variant_are_computed(variant):
    probs, labels = softmax_sample(200, 3, seed=1)
    uncertainty = 1 - probs.max(axis=1)
    names = [name for name, metric in metrics.METRICS.items() if variant in metric.variants]
    found = metrics.report(probs, labels, uncertainty, only=names)
    every = metrics.report(probs, labels, uncertainty)
    assert found == {"test": {name: every["test"][name] for name in names}}


def test_only_of_an_ood_set():
    probs, labels = softmax_sample(50, 3, seed=0)
    result = metrics.report(probs, labels, probs[:, 0], {"a": [0.5]}, near=["a"], only=["auroc"])
    value = metrics.auroc(probs[:, 0], [0.5])
    assert result == {"test": {}, "ood:a": {"auroc": value}, "near:": {"auroc": value}}


def test_uncertainty_is_the_default_ood_score_and_sets_are_optional():
    probs, labels = softmax_sample(50, 3, seed=0)
    uncertainty = 1 - probs.max(axis=1)
    result = metrics.report(probs, labels, uncertainty, ood={"svhn": [0.5, 0.6]})
    assert result["ood:svhn"]["auroc"] == metrics.auroc(uncertainty, [0.5, 0.6])
    assert list(result["test"]) == TEST
    assert list(metrics.report(probs, labels, uncertainty)) == ["test"]


@given(predictions(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(case, random):
    probs, labels = case
    uncertainty = 1 - probs.max(axis=1)
    order = list(range(len(labels)))
    random.shuffle(order)
    first = quiet_report(probs, labels, uncertainty, {"x": [0.2, 0.7]})
    second = quiet_report(probs[order], labels[order], uncertainty[order], {"x": [0.7, 0.2]})
    for key, values in first.items():
        assert second[key] == pytest.approx(values, abs=1e-12)


@given(predictions())
def test_repeating_every_row_changes_no_mean(case):
    probs, labels = case
    uncertainty = 1 - probs.max(axis=1)
    first = quiet_report(probs, labels, uncertainty)["test"]
    second = quiet_report(np.repeat(probs, 3, 0), np.repeat(labels, 3), np.repeat(uncertainty, 3))["test"]
    for name in TEST:
        # The debiased error takes off less variance the more rows there are, and the expected ECE falls.
        if metrics.METRICS[name].family != "selective" and name != "ece_debiased" and "expected" not in name:
            assert second[name] == pytest.approx(first[name], abs=1e-12), name


@given(predictions(), st.randoms(use_true_random=False))
def test_naming_classes_otherwise_changes_nothing_without_ties(case, random):
    probs, labels = case
    names = list(range(probs.shape[1]))
    random.shuffle(names)
    at_top = probs == probs.max(axis=1, keepdims=True)
    keep = at_top.sum(axis=1) == 1
    if not keep.any():
        return
    probs, labels = probs[keep], labels[keep]
    first = quiet_report(probs, labels, probs.max(axis=1))["test"]
    second = quiet_report(probs[:, names], np.argsort(names)[labels], probs.max(axis=1))["test"]
    assert second == pytest.approx(first, abs=1e-12)


def test_every_value_is_finite_in_degenerate_cases():
    for probs, labels in (
        (np.eye(2)[[0, 0]], [0, 0]),
        (np.eye(2)[[1]], [0]),
        (np.full((3, 4), 0.25), [3, 3, 3]),
        (np.ones((2, 1)), [0, 0]),
    ):
        result = quiet_report(probs, labels, np.full(len(probs), np.inf), {"a": [np.inf]}, sets=probs > 0.5)
        assert all(np.isfinite(value) for values in result.values() for value in values.values())


def test_names_the_bad_argument():
    probs, labels, uncertainty = np.full((3, 2), 0.5), [0, 1, 0], [0.1, 0.2, 0.3]
    with pytest.raises(InputError, match="uncertainty has 2 rows but probs has 3"):
        metrics.report(probs, labels, uncertainty[:2])
    with pytest.raises(InputError, match="id_ood_score has 1 rows but probs has 3"):
        metrics.report(probs, labels, uncertainty, id_ood_score=[0.1])
    with pytest.raises(InputError, match=r"ood\['svhn'\] row 1 is NaN"):
        metrics.report(probs, labels, uncertainty, ood={"svhn": [0.1, np.nan]})
    with pytest.raises(InputError, match="near holds 'cifar'; the OOD sets are: svhn"):
        metrics.report(probs, labels, uncertainty, ood={"svhn": [0.1]}, near=["cifar"])
    with pytest.raises(InputError, match=r"near is the string 'svhn'; pass a list of names, \['svhn'\]"):
        metrics.report(probs, labels, uncertainty, ood={"svhn": [0.1]}, near="svhn")
    with pytest.raises(InputError, match="only holds 'eces'; the metrics are: accuracy, nll"):
        metrics.report(probs, labels, uncertainty, only=["eces"])
    with pytest.raises(InputError, match="sets has 2 rows but probs has 3"):
        metrics.report(probs, labels, uncertainty, sets=np.ones((2, 2), dtype=bool))
    with pytest.raises(InputError, match="sets has 3 classes but probs has 2"):
        metrics.report(probs, labels, uncertainty, sets=np.ones((3, 3), dtype=bool))


@pytest.mark.parametrize(("n_samples", "n_classes"), [(400_000, 10), (20_000, 1000)])
def test_extra_memory_is_at_most_twice_the_input(n_samples, n_classes):
    probs, labels = softmax_sample(n_samples, n_classes, seed=0, dtype=np.float32)
    uncertainty = 1 - probs.max(axis=1).astype(np.float64)
    ood = {"a": uncertainty + 0.1}
    tracemalloc.start()
    metrics.report(probs, labels, uncertainty, ood)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * probs.nbytes


def test_inputs_are_left_as_they_were():
    probs, labels = softmax_sample(100, 4, seed=0)
    uncertainty = 1 - probs.max(axis=1)
    copies = probs.copy(), labels.copy(), uncertainty.copy()
    for array in (probs, labels, uncertainty):
        array.flags.writeable = False
    metrics.report(probs, labels, uncertainty, {"a": uncertainty})
    assert all(np.array_equal(a, b) for a, b in zip((probs, labels, uncertainty), copies, strict=True))


def test_importing_needs_numpy_alone():
    code = "import sys, volta.metrics; print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
