"""Metrics of other code are computed again from predictions; what was measured, and what is up to date, stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.stats.builders import make_store
from volta.bench.cell_metrics import TEST
from volta.bench.records import scoring_fingerprint
from volta.bench.store import RECORD, current_records, recompute
from volta.core.errors import StoreError
from volta.report.run import load_run
from volta.stats.results import load_tables


@pytest.fixture
def store(tmp_path):
    """A run of two cells, the first of which was scored by other code, with a wrong accuracy and a measured cost."""
    store = make_store(tmp_path / "run", {"volta": 3.0, "energy": 1.0}, seeds=(1,))
    recompute(store)
    record = store.records()[0]
    metrics = {**record.metrics, TEST: {**record.test, "accuracy": 0.0, "latency_ms": 7.0}}
    store.replace_record(
        replace(record, metrics=metrics, fingerprints=replace(record.fingerprints, scoring="other code"))
    )
    return store


def test_what_other_code_scored_is_scored_again_once(store):
    said = []
    first, second = current_records(store, store.cells(), said.append)
    assert said == ["the code of metrics has changed: computing those of 1 cells again from their stored predictions"]
    assert first.test["accuracy"] > 0.5
    assert first.test["latency_ms"] == 7.0
    assert first.fingerprints.scoring == second.fingerprints.scoring == scoring_fingerprint()
    assert (first.fingerprints.training, first.fingerprints.method) == ("training", "method")
    assert [first, second] == store.records()
    before = [(store.folder("cells") / cell.folder / RECORD).stat().st_mtime_ns for cell in store.cells()]
    assert current_records(store, store.cells(), said.append) == [first, second]
    assert len(said) == 1
    assert [(store.folder("cells") / cell.folder / RECORD).stat().st_mtime_ns for cell in store.cells()] == before


def test_reports_and_statistics_see_the_new_values(store):
    said = []
    assert load_run(store, said.append).groups[0].values("volta", "accuracy")[0] > 0.5
    assert len(said) == 1


def test_statistics_see_the_new_values(store):
    assert load_tables(store)[0].of("volta", "test", "accuracy")[1] > 0.5


def test_asking_tells_what_changed(store):
    assert [cell.method for cell in recompute(store)] == ["volta"]
    assert recompute(store) == []


def test_a_folder_that_cannot_be_written_says_what_to_do(store, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("volta.bench.store.write_object", refuse)
    with pytest.raises(StoreError, match=r"cannot be written: Permission denied; make the folder writable"):
        current_records(store, store.cells())
