"""Every tutorial's code is run as it is printed, and the example scripts are that code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, run_page

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOK = "own-features"
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8")))
RAY = [
    pytest.mark.ray,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Resource", "Deprecation", "Future")),
]


QUICK = ("own-logits", "plug-in")


def page(name):
    # slow: a tutorial trains and reports as a reader would; two that take little stand for the others
    slow = [] if name in QUICK else [pytest.mark.slow]
    return pytest.param(name, marks=[*slow, *(RAY if name == "scale-with-ray" else ())])


def test_there_are_ten():
    assert len(PAGES) == 10


@pytest.mark.parametrize("name", [page(name) for name in PAGES if name != NOTEBOOK])
@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::volta.estimators.deciding.TooFewRowsWarning")
def test_the_tutorial_runs_as_printed(name, tmp_path, monkeypatch):
    if name == "scale-with-ray":
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


def example_files():
    spec = importlib.util.spec_from_file_location("examples_maker", ROOT / "tools" / "examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.made()


def test_the_examples_are_the_tutorials_code():
    for name, text in example_files().items():
        stored = (ROOT / "examples" / name).read_text(encoding="utf-8")
        assert stored == text, f"examples/{name} differs from its tutorial; run: python tools/examples.py"


# slow: it starts a kernel, which imports everything again
@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="needs the dev extra: pip install -e '.[dev]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples" / f"{NOTEBOOK}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("new rows right" in text for text in said)
    assert (tmp_path / "model.safetensors").is_file()
