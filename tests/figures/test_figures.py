from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from volta import figures
from volta.figures import Context, MethodBins, MethodCurve, MethodRank, MethodValues, ScoreHistogram
from volta.figures.calibration import density

CONTEXT = Context("digits", "fair", 289, 3, "reduced: at most 5 epochs")
LINE = "digits · fair protocol · n = 289 test rows · 3 seeds · reduced: at most 5 epochs"
NAMES = ("volta", "softmax", "mc_dropout", "a-name-nobody-knows")
METRICS = ("accuracy", "ece", "nll", "auroc@ood:near_set")


def values(name: str, shift: float = 0.0, n_seeds: int = 3) -> MethodValues:
    def around(middle: float) -> list[float]:
        return [middle + shift + 0.002 * seed for seed in range(n_seeds)]

    keys = {
        "accuracy": 0.9,
        "ece": 0.02,
        "mce": 0.3,
        "ece_equal_mass": 0.02,
        "ece_classwise": 0.01,
        "nll": 0.3,
        "brier": 0.1,
    }
    keys |= {"latency_ms": 0.01, "size_mb": 0.3, "auroc@ood:near_set": 0.8, "auroc@ood:noise": 0.95, "shift:fog-1": 0.7}
    return MethodValues(
        name, f"Title of {name}", {key: around(middle) for key, middle in keys.items()}, name == "volta"
    )


def some(n: int = 4) -> list[MethodValues]:
    names = [*NAMES, *(f"method-{i}" for i in range(4, n))][:n]
    return [values(name, 0.004 * i) for i, name in enumerate(names)]


def bins(name: str) -> MethodBins:
    count = np.zeros(15, dtype=np.int64)
    count[10:] = [1, 0, 3, 10, 100]
    middle = (np.arange(15) + 0.5) / 15
    return MethodBins(name, f"Title of {name}", count, middle, np.clip(middle - 0.05, 0, 1), 0.05, name == "volta")


def curve(name: str, area: float) -> MethodCurve:
    x = np.linspace(0.01, 1, 50)
    return MethodCurve(name, f"Title of {name}", x, area * x, 0.8 * area * x, 1.2 * area * x, area, name == "volta")


def histogram(name: str) -> ScoreHistogram:
    shares = np.full(10, 0.1)
    return ScoreHistogram(
        name,
        f"Title of {name}",
        np.linspace(0, 1, 11),
        {"test": shares, "ood:near_set": shares},
        {"ood:near_set": 0.5},
        name == "volta",
    )


def tiles(n: int) -> np.ndarray:
    """A sheet of n rows whose tiles are as bright as their row's number."""
    sheet = np.full((n * 9 - 1, 5 * 9 - 1, 3), 255, dtype=np.uint8)
    for row in range(n):
        sheet[row * 9 : row * 9 + 8] = row
    return sheet


DRAWN = {
    "accuracy_ece": lambda n: figures.accuracy_ece(CONTEXT, some(n)),
    "accuracy_ece_density": lambda n: figures.accuracy_ece_density(CONTEXT, some(n)),
    "parallel": lambda n: figures.parallel_coordinates(CONTEXT, some(n), METRICS),
    "calibration_bars": lambda n: figures.calibration_bars(CONTEXT, some(n)),
    "reliability": lambda n: figures.reliability_diagrams(CONTEXT, [bins(m.name) for m in some(n)]),
    "risk_coverage": lambda n: figures.risk_coverage(CONTEXT, [curve(m.name, 0.1) for m in some(n)]),
    "ood_bars": lambda n: figures.ood_bars(CONTEXT, some(n), ["ood:near_set", "ood:noise"], ["ood:near_set"]),
    "score_histograms": lambda n: figures.score_histograms(CONTEXT, [histogram(m.name) for m in some(n)], 42),
    "efficiency": lambda n: figures.efficiency(CONTEXT, some(n)),
    "summary_heatmap": lambda n: figures.summary_heatmap(CONTEXT, some(n), METRICS),
    "corruption_heatmap": lambda n: figures.corruption_heatmap(CONTEXT, some(n), "accuracy", ["shift:fog-1"]),
    "corruption_sheet": lambda n: figures.corruption_sheet(CONTEXT, tiles(n), [f"corruption_{i}" for i in range(n)]),
    "ablation_bars": lambda n: figures.ablation_bars(CONTEXT, values("x"), some(n), METRICS, {("volta", "ece")}),
    "critical_difference": lambda n: figures.critical_difference(
        CONTEXT, [MethodRank(m.name, m.title, 1.0 + i, m.ours) for i, m in enumerate(some(n))], 1.2, [(1.0, 2.0)], "Mean ranks", 6
    ),
}  # fmt: skip


def texts(figure) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("n", [1, 22])
def test_a_figure_says_its_context_and_keeps_every_label_on_the_paper(name, n):
    figure = DRAWN[name](n)
    assert LINE in figure.get_supxlabel().replace("\n", " ")
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


@pytest.mark.parametrize("name", ["accuracy_ece", "parallel", "efficiency", "risk_coverage"])
def test_a_legend_covers_no_axes(name):
    figure = DRAWN[name](22)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert all(legend.get_window_extent().x0 >= axes.get_window_extent().x1 - 1 for axes in figure.axes)
    assert legend.get_window_extent().y0 >= 0


@pytest.mark.parametrize(
    "draw",
    [
        figures.accuracy_ece,
        figures.accuracy_ece_density,
        figures.calibration_bars,
        figures.efficiency,
        lambda context, methods: figures.parallel_coordinates(context, methods, METRICS),
        lambda context, methods: figures.summary_heatmap(context, methods, METRICS),
        lambda context, methods: figures.ablation_bars(context, methods[0], methods, METRICS),
    ],
)
def test_titles_are_text_not_mathematics(draw):
    title = r"costs $5 and $x_{ \frac"
    figure = draw(
        Context("a $task$_{", "fair", 1, 1), [MethodValues("volta", title, values("volta").values, ours=True)]
    )
    figure.draw_without_rendering()
    assert any(title.replace("$", r"\$") in text for text in texts(figure))


def test_scatter_marks_each_method_once_and_its_axes_hold_them():
    methods = some(4)
    figure = figures.accuracy_ece(CONTEXT, methods)
    (axes,) = figure.axes
    assert len(axes.containers) == 4
    low, high = axes.get_xlim()
    assert all(low < m.mean("accuracy") < high for m in methods)
    assert axes.get_xlabel() == "accuracy ↑"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [m.title for m in methods]


def test_scatter_uses_a_log_axis_where_ece_spans_decades():
    methods = [
        MethodValues(name, name, {"accuracy": [0.9], "ece": [ece]}) for name, ece in (("volta", 0.001), ("b", 0.2))
    ]
    (axes,) = figures.accuracy_ece(CONTEXT, methods).axes
    assert axes.get_yscale() == "log"
    assert "0.01" in [label.get_text() for label in axes.get_yticklabels()]


def test_density_is_highest_where_points_gather_and_needs_a_few_points():
    x = np.concatenate([np.full(20, 0.2), [0.8]])
    surface = density((x, x), np.linspace(0, 1, 41), np.linspace(0, 1, 41))
    assert surface.max() == 1
    assert np.unravel_index(surface.argmax(), surface.shape) == (8, 8)
    few = figures.accuracy_ece_density(CONTEXT, some(1))
    assert "density of 0 baseline points" in few.get_supxlabel().replace("\n", " ")


def test_parallel_axes_put_the_best_on_top_whatever_the_direction():
    good = MethodValues("volta", "good", {"accuracy": [0.9], "ece": [0.01]})
    bad = MethodValues("b", "bad", {"accuracy": [0.5], "ece": [0.3]})
    (axes,) = figures.parallel_coordinates(CONTEXT, [good, bad], ["accuracy", "ece"]).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines if not line.get_label().startswith("_")}
    assert lines == {"good": [1, 1], "bad": [0, 0]}


def test_parallel_coordinates_name_methods_without_all_metrics():
    lacking = MethodValues("b", "No OOD score", {"accuracy": [0.5]})
    figure = figures.parallel_coordinates(CONTEXT, [values("volta"), lacking], ["accuracy", "ece"])
    assert "without all metrics: No OOD score" in figure.get_supxlabel().replace("\n", " ")


def boxes(axes: Any) -> list[tuple[Any, Any]]:
    """The rectangles of the axes, each with the artist it belongs to."""
    groups = [one for one in axes.collections if isinstance(one, PolyCollection)]
    return [(path.get_extents(), group) for group in groups for path in group.get_paths()]


def test_calibration_bars_are_in_order_of_ece():
    methods = [values("volta", 0.05), values("softmax", 0.0)]
    figure = figures.calibration_bars(CONTEXT, methods)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Title of softmax", "Title of volta"]
    assert len(figure.axes) == 4
    assert all(len(boxes(axes)) == 2 for axes in figure.axes)
    first, second = (box for box, _ in boxes(figure.axes[0]))
    assert (first.x0, second.x0) == (0, 0)
    assert first.x1 < second.x1 < figure.axes[0].get_xlim()[1]
    assert first.y1 < second.y0


def test_reliability_draws_filled_bins_alone():
    figure = figures.reliability_diagrams(CONTEXT, [bins("volta")])
    (axes,) = figure.axes
    assert len(boxes(axes)) == 3 * 4  # accuracy, gap and share of four filled bins
    assert "ECE 0.050" in texts(figure)


def test_risk_coverage_orders_by_area_and_shades_volta():
    figure = figures.risk_coverage(CONTEXT, [curve("softmax", 0.2), curve("volta", 0.1)])
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Title of volta  0.1000",
        "Title of softmax  0.2000",
    ]
    assert len(axes.collections) == 1
    assert axes.get_xlim() == (0.5, 1)
    assert axes.get_ylim()[1] == pytest.approx(1.06 * 0.2)


def test_risk_coverage_of_a_faultless_method_still_has_an_axis():
    (axes,) = figures.risk_coverage(CONTEXT, [curve("volta", 0.0)]).axes
    assert axes.get_ylim() == (0, 0.01)


def test_ood_bars_start_at_chance_and_mark_near_sets():
    figure = figures.ood_bars(CONTEXT, [values("volta")], ["ood:near_set", "ood:noise"], ["ood:near_set"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["near set (near)", "noise"]
    ((bar, _),) = boxes(figure.axes[0])
    assert bar.x0 == 0.5
    assert bar.width == pytest.approx(0.802 - 0.5)


def test_heatmap_shows_a_dash_where_there_is_no_value():
    lacking = MethodValues("b", "b", {"accuracy": [0.5]})
    figure = figures.summary_heatmap(CONTEXT, [values("volta"), lacking], ["accuracy", "nll"])
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["0.902", "0.302", "0.500", "–"]


def test_ablation_marks_significant_rows_and_which_way_is_better():
    worse = MethodValues("x", "worse", {"ece": [0.2, 0.21]})
    figure = figures.ablation_bars(CONTEXT, values("volta-full"), [worse], ["ece"], {("x", "ece")})
    (axes,) = figure.axes
    assert "*" in [text.get_text() for text in axes.texts]
    ((bar, group),) = boxes(axes)
    assert bar.width == pytest.approx(0.205 - 0.022)
    assert group.get_hatch() == "////"


def test_an_outlier_does_not_hide_the_other_ablation_rows():
    small = [MethodValues(f"x{i}", f"x{i}", {"ece": [0.02 + 0.001 * i]}) for i in range(4)]
    outlier = MethodValues("y", "y", {"ece": [0.7]})
    reference = MethodValues("volta-full", "full", {"ece": [0.02]})
    (plain,) = figures.ablation_bars(CONTEXT, reference, small, ["ece"]).axes
    (bent,) = figures.ablation_bars(CONTEXT, reference, [*small, outlier], ["ece"]).axes
    assert (plain.get_xscale(), bent.get_xscale()) == ("linear", "symlog")
    left, middle, right = (bent.transData.transform((x, 0))[0] for x in (0, 0.003, bent.get_xlim()[1]))
    assert (middle - left) / (right - left) > 0.05
    assert [label.get_text() for label in bent.get_xticklabels()] == ["-0.1", "-0.01", "0", "0.01", "0.1"]


def test_critical_difference_draws_a_ruler_and_a_bar_per_group():
    figure = figures.critical_difference(
        CONTEXT, [MethodRank("volta", "VOLTA", 1.2, True), MethodRank("b", "B", 1.8)], 0.7, [(1.2, 1.8)], "Ranks", 6
    )
    words = texts(figure)
    assert "critical difference 0.70" in words
    assert any("VOLTA  1.20" in word for word in words)


def test_saving_writes_both_formats_with_the_same_bytes_each_time(tmp_path):
    first = figures.save_figure(figures.accuracy_ece(CONTEXT, some(3)), tmp_path / "a", "x")
    second = figures.save_figure(figures.accuracy_ece(CONTEXT, some(3)), tmp_path / "b", "x")
    assert [path.name for path in first] == ["x.png", "x.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes()[:4] == b"\x89PNG"
    assert first[1].read_bytes()[:4] == b"%PDF"


def test_a_script_the_font_lacks_is_no_warning(tmp_path):
    figures.save_figure(figures.accuracy_ece(Context("数字", "fair", 1, 1), some(1)), tmp_path, "x")


def test_a_context_of_one_seed_says_so():
    assert "1 seed ·" in Context("t", "fair", 10, 1).line


def test_the_sheets_rows_stand_beside_their_names():
    names = [f"corruption_{index}" for index in range(19)]
    figure = figures.corruption_sheet(CONTEXT, tiles(19), names)
    seen = {}
    for axes in figure.axes:
        pixels = axes.images[0].get_array()
        for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True):
            seen[label.get_text()] = int(pixels[round(place), 4, 0])
    assert seen == {name.replace("_", " "): index for index, name in enumerate(names)}
