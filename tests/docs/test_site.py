"""The documentation is built as strictly as ``make docs`` does, and asks the network for nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.browser import run_page

# slow: MkDocs builds every page, as make docs does, and runs what tutorials, gallery and explanations print
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
ASSET = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=[\"']?(?:https?:)?//|<link[^>]+href=[\"']?(?:https?:)?//[^>]*"
)
CANONICAL = re.compile(r"<link[^>]+rel=[\"']?canonical")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs the docs extra: pip install -e '.[docs]'")
    pytest.importorskip("latex2mathml")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def site(folder):
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_every_page_is_in_the_navigation(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(site)
    assert {"reference/volta.html", "reference/metrics.html", "reference/decisions.html", "changelog.html"} <= set(site)


def test_nothing_is_fetched_from_afar(site):
    for name, text in site.items():
        assert [found for found in ASSET.findall(text) if not CANONICAL.match(found)] == [], name


def test_formulas_are_drawn_by_the_browser(site):
    assert site["formulas.html"].count("<math") > 30
    assert all("arithmatex" not in text for text in site.values())
    drawn = [one for text in site.values() for one in re.findall(r"<math.*?</math>", text, re.DOTALL)]
    assert [one for one in drawn if "\\" in one] == []


def test_blocks_show_what_they_print_and_draw(site, folder):
    assert "answers 0." in site["tutorials/own-logits.html"]
    for name in ("tutorials/own-logits", "gallery/two_moons", "calibration", "guarantees"):
        plots = re.findall(r'src=["\']?[./]*(plots/[\w-]+\.svg)', site[f"{name}.html"])
        assert plots, name
        assert all(1_000 < (folder / plot).stat().st_size < 100_000 for plot in plots)


def test_the_reference_has_signatures_members_and_examples(site):
    page = re.sub(r"<[^>]+>", "", site["reference/class-VoltaClassifier.html"])
    assert "VoltaClassifier.fit_policy" in page
    assert "&gt;&gt;&gt; classifier = VoltaClassifier(random_state=1)" in page
    assert "random_state: Decides initial weights" in page


def test_search_works_from_disk(folder):
    script = """
      const query = document.querySelector("[data-md-component=search-query]");
      query.focus(); query.value = "exchangeable"; query.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
      query.dispatchEvent(new Event("input", { bubbles: true }));
      for (let i = 0; i < 100 && !document.querySelector(".md-search-result__link"); i++) await pause(50);
      return [...document.querySelectorAll(".md-search-result__link")].map((link) => link.getAttribute("href"));
    """
    assert any("guarantees.html" in found for found in run_page(folder / "faq.html", script, folder)["value"])


def test_the_pictures_are_small():
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert pictures
    assert all(1_000 < path.stat().st_size < 300_000 for path in pictures)
