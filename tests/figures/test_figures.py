from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from PIL import Image

from volta.core.errors import InputError
from volta.figures import (
    Context,
    GroupNumbers,
    MethodBins,
    MethodCurve,
    MethodValues,
    ScoreHistogram,
    accuracy_ece,
    corruption_sheet,
    critical_difference,
    save_figure,
)
from volta.figures.calibration import (
    accuracy_ece_density,
    calibration_bars,
    density,
    reliability_diagrams,
    risk_coverage,
)
from volta.figures.charts import check_style
from volta.figures.comparison import ablation_bars, parallel_coordinates, summary_heatmap
from volta.figures.cost import efficiency
from volta.figures.draw import STYLES, base_style, clip_outliers, leading
from volta.figures.ood import ood_bars, score_histograms
from volta.figures.shift import corruption_heatmap
from volta.stats.comparisons import AblationRow
from volta.stats.results import columns_of

CONTEXT = Context("digits", "fair", 289, 3, "reduced: at most 5 epochs")
LINE = "digits · fair protocol · n = 289 test samples · 3 seeds · reduced: at most 5 epochs"
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
    keys |= {
        "latency_ms": 0.01,
        "size_mb": 0.3,
        "auroc@ood:near_set": 0.8,
        "auroc@ood:noise": 0.95,
        "accuracy@shift:fog-1": 0.7,
    }
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


def group(methods: list[MethodValues], **more: Any) -> GroupNumbers:
    """A group of compared methods."""
    known: dict[str, Any] = {"context": CONTEXT, "headline": METRICS, "ood_sets": ("ood:near_set", "ood:noise")}
    known |= {"near_sets": ("ood:near_set",), "shift_sets": ("shift:fog-1",)}
    return GroupNumbers(methods=tuple(methods), compared=tuple(m.name for m in methods), **(known | more))


def by_name(make: Any, n: int, *more: Any) -> dict[str, Any]:
    return {m.name: make(m.name, *more) for m in some(n)}


def changes(reference: MethodValues, rows: list[MethodValues], significant: tuple[str, ...] = ()) -> GroupNumbers:
    """A group with a test of each row against the reference on ECE."""
    tests = tuple(
        AblationRow(
            **dict.fromkeys(columns_of(AblationRow))
            | {"row": m.name, "reference": reference.name, "metric": "ece", "set": "test"}
            | {
                "difference": m.mean("ece") - reference.mean("ece"),
                "verdict": "better" if m.name in significant else "inconclusive",
            }
        )
        for m in rows
    )
    return group([reference, *rows], ablation=tests)


DRAWN = {
    "accuracy_ece": lambda n: accuracy_ece(group(some(n))),
    "accuracy_ece_density": lambda n: accuracy_ece_density(group(some(n))),
    "parallel": lambda n: parallel_coordinates(group(some(n))),
    "calibration_bars": lambda n: calibration_bars(group(some(n))),
    "reliability": lambda n: reliability_diagrams(group(some(n), bins={"test": by_name(bins, n)})),
    "risk_coverage": lambda n: risk_coverage(group(some(n), curves=by_name(curve, n, 0.1))),
    "ood_bars": lambda n: ood_bars(group(some(n))),
    "score_histograms": lambda n: score_histograms(
        group(some(n), histograms={(name, 42): item for name, item in by_name(histogram, n).items()})
    ),
    "efficiency": lambda n: efficiency(group(some(n))),
    "summary_heatmap": lambda n: summary_heatmap(group(some(n))),
    "corruption_heatmap": lambda n: corruption_heatmap(group(some(n)), "accuracy"),
    "corruption_sheet": lambda n: corruption_sheet(CONTEXT, tiles(n), [f"corruption_{i}" for i in range(n)]),
    "ablation_bars": lambda n: ablation_bars(changes(values("x"), some(n), ("volta",))),
    "critical_difference": lambda n: critical_difference(
        CONTEXT, [MethodValues(m.name, m.title, {"rank": [1.0 + i]}, m.ours) for i, m in enumerate(some(n))], 1.2,
        [(1.0, 2.0)], "Mean ranks", 6,
    ),
}  # fmt: skip


def texts(figure) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("n", [1, 22])
def test_a_figure_says_its_context_and_keeps_every_label_on_the_paper(name, n):
    figure = DRAWN[name](n)
    assert LINE in figure.get_label()
    assert figure.get_suptitle() == figure.get_supxlabel() == ""
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
    assert all(legend.get_window_extent().y1 <= axes.get_window_extent().y0 + 1 for axes in figure.axes)
    assert len(legend.get_texts()) == 7
    assert legend.get_texts()[-1].get_text() == "16 others"
    assert legend.get_window_extent().y0 >= 0


@pytest.mark.parametrize(
    "draw",
    [
        accuracy_ece,
        accuracy_ece_density,
        calibration_bars,
        efficiency,
        parallel_coordinates,
        summary_heatmap,
        lambda numbers: ablation_bars(
            replace(changes(numbers.methods[0], [values("x")]), methods=(*numbers.methods, values("x")))
        ),
    ],
)
def test_titles_are_text_not_mathematics(draw):
    title = r"costs $5 and $x_{ \frac"
    method = MethodValues("volta", title, values("volta").values, ours=True)
    figure = draw(group([method], context=Context("a $task$_{", "fair", 1, 1)))
    figure.draw_without_rendering()
    # The ablation's reference is named in the label alone, which is no drawn text.
    assert any(title.replace("$", r"\$") in text for text in texts(figure)) or title in figure.get_label()


def test_scatter_marks_each_method_once_and_its_axes_hold_them():
    methods = some(4)
    figure = accuracy_ece(group(methods))
    (axes,) = figure.axes
    assert len(axes.containers) == 4
    low, high = axes.get_xlim()
    assert all(low < m.mean("accuracy") < high for m in methods)
    assert axes.get_xlabel() == "accuracy ↑"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Title of volta", "Title of softmax", "Title of mc_dropout", "Title of a-name-nobody-…"
    ]  # fmt: skip


def test_scatter_uses_a_log_axis_where_ece_spans_decades():
    methods = [
        MethodValues(name, name, {"accuracy": [0.9], "ece": [ece]}) for name, ece in (("volta", 0.001), ("b", 0.2))
    ]
    (axes,) = accuracy_ece(group(methods)).axes
    assert axes.get_yscale() == "log"
    assert "0.01" in [label.get_text() for label in axes.get_yticklabels()]


def test_density_is_highest_where_points_gather_and_needs_a_few_points():
    x = np.concatenate([np.full(20, 0.2), [0.8]])
    surface = density((x, x), np.linspace(0, 1, 41), np.linspace(0, 1, 41))
    assert surface.max() == 1
    assert np.unravel_index(surface.argmax(), surface.shape) == (8, 8)
    few = accuracy_ece_density(group(some(1)))
    assert "density of 0 baseline points" in few.get_label()


def test_parallel_axes_put_the_best_on_top_whatever_the_direction():
    good = MethodValues("volta", "good", {"accuracy": [0.9], "ece": [0.01]})
    bad = MethodValues("b", "bad", {"accuracy": [0.5], "ece": [0.3]})
    (axes,) = parallel_coordinates(group([good, bad], headline=("accuracy", "ece"))).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines if not line.get_label().startswith("_")}
    assert lines == {"good": [1, 1], "bad": [0, 0]}


def test_parallel_coordinates_name_methods_without_all_metrics():
    lacking = MethodValues("b", "No OOD score", {"accuracy": [0.5]})
    figure = parallel_coordinates(group([values("volta"), lacking], headline=("accuracy", "ece")))
    assert "without all metrics: No OOD score" in figure.get_label()


def boxes(axes: Any) -> list[tuple[Any, Any]]:
    """The rectangles of the axes, each with the artist it belongs to."""
    groups = [one for one in axes.collections if isinstance(one, PolyCollection)]
    return [(path.get_extents(), group) for group in groups for path in group.get_paths()]


def test_calibration_errors_are_in_order_of_ece_with_their_values():
    methods = [values("volta", 0.05), values("softmax", 0.0)]
    figure = calibration_bars(group(methods))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Title of softmax", "Title of volta"]
    assert len(figure.axes) == 4
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0220", "0.0720"]


def test_reliability_draws_filled_bins_alone():
    figure = reliability_diagrams(group([values("volta")], bins={"test": {"volta": bins("volta")}}))
    (axes,) = figure.axes
    assert len(boxes(axes)) == 3 * 4  # accuracy, gap and share of four filled bins
    assert axes.get_xlabel() == "confidence\nECE 0.050"


def test_risk_coverage_orders_by_area_and_shades_volta():
    figure = risk_coverage(group(some(2), curves={"softmax": curve("softmax", 0.2), "volta": curve("volta", 0.1)}))
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Title of volta  100",
        "Title of softmax  200",
    ]
    assert len(axes.collections) == 1
    assert axes.get_xlim() == (0.85, 1)
    assert axes.get_ylim()[1] == pytest.approx(1.06 * 0.2)


def test_risk_coverage_of_a_faultless_method_still_has_an_axis():
    (axes,) = risk_coverage(group(some(1), curves={"volta": curve("volta", 0.0)})).axes
    assert axes.get_ylim() == (0, 0.01)


def test_ood_dots_show_chance_and_mark_near_sets():
    figure = ood_bars(group([values("volta")]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["near set (near)", "noise"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.802"]
    low, high = figure.axes[0].get_xlim()
    assert low < 0.5
    assert high > 0.802


def test_heatmap_shows_a_dash_where_there_is_no_value():
    lacking = MethodValues("b", "b", {"accuracy": [0.5]})
    figure = summary_heatmap(group([values("volta"), lacking], headline=("accuracy", "nll"), ood_sets=()))
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["0.902", "0.302", "0.0220", "0.500", "–", "–"]


def test_ablation_marks_significant_rows_and_which_way_is_better():
    worse = MethodValues("x", "worse", {"ece": [0.2, 0.21]})
    figure = ablation_bars(changes(values("volta-full"), [worse], ("x",)))
    axes = figure.axes[1]
    assert [text.get_text() for text in axes.texts] == ["+0.183*"]
    ((bar, group),) = boxes(axes)
    assert bar.width == pytest.approx(0.205 - 0.022)
    assert group.get_hatch() == "////"


def test_an_outlier_does_not_hide_the_other_ablation_rows():
    small = [MethodValues(f"x{i}", f"x{i}", {"ece": [0.02 + 0.001 * i]}) for i in range(4)]
    outlier = MethodValues("y", "y", {"ece": [0.7]})
    reference = MethodValues("volta-full", "full", {"ece": [0.02]})
    plain = ablation_bars(changes(reference, small)).axes[1]
    bent = ablation_bars(changes(reference, [*small, outlier])).axes[1]
    assert (plain.get_xscale(), bent.get_xscale()) == ("linear", "symlog")
    left, middle, right = (bent.transData.transform((x, 0))[0] for x in (0, 0.003, bent.get_xlim()[1]))
    assert (middle - left) / (right - left) > 0.05
    assert [label.get_text() for label in bent.get_xticklabels()] == ["−0.1", "−0.01", "0", "0.01", "0.1"]


def test_critical_difference_draws_a_ruler_and_a_bar_per_group():
    figure = critical_difference(
        CONTEXT,
        [MethodValues("volta", "VOLTA", {"rank": [1.2]}, True), MethodValues("b", "B", {"rank": [1.8]})],
        0.7,
        [(1.2, 1.8)],
        "Ranks",
        6,
    )
    words = texts(figure)
    assert "critical difference 0.70" in words
    assert any("VOLTA  1.20" in word for word in words)


def test_saving_writes_both_formats_with_the_same_bytes_each_time(tmp_path):
    first = save_figure(accuracy_ece(group(some(3))), tmp_path / "a", "x")
    second = save_figure(accuracy_ece(group(some(3))), tmp_path / "b", "x")
    assert [path.name for path in first] == ["x.png", "x.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes()[:4] == b"\x89PNG"
    assert first[1].read_bytes()[:4] == b"%PDF"


def test_a_script_the_font_lacks_is_no_warning(tmp_path):
    save_figure(accuracy_ece(group(some(1), context=Context("数字", "fair", 1, 1))), tmp_path, "x")


def test_a_context_of_one_seed_says_so():
    assert "1 seed ·" in Context("t", "fair", 10, 1).line


def test_the_sheets_rows_stand_beside_their_names():
    names = [f"corruption_{index}" for index in range(19)]
    figure = corruption_sheet(CONTEXT, tiles(19), names)
    seen = {}
    for axes in figure.axes:
        pixels = axes.images[0].get_array()
        for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True):
            seen[label.get_text()] = int(pixels[round(place), 4, 0])
    assert seen == {name.replace("_", " "): index for index, name in enumerate(names)}


def test_a_style_has_its_widths_and_its_font(tmp_path):
    with base_style(STYLES["icml"]):
        figure = risk_coverage(group(some(2), curves={name: curve(name, 0.2) for name in ("volta", "softmax")}))
        assert figure.get_figwidth() == 3.25
        assert summary_heatmap(group(some(2))).get_figwidth() == 6.75
        assert figure.axes[0].xaxis.label.get_fontfamily()[0] == "STIXGeneral"
        png, _ = save_figure(figure, tmp_path, "x")
    assert risk_coverage(group(some(2), curves={"volta": curve("volta", 0.2)})).get_figwidth() == 3.3
    with Image.open(png) as image:
        assert image.width == round(3.25 * 300)
        assert "digits · fair protocol" in image.text["Description"]
    with pytest.raises(InputError, match="style is 'nature'; pass one of: plain, neurips, icml, ieee"):
        check_style("nature")


def test_an_outlier_stands_next_to_the_others_with_its_value():
    assert clip_outliers([1.0, 1.1, 1.2, 1.3, 9.0]) == pytest.approx([1.0, 1.1, 1.2, 1.3, 1.336])
    assert clip_outliers([1.0, 1.1, 1.2, 1.3]) == [1.0, 1.1, 1.2, 1.3]
    assert clip_outliers([1.0, 9.0]) == [1.0, 9.0]


def test_ours_and_the_best_five_are_in_colour():
    methods = [curve(name, 0.1) for name in ("a", "b", "c", "d", "e", "f", "volta")]
    assert [method.name for method in leading(methods)] == ["a", "b", "c", "d", "e", "volta"]
