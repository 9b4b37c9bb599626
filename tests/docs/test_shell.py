"""The commands and the first example that users read are run as they are printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from volta.cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "shell.md").read_text(encoding="utf-8")


def block(text: str, heading: str, kind: str) -> str:
    """Return the first code block below a heading."""
    part = text[text.index(heading) :]
    return re.search(rf"```{kind}\n(.*?)```", part, re.DOTALL).group(1)


NUMBER = re.compile(r"\d+(?:\.\d+)?")


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]


def run_line(line: str) -> None:
    """Run a printed command in the current folder: ours in this process, others in a shell."""
    if line.startswith("volta "):
        done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output, done.exception)
    else:
        words = line.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
        subprocess.run(words, shell=True, check=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# slow: as the commands of README, and more of them
@pytest.mark.slow
def test_the_pages_commands_work_as_printed(folder):
    pytest.importorskip("onnx")
    for line in block(PAGE, "# A model", "console").splitlines():
        run_line(line)
    made = {"predicted.csv", "decided.parquet", "model.onnx", "model-card.html", "model-card.md"}
    assert made <= {path.name for path in folder.iterdir()}


# Over two seconds: it is what users see first, and it is run whole: a fit, a save and an export.
def test_the_readmes_first_example_runs_as_printed(folder, capsys):
    pytest.importorskip("onnx")
    code, printed = (block(README, "## On your own features", kind) for kind in ("python", "text"))
    assert len(code.splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    assert NUMBER.sub("#", said) == NUMBER.sub("#", printed)
    # Processors round differently; the page has three digits.
    np.testing.assert_allclose(numbers(said), numbers(printed), rtol=0.05)
    assert {"model.safetensors", "model.onnx"} <= {path.name for path in folder.iterdir()}
