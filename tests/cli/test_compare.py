"""``volta compare``: its options, and what it prints or writes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.report.synthetic import Plan, write_run
from volta.cli.main import app
from volta.core.errors import InputError


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    write_run(folder / "a", Plan(n_rows=60))
    write_run(folder / "b", Plan(n_rows=60, salt=1))
    return str(folder / "a"), str(folder / "b")


def test_text_goes_to_the_terminal(runs):
    done = CliRunner().invoke(app, ["compare", *runs, "--metric", "accuracy,ece"])
    assert done.exit_code == 0
    assert "compared values differ" in done.stdout
    assert "ECE" in done.stdout
    assert "NLL" not in done.stdout


def test_csv_and_markdown_go_to_a_file(runs, tmp_path):
    for name, begins in (("csv", "task,protocol,method,set,metric,n,"), ("markdown", "# ")):
        out = tmp_path / name
        done = CliRunner().invoke(app, ["compare", *runs, "--metric", "ece", "--format", name, "--out", str(out)])
        assert done.stdout.strip() == f"comparison: {out}"
        assert out.read_text(encoding="utf-8").startswith(begins)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv").read_text(encoding="utf-8"))))
    assert {(row["metric"], row["n"]) for row in rows} == {("ece", "3")}


def test_what_is_there_stays_unless_forced_and_files_of_runs_stay(runs, tmp_path):
    out = tmp_path / "changes.txt"
    out.write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(app, ["compare", *runs, "--out", str(out)])
    assert "which exists; name another file, or pass --force" in str(done.exception)
    assert out.read_text(encoding="utf-8") == "mine"
    assert CliRunner().invoke(app, ["compare", *runs, "--out", str(out), "--force"]).exit_code == 0
    manifest = Path(runs[1]) / "manifest.json"
    before = manifest.read_bytes()
    done = CliRunner().invoke(app, ["compare", *runs, "--out", str(manifest), "--force"])
    assert "a file in a run folder, where none is replaced" in str(done.exception)
    done = CliRunner().invoke(app, ["leaderboard", *runs, "--out", runs[0]])
    assert "a run folder, which has its own leaderboard.csv" in str(done.exception)
    assert manifest.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "pdf"], "--format is 'pdf'; pass one of text, markdown, csv"),
        (["--metric", "f1"], "there is no metric 'f1'"),
        (["--metric", "signed_ce"], "has no better direction"),
    ],
)
def test_what_cannot_be_done_is_refused(runs, options, words):
    done = CliRunner().invoke(app, ["compare", *runs, *options])
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
