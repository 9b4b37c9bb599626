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
from volta.cli.main import app, main
from volta.cli.runs import status
from volta.cli.terminal import echo, printable


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
