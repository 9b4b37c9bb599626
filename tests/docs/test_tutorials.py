"""Every tutorial's code is run as it is printed, and the example scripts are that code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, run_page

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOK = "own-features"
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8")))


def page(name):
    marks = [pytest.mark.ray] if name == "ray" else []
    return pytest.param(name, marks=marks)


def test_there_are_nine():
    assert len(PAGES) == 9


@pytest.mark.parametrize("name", [page(name) for name in PAGES if name != NOTEBOOK])
@pytest.mark.filterwarnings("ignore::volta.methods.scaling.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::volta.estimators.calibration.TooFewRowsWarning")
def test_the_tutorial_runs_as_printed(name, tmp_path, monkeypatch):
    if name == "ray":
        pytest.importorskip("ray", reason="needs the ray extra: pip install 'volta-uq[ray]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("VOLTA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "cache"))
    modules = set(sys.modules)
    try:
        run_page(TUTORIALS / f"{name}.md", tmp_path)
    finally:
        for module in set(sys.modules) - modules:
            if str(getattr(sys.modules[module], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[module]
