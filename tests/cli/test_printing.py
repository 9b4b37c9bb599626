"""Names out of files are printed as text: none of them commands the terminal."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import volta.cli
from tests.bench.running import edit_manifest
from tests.stats.builders import make_store
from volta.bench.progress import _Pace
from volta.bench.store import RECORD
from volta.cli.main import app, main
from volta.cli.runs import status
from volta.cli.terminal import echo, printable
from volta.core.errors import InputError
from volta.methods.registry import METHODS, SUMMARIES, summary_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("naïve café – 猫\tdog\n", "naïve café – 猫\tdog\n"),
        ("a\x1b]0;window\x07", r"a\x1b]0;window\x07"),
        ("a\x9b2Jb\x7f", r"a\x9b2Jb\x7f"),
        ("over\rwritten", r"over\rwritten"),
        ("evil\u202egnp.exe", r"evil\u202egnp.exe"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_commands_a_terminal_is_written_as_an_escape(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printable(text) == shown
    echo(text, nl=False)
    assert capsys.readouterr().out == shown


def test_every_command_prints_through_it() -> None:
    files = sorted(Path(volta.cli.__file__).parent.glob("*.py"))
    assert len(files) > 5
    assert [path.name for path in files if "typer.echo" in path.read_text(encoding="utf-8")] == ["terminal.py"]


def test_a_stranger_s_names_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "run", {"volta": 3.0}, seeds=(1,))

    def rename(manifest: dict[str, Any]) -> None:
        for cell in manifest["cells"]:
            cell["method"] = "soft\x1b[2Jmax"

    edit_manifest(store.root, rename)
    (cell,) = store.cells()
    store.write_failure(cell, "it failed")
    status(store.root)
    assert r"soft\x1b[2Jmax" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("command", ["methods", "metrics"])
def test_letters_that_a_terminal_lacks_end_nothing(
    command: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "argv", ["volta", command])
    with redirect_stdout(terminal), pytest.raises(SystemExit) as end:
        main()
    terminal.flush()
    assert not end.value.code
    assert len(terminal.buffer.getvalue().splitlines()) > 10


def test_methods_are_listed_by_what_they_need() -> None:
    found = CliRunner().invoke(app, ["methods", "--needs", "last-layer"]).output
    assert "vim" in found
    assert "knn" not in found
    assert "volta-full" not in found
    assert CliRunner().invoke(app, ["methods", "--needs", "images"]).exit_code == 2


def test_methods_stand_in_groups_with_a_line_each() -> None:
    found = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"}).output
    titles = ("VOLTA", "Baselines of the paper", "Extras, in every standard run", "More, with --methods all or by name")
    assert [line for line in found.splitlines() if line in titles] == list(titles)
    assert "one temperature, fitted by validation NLL" in found
    assert set(SUMMARIES) <= set(METHODS)
    assert all(map(summary_of, METHODS))
    assert max(map(len, SUMMARIES.values())) <= 60


def test_one_metric_is_explained() -> None:
    found = CliRunner().invoke(app, ["metrics", "aurc"]).output
    assert found.startswith("aurc ↓  AURC\n    formula: (1/n)")
    assert "margin: 0.005" in found
    with pytest.raises(InputError, match=r"no metric 'auce'; did you mean .*aurc.* \(see: volta metrics\)"):
        CliRunner().invoke(app, ["metrics", "auce"], catch_exceptions=False)


def test_status_names_failures_time_left_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "run", {"volta": 3.0, "softmax": 2.0}, seeds=(1, 2))
    status(store.root)
    assert capsys.readouterr().out.endswith(f"report: none yet; make it with: volta report {store.root}\n")
    failed = next(iter(store.cells()))
    store.cell_file(failed, RECORD).unlink()
    status(store.root)
    assert "(from 3 cells measured)" in capsys.readouterr().out
    store.write_failure(failed, "it failed")
    (store.root / "report.html").touch()
    status(store.root)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 done, 0 running, 1 failed, 0 waiting"
    assert lines[1].startswith(f"failed   {failed.label}")
    assert lines[-1] == f"report: {store.root / 'report.html'}"


def test_time_left_is_told_after_ten_cells() -> None:
    pace = _Pace(20)
    told = []
    for _ in range(11):
        pace.advance()
        told.append(bool(pace.left))
    assert told == [False] * 9 + [True] * 2
