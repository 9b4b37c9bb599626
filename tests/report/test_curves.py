from __future__ import annotations

import numpy as np
import pytest

from volta.report.curves import CURVE_POINTS, HISTOGRAM_BINS, CurveCollector, histogram_edges
from volta.report.run import load_run

from .synthetic import Plan, write_run


def read_curves(store, group):
    collector = CurveCollector(group)
    for record in group.records.values():
        collector.add(record, store.arrays_of(record))
    return collector.numbers()


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory):
    store = write_run(tmp_path_factory.mktemp("curves") / "run", Plan(seeds=(7,), n_rows=300))
    group = load_run(store).groups[0]
    return group, read_curves(store, group)


def test_bins_give_back_the_stored_ece_on_every_set(one_seed):
    group, curves = one_seed
    assert set(curves.bins) == {"test", "shift:noise-1", "shift:noise-3", "shift:blur-1", "shift:blur-3"}
    for name, by_method in curves.bins.items():
        for method, bins in by_method.items():
            ece = np.sum(bins.count * np.abs(bins.accuracy - bins.confidence)) / bins.count.sum()
            key = "ece" if name == "test" else f"ece@{name}"
            assert ece == pytest.approx(group.values(method, key)[0], abs=1e-12)
            assert bins.ece == pytest.approx(ece, abs=1e-12)


def test_risk_curve_ends_at_the_error_rate_and_has_the_area_of_aurc(one_seed):
    group, curves = one_seed
    for method, curve in curves.curves.items():
        assert len(curve.x) == CURVE_POINTS
        assert curve.mean[-1] == pytest.approx(1 - group.values(method, "accuracy")[0])
        assert np.trapezoid(curve.mean, curve.x) == pytest.approx(group.values(method, "aurc")[0], abs=2e-3)


def test_seeds_are_pooled_and_the_band_holds_the_mean(folder):
    store = write_run(folder, Plan(n_rows=100))
    curves = read_curves(store, load_run(store).groups[0])
    assert curves.bins["test"]["volta"].count.sum() == 300
    curve = curves.curves["volta"]
    assert len(curve.x) == 100
    assert np.all(curve.low <= curve.mean + 1e-15)
    assert np.all(curve.mean <= curve.high + 1e-15)


def test_histogram_shares_sum_to_one_and_carry_auroc(one_seed):
    group, curves = one_seed
    histogram = curves.histograms["volta", 7]
    assert set(histogram.shares) == {"test", "ood:near_set", "ood:noise"}
    for shares in histogram.shares.values():
        assert len(shares) == HISTOGRAM_BINS
        assert shares.sum() == pytest.approx(1)
    assert histogram.auroc["ood:noise"] == group.values("volta", "auroc@ood:noise")[0]


def test_long_tails_are_compressed_and_nothing_falls_outside():
    rng = np.random.default_rng(0)
    scores = {"test": rng.normal(size=500), "ood:far": 1e6 * rng.exponential(size=500)}
    edges = histogram_edges(scores)
    assert np.all(np.diff(edges) > 0)
    inside, _ = np.histogram(scores["test"], edges)
    assert (inside > 0).sum() > 5


@pytest.mark.parametrize("constant", [0.0, 5.0])
def test_constant_scores_still_have_bins(constant):
    edges = histogram_edges({"test": np.full(5, constant), "ood:x": np.full(5, constant)})
    assert edges[0] < constant < edges[-1]


def test_infinite_scores_do_not_break_the_bins():
    edges = histogram_edges({"test": np.array([0.0, 1.0]), "ood:x": np.array([np.inf, 2.0])})
    assert np.isfinite(edges).all()


def test_roc_and_precision_recall_have_the_areas_of_the_records(one_seed):
    group, curves = one_seed
    assert set(curves.roc) == set(curves.precision_recall) == {"ood:near_set", "ood:noise"}
    for by_set, metric in ((curves.roc, "auroc"), (curves.precision_recall, "aupr_out")):
        for name, by_method in by_set.items():
            for method, curve in by_method.items():
                assert curve.area == group.values(method, f"{metric}@{name}")[0]
                assert np.trapezoid(curve.mean, curve.x) == pytest.approx(curve.area, abs=0.01)
    assert np.all(np.diff(curves.roc["ood:noise"]["volta"].mean) >= 0)
    assert curves.roc["ood:noise"]["volta"].mean[-1] == 1


def test_validation_predictions_are_no_set_of_a_figure(folder):
    store = write_run(folder, Plan(seeds=(1,), variants=True))
    assert set(read_curves(store, load_run(store).groups[0]).bins) == {
        "test",
        *(f"shift:{name}" for name in Plan().shifts),
    }


def test_a_task_without_ood_sets_has_no_histograms(folder):
    store = write_run(folder, Plan(ood=(), seeds=(1,)))
    assert read_curves(store, load_run(store).groups[0]).histograms == {}


def test_the_largest_numbers_there_are_do_not_stretch_the_bins():
    scores = {"test": np.linspace(0.0, 1.0, 200), "ood:x": np.r_[np.ones(90), np.full(10, np.finfo(float).max)]}
    edges = histogram_edges(scores)
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0).all()
    assert edges[-1] < 10.0
