"""The page's ten lines of Python and of shell are run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.bench.running import ENVIRONMENT

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")


def run(command, folder):
    path = os.pathsep.join(str(Path(part).resolve()) for part in ENVIRONMENT.get("PYTHONPATH", "").split(os.pathsep))
    environment = {**ENVIRONMENT, "PYTHONPATH": path, "VOLTA_DATA": str(folder / "data")}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# slow: nine cells in worker processes and a whole report
@pytest.mark.slow
def test_ten_lines_of_python_from_arrays_to_a_report(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    said = run([sys.executable, "script.py"], tmp_path)
    assert "9 cells: 0 done already, 9 to run" in said
    report = tmp_path / said.strip().splitlines()[-1]
    assert "wine" in report.read_text(encoding="utf-8")
    assert (tmp_path / "runs" / "wine" / "leaderboard.csv").is_file()


@pytest.mark.slow
def test_ten_lines_of_shell_from_a_csv_to_a_report(tmp_path):
    random = np.random.default_rng(0)
    labels = np.arange(150) % 3
    rows = random.normal(size=(150, 4)) + 2.0 * labels[:, None]
    names = np.array(["iris", "rose", "tulip"])[labels]
    header, lines = "a,b,c,d", [",".join(map(repr, row.tolist())) for row in rows]
    (tmp_path / "flowers.csv").write_text(
        "\n".join([f"{header},species", *(f"{line},{name}" for line, name in zip(lines, names, strict=True))])
    )
    far = [",".join(map(repr, row.tolist())) for row in rows[:60] + 40.0]
    (tmp_path / "other.csv").write_text("\n".join([header, *far]))
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [shlex.split(line) for line in block.splitlines() if line.strip()]
    assert len(commands) <= 10
    for command in commands:
        assert command[0] == "volta"
        said = run([sys.executable, "-m", *command], tmp_path)
    assert (tmp_path / "runs" / "flowers" / "report.html").is_file()
    both = (tmp_path / "runs" / "both" / "report.html").read_text(encoding="utf-8")
    assert "Across tasks" in both
    assert "leaderboard: leaderboard/leaderboard.html" in said


@pytest.mark.parametrize("name", ["volta.methods", "volta.metrics", "volta.tasks", "volta.backbones"])
def test_the_page_on_plugins_has_the_examples_entry_points(name):
    root = Path(__file__).parents[2]
    example = (root / "examples" / "plugin" / "pyproject.toml").read_text(encoding="utf-8")
    page = (root / "docs" / "plugins.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf'\[project\.entry-points\."{re.escape(name)}"\]\n(.*)\n', example)
    assert section in page
