"""Figures drawn in several processes: the same files, however many there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from volta.figures import CHARTS
from volta.figures.charts import figure_workers
from volta.report.page import script_json

from .test_charts import numbers

BY_NAME = {chart.name: chart for chart in CHARTS}


def draw(folder, n_workers: int, drawn) -> dict[str, bytes]:
    folder.mkdir()
    figures = [(version, numbers(), folder / f"a-{version.name}") for chart in drawn for version in chart.prints]
    with figure_workers(n_workers) as draw_all:
        draw_all(figures)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# slow: all charts; a few show every time that processes draw as this one does. Over two seconds: each imports Matplotlib.
@pytest.mark.parametrize("n_charts", [3, pytest.param(len(CHARTS), marks=pytest.mark.slow)])
def test_one_process_and_two_draw_the_same_bytes(tmp_path, n_charts):
    drawn = [chart for chart in CHARTS if chart.available(numbers())][:n_charts]
    alone = draw(tmp_path / "one", 1, drawn)
    names = [version.name for chart in drawn for version in chart.prints]
    assert set(alone) == {f"a-{name}.{kind}" for name in names for kind in ("png", "pdf")}
    assert draw(tmp_path / "two", 2, drawn) == alone


def test_the_callers_settings_change_no_byte_and_are_left_as_they_were(tmp_path):
    import matplotlib

    drawn = [BY_NAME[name] for name in ("calibration_bars", "risk_coverage", "reliability", "roc_curves")]
    plain = draw(tmp_path / "plain", 1, drawn)
    theirs = {
        "font.size": 22.0, "font.sans-serif": ["DejaVu Serif"], "lines.linewidth": 9.0, "grid.color": "red",
        "axes.facecolor": "black", "patch.linewidth": 4.0, "hatch.color": "red", "axes.formatter.use_mathtext": True,
        "path.sketch": (2.0, 100.0, 2.0), "pdf.compression": 0, "savefig.dpi": 20.0,
    }  # fmt: skip
    with matplotlib.rc_context(theirs):
        before = matplotlib.rcParams.copy()
        assert draw(tmp_path / "theirs", 1, drawn) == plain
        # Copies: to look up the backend in the settings themselves would choose one.
        assert matplotlib.rcParams.copy() == before


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_figure_that_cannot_be_drawn_is_the_callers_error(tmp_path, n_workers):
    (tmp_path / "file").write_text("in the way")
    (version,) = BY_NAME["risk_coverage"].prints
    with pytest.raises(OSError, match="file"), figure_workers(n_workers) as draw_all:
        draw_all([(version, numbers(), tmp_path / "file" / "a")] * 2)


def test_charts_that_are_drawn_before_the_statistics_need_none():
    full = numbers()
    without = replace(full, ablation=(), pairs=(), leaderboard=())
    early = [chart for chart in CHARTS if chart.available(without)]
    assert {chart.name for chart in CHARTS if chart not in early} == {"mean_ranks", "pairwise", "ablation_bars"}
    for chart in early:
        assert script_json(chart.data(without)) == script_json(chart.data(full))
