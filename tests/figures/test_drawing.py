"""Figures drawn in other processes: the same files, whoever draws them and however many there are."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import pytest

from volta.core.processes import SecondProcess, SecondProcessError
from volta.figures import CHARTS
from volta.figures.charts import Drawing

from .test_charts import numbers

BY_NAME = {chart.name: chart for chart in CHARTS}


def draw(folder, n_cores: int, charts) -> dict[str, bytes]:
    folder.mkdir()
    with Drawing(n_cores) as drawing:
        for chart in charts:
            drawing.add(chart, numbers(), folder, "a-")
        drawing.finish()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_one_process_and_two_draw_the_same_bytes(tmp_path):
    charts = [BY_NAME[name] for name in ("calibration_bars", "risk_coverage", "reliability")]
    alone = draw(tmp_path / "one", 1, charts)
    assert set(alone) == {f"a-{chart.name}.{kind}" for chart in charts for kind in ("png", "pdf")}
    assert draw(tmp_path / "two", 2, charts) == alone


def test_the_callers_settings_change_no_byte_and_are_left_as_they_were(tmp_path):
    import matplotlib

    charts = [BY_NAME[name] for name in ("calibration_bars", "risk_coverage", "reliability", "roc_curves")]
    plain = draw(tmp_path / "plain", 1, charts)
    theirs = {
        "font.size": 22.0, "font.sans-serif": ["DejaVu Serif"], "lines.linewidth": 9.0, "grid.color": "red",
        "axes.facecolor": "black", "patch.linewidth": 4.0, "hatch.color": "red", "axes.formatter.use_mathtext": True,
        "path.sketch": (2.0, 100.0, 2.0), "pdf.compression": 0, "savefig.dpi": 20.0,
    }  # fmt: skip
    with matplotlib.rc_context(theirs):
        before = matplotlib.rcParams.copy()
        assert draw(tmp_path / "theirs", 1, charts) == plain
        # Copies: to look up the backend in the settings themselves would choose one.
        assert matplotlib.rcParams.copy() == before


def test_a_helper_draws_what_the_table_of_charts_holds(tmp_path):
    with SecondProcess() as helper:
        helper.call("volta.figures.charts:keep", 0, numbers())
        helper.call("volta.figures.charts:draw_kept", 0, "risk_coverage", tmp_path / "x")
    assert {path.name for path in tmp_path.iterdir()} == {"x.png", "x.pdf"}


def test_a_chart_that_no_helper_knows_is_drawn_all_the_same(tmp_path):
    mine = replace(BY_NAME["risk_coverage"], name="mine")
    assert set(draw(tmp_path / "mine", 2, [mine])) == {"a-risk_coverage.png", "a-risk_coverage.pdf"}


def test_where_no_helper_starts_the_caller_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(SecondProcessError, match="cannot be started"):
        SecondProcess()
    found = draw(tmp_path / "alone", 2, [BY_NAME["risk_coverage"]])
    assert set(found) == {"a-risk_coverage.png", "a-risk_coverage.pdf"}


def test_a_figure_that_cannot_be_drawn_is_the_callers_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with Drawing(2) as drawing:
        drawing.add(BY_NAME["risk_coverage"], numbers(), tmp_path / "file")
        with pytest.raises(OSError, match="file"):
            drawing.finish()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_the_caller_leaves_no_thread(tmp_path):
    before = threading.active_count()
    with pytest.raises(KeyError), Drawing(2) as drawing:  # noqa: PT012
        for place in range(4):
            drawing.add(BY_NAME["risk_coverage"], numbers(), tmp_path, f"{place}-")
        raise KeyError
    with Drawing(2):
        pass
    assert threading.active_count() == before
