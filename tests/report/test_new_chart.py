"""What a new chart costs: the chart of the docs is its own file and a name in the table, and is on the page and in print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from volta.figures import CHARTS, Chart
from volta.report import build_report

from .browser import run_page
from .synthetic import Plan, write_run

DOCS = Path(__file__).parents[2] / "docs" / "report.md"


@pytest.fixture(scope="module")
def documented() -> Chart:
    """The chart that the docs write down."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    (source,) = [block for block in blocks if "TRAIN_BARS = Chart(" in block]
    names: dict[str, object] = {}
    exec(source, names)
    chart = names["TRAIN_BARS"]
    assert isinstance(chart, Chart)
    return chart


@pytest.fixture(scope="module")
def page(documented, tmp_path_factory) -> Path:
    """A report whose table of charts holds one chart of the package and the documented one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volta.report.build.CHARTS", (*CHARTS[:1], documented))
        return build_report(write_run(tmp_path_factory.mktemp("new") / "run", Plan(seeds=(1, 2), n_rows=40)), 0).path


def test_a_chart_in_the_table_is_on_the_page_and_in_print(page):
    names = {path.name for path in (page.parent / "figures").iterdir()}
    assert {"train_bars.png", "train_bars.pdf"} <= names
    text = page.read_text(encoding="utf-8")
    assert 'href="figures/train_bars.pdf"' in text
    data = re.search(r'id="volta-data">(.*?)</script>', text, re.S)
    assert data is not None
    own = json.loads(data.group(1))["groups"][0]["charts"]["train_bars"]
    assert own["kind"] == "bars"
    assert set(own["data"]["metrics"]["train_s"]["rows"]) == {"volta", "softmax", "temperature"}


def test_a_kind_that_is_there_draws_it(page, tmp_path):
    drawn = run_page(
        page, """return document.querySelectorAll("[data-chart=train_bars] .plot rect[data-m]").length;""", tmp_path
    )
    assert (drawn["value"], drawn["problems"]) == (3, [])
