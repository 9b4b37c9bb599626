"""The examples of the page on external predictions are run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from volta.methods.calibrators import CALIBRATORS

PAGE = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return code


# slow: every line is a process; tests/cli runs the same commands in one
@pytest.mark.slow
def test_ten_lines_of_shell_lead_from_a_csv_to_a_report(tmp_path):
    code = block("sh")
    assert len(code.splitlines()) <= 10
    script = f'volta() {{ "{sys.executable}" -m volta "$@"; }}\nset -e\n{code}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("report: runs/mine/report.html")
    assert (tmp_path / "runs/mine/report.html").stat().st_size > 10_000
    assert (tmp_path / "runs/mine/leaderboard.csv").is_file()


def test_ten_lines_of_python_lead_from_arrays_to_a_report(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    code = block("python")
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) - 2 <= 10, "the last two lines compare, which is beyond the report"
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "evaluate.md", "exec"), {})
    assert capsys.readouterr().out.strip().endswith(("better", "worse"))
    assert (tmp_path / "out.html").stat().st_size > 10_000


def test_every_calibrator_is_named():
    section = PAGE.partition("## Calibrate")[2]
    for name in CALIBRATORS:
        assert f"`{name}`" in section
