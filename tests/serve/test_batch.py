"""Folders of tables: the same decisions as file by file, resumed, in processes, on Ray."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from volta import VoltaClassifier
from volta.cli.main import app
from volta.core.errors import InputError
from volta.serve.batch import Failure, decide_folder, folder_job, summary_lines

from .conftest import COLUMNS, make_rows


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    (place / "day=2").mkdir(parents=True)
    for k, name in enumerate(("a.parquet", "b.csv", "day=2/a.parquet")):
        rows, labels = make_rows(40 + k, 20 + k)
        table = pd.DataFrame(rows, columns=COLUMNS).assign(tree=labels, key=range(40 + k))
        (table.to_csv if name.endswith("csv") else table.to_parquet)(place / name, index=False)
    return place


def job_of(model_path, **options):
    given = {"alpha": 0.1, "fpr": 0.05, "policy": {}, "label": "tree", "ids": ("key",)}
    return folder_job(model_path, **given | options)


def test_every_file_is_decided_as_by_itself(folder, model_path, tmp_path):
    out = tmp_path / "out"
    records = list(decide_folder(folder, out, job_of(model_path)))
    assert [(one.name, one.rows) for one in records] == [("a.parquet", 40), ("b.csv", 41), ("day=2/a.parquet", 42)]
    classifier = VoltaClassifier.load(model_path)
    for name in ("a.parquet", "b.csv", "day=2/a.parquet"):
        read = pd.read_csv if name.endswith("csv") else pd.read_parquet
        given, found = read(folder / name), read(out / name)
        expected = classifier.decide(given[COLUMNS])
        assert found["pvalue"].tolist() == expected.pvalue.tolist()
        assert found["label"].tolist() == expected.label.tolist()
        assert found["key"].tolist() == given["key"].tolist()
    total = pd.read_csv(out / "summary.csv")
    assert total["rows"].tolist() == [40, 41, 42]
    assert (total["answer"] + total["abstain"] + total["ood"]).tolist() == [40, 41, 42]
    lines = summary_lines(records, 1.0)
    assert lines[0].startswith("123 rows in 3 files: ")
    assert "wrong" in lines[-1]


def test_finished_files_are_kept(folder, model_path, tmp_path):
    out = tmp_path / "out"
    first = list(decide_folder(folder, out, job_of(model_path)))
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    (out / "b.csv").unlink()
    again = list(decide_folder(folder, out, job_of(model_path)))
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == times
    assert sorted(one.rows for one in again) == sorted(one.rows for one in first)
    assert (out / "b.csv").exists()


def test_results_of_other_settings_are_not_replaced_unasked(folder, model_path, tmp_path):
    out = tmp_path / "out"
    list(decide_folder(folder, out, job_of(model_path)))
    other = job_of(model_path, fpr=0.2)
    with pytest.raises(InputError, match=r"a\.parquet exists and is from another model, other settings"):
        list(decide_folder(folder, out, other))
    assert sum(one.actions[2] for one in decide_folder(folder, out, other, force=True)) > 0
    (out / ".volta" / "b.csv.json").unlink()
    with pytest.raises(InputError, match="is from no volta decide"):
        list(decide_folder(folder, out, other))


def test_a_file_that_cannot_be_read_fails_alone(folder, model_path, tmp_path):
    (folder / "b.csv").write_text("length,width\n1,2\n")
    records = list(decide_folder(folder, tmp_path / "out", job_of(model_path, label=None, ids=("key", "tree"))))
    assert [one.name for one in records if isinstance(one, Failure)] == ["b.csv"]
    assert not (tmp_path / "out" / "b.csv").exists()
    assert summary_lines(records, 1.0)[0].startswith("failed: b.csv: ")


def test_labels_that_are_numbers_count_whatever_their_type(tmp_path):
    rows, names = make_rows(200, 30)
    labels = np.unique(names, return_inverse=True)[1]
    VoltaClassifier("linear").fit(pd.DataFrame(rows, columns=COLUMNS), labels).save(tmp_path / "m.safetensors")
    (tmp_path / "data").mkdir()
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.assign(tree=labels.astype(np.float64)).to_parquet(tmp_path / "data" / "a.parquet")
    table.assign(tree=labels).to_csv(tmp_path / "data" / "b.csv", index=False)
    job = job_of(tmp_path / "m.safetensors", ids=())
    one, two = decide_folder(tmp_path / "data", tmp_path / "out", job)
    assert one.n_labelled == two.n_labelled > 100
    assert one.n_errors == two.n_errors < 40


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda folder: folder / "out", "is in the folder that is read"),
        (lambda folder: (folder / "b.csv.gz").touch() or folder.parent / "out", "would have one name"),
    ],
)
def test_folders_that_cannot_be(folder, model_path, make, problem):
    with pytest.raises(InputError, match=problem):
        list(decide_folder(folder, make(folder), job_of(model_path)))


def test_the_command_takes_a_folder(folder, model_path, tmp_path):
    words = ["decide", model_path, folder, "--out", tmp_path / "out", "--label", "tree", "--id", "key", "--workers", 1]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "123 rows in 3 files" in done.output
    done = CliRunner().invoke(app, [*(str(word) for word in words), "--fdr", "0.1"])
    assert "which bounds the flags of one file" in str(done.exception)
    (folder / "b.csv").write_text("length,width\n1,2\n")
    done = CliRunner().invoke(app, [*(str(word) for word in words), "--force"])
    assert (done.exit_code, "failed: b.csv" in done.output) == (2, True)


@pytest.mark.slow  # starts processes
def test_processes_give_the_same(folder, model_path, tmp_path):
    alone = list(decide_folder(folder, tmp_path / "one", job_of(model_path)))
    several = list(decide_folder(folder, tmp_path / "two", job_of(model_path), workers=2))
    assert sorted((one.name, one.actions, one.pvalues) for one in several) == sorted(
        (one.name, one.actions, one.pvalues) for one in alone
    )


@pytest.mark.ray
@pytest.mark.slow  # starts a cluster
def test_ray_gives_the_same_with_one_load_an_actor_and_resumes(folder, model_path, tmp_path):
    ray = pytest.importorskip("ray")
    alone = list(decide_folder(folder, tmp_path / "one", job_of(model_path)))
    model, out = tmp_path / "copy.safetensors", tmp_path / "two"
    model.write_bytes(model_path.read_bytes())
    job = job_of(model)
    try:
        found = []
        for record in decide_folder(folder, out, job, executor="ray"):
            # An actor that read the model for each file would find none.
            model.unlink(missing_ok=True)
            found.append(record)
        model.write_bytes(model_path.read_bytes())
        times = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
        (out / "b.csv").unlink()
        again = list(decide_folder(folder, out, job, executor="ray"))
    finally:
        ray.shutdown()
    for several in (found, again):
        assert sorted((one.name, one.actions, one.pvalues) for one in several) == sorted(
            (one.name, one.actions, one.pvalues) for one in alone
        )
    assert (out / "b.csv").exists()
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == times
