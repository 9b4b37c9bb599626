import csv

import pytest

from tests.report.synthetic import Plan, write_run
from tests.stats.builders import make_store
from volta import open_run
from volta.core.seeding import first_seeds
from volta.report.build import write_tables
from volta.report.statistics import compute_statistics, run_statistics, write_analyses
from volta.stats.bootstrap import paired_bootstrap
from volta.stats.results import load_tables
from volta.stats.sequential import InterimAnalysis, alpha_at
from volta.stats.weighted import row_scores

FILES = {
    *("summary.csv", "tests.csv", "pairs.csv", "leaderboard.csv", "ablation.csv"),
    *("corruptions.csv", "ranks.csv", "claims.csv"),
}


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "run", {"volta": 3.0, "energy": 1.0, "swag": 2.0, "volta-full": 2.5})


def test_a_run_folder_gets_its_tables_byte_for_byte_the_same(store):
    write_tables(store, run_statistics(store, load_tables(store), 100))
    paths = sorted(store.root.glob("*.csv"))
    assert {path.name for path in paths} == FILES
    first = [path.read_bytes() for path in paths]
    write_tables(store, run_statistics(store, load_tables(store), 100))
    assert [path.read_bytes() for path in paths] == first
    fields = {field for path in paths for row in csv.reader(path.read_text().splitlines()) for field in row}
    assert not fields & {"nan", "inf", "-inf", "None"}
    with (store.root / "tests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 6
    assert all(row["p"] and row["boot_low"] and row["boot_high"] and not row["note"] for row in rows)


def test_the_interval_is_that_of_the_stored_predictions(store):
    results = load_tables(store)[0]
    rows = {(row.metric, row.method): row for row in compute_statistics(store, load_tables(store), 64).tests}
    models = {}
    for method in ("volta", "energy", "swag"):
        loaded = [store.read_arrays(results.cells[method, seed]) for seed in results.seeds(method)]
        models[method] = [
            row_scores(a["test/probs"], a["test/labels"], a["test/ood_score"], {"ood:near": a["ood:near/ood_score"]})
            for a in loaded
        ]
    direct = paired_bootstrap(models, 64)
    for metric, eval_set in (("ece", "test"), ("auroc", "ood:near")):
        row = rows[metric, "energy"]
        low, high = direct.row_spread(metric, eval_set, "volta", "energy").interval
        assert (row.boot_low, row.boot_high) == pytest.approx((low, high), abs=1e-12)
        observed = direct.observed[metric, eval_set]
        differences = [observed["volta"][index] - observed["energy"][index] for index in range(3)]
        assert row.difference == pytest.approx(sum(differences) / 3, abs=1e-12)


def test_verdicts_of_a_run_that_has_interim_analyses_are_at_the_level_of_the_last(tmp_path):
    methods = (("volta", "VOLTA", "volta"), ("energy", "Energy", "paper"), ("volta-full", "Full", "ablation"))
    store = write_run(tmp_path / "run", Plan(methods=methods, seeds=first_seeds(5), n_rows=60))
    plain = run_statistics(store, load_tables(store), 0)
    write_analyses(store, (5, 10), InterimAnalysis(5, alpha_at(5, (5, 10)), 10, (), (), {}))
    looked = run_statistics(store, load_tables(store), 0)
    assert plain.alpha == 0.05
    assert looked.alpha == alpha_at(5, (5, 10)) < 0.05
    assert [row.p for row in looked.ablation] == [row.p for row in plain.ablation] != []
    for stats in (plain, looked):
        for row in (*stats.tests, *stats.ablation):
            if row.verdict in ("better", "worse"):
                assert row.p_holm < stats.alpha
    assert open_run(store.root).tests().column("verdict") == tuple(row.verdict for row in looked.tests)


def test_without_resamples_the_note_says_so(store):
    rows = compute_statistics(store, load_tables(store), 0).tests
    assert {row.note for row in rows} == {"rows not resampled: no bootstrap was asked for"}
    assert {row.boot_low for row in rows} == {None}


def test_a_cell_without_predictions_loses_interval_and_test(store):
    cell = load_tables(store)[0].cells["swag", 42]
    (store.folder("cells") / cell.folder / "predictions.npz").unlink()
    rows = {(row.metric, row.method): row for row in compute_statistics(store, load_tables(store), 20).tests}
    assert rows["ece", "swag"].boot_low is None
    assert rows["ece", "swag"].note == "rows not resampled: no stored predictions for this pair and set"
    assert rows["ece", "swag"].p is None
    assert rows["ece", "swag"].p_welch is not None
    assert rows["ece", "swag"].verdict == "inconclusive"
    assert rows["ece", "energy"].boot_low is not None
