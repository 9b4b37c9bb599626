"""Tutorials' code is run as it is printed, and the example scripts are that code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tools.run_pages import BLOCK, run_page

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOK = "own-features"
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8")))
RAY = [
    pytest.mark.ray,
    pytest.mark.slow,  # a tutorial on a real cluster
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Resource", "Deprecation", "Future")),
]


def test_there_are_ten():
    assert len(PAGES) == 10


# Building the site runs every other tutorial: tests/docs/test_site.py.
@pytest.mark.parametrize("name", ["own-logits", "plug-in", pytest.param("scale-with-ray", marks=RAY)])
def test_the_tutorial_runs_as_printed(name, tmp_path, monkeypatch):
    if name == "scale-with-ray":
        pytest.importorskip("ray", reason="needs the ray extra: pip install 'volta-uq[ray]'")
    monkeypatch.setenv("VOLTA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "cache"))
    run_page((TUTORIALS / f"{name}.md").read_text(encoding="utf-8"), name, tmp_path)


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
    assert any("new samples right" in text for text in said)
    assert (tmp_path / "model.safetensors").is_file()
