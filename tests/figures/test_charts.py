"""Each chart of the table: its file, its availability, its numbers, its drawing on the page."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from volta.figures import CHARTS, Context, GroupNumbers, MethodValues
from volta.figures.calibration import density_json
from volta.networks.recipe import TrainingLog
from volta.report.page import script_json
from volta.stats.comparisons import AblationRow, TestRow
from volta.stats.ranking import OVERALL, LeaderboardRow
from volta.stats.results import columns_of

from .test_figures import bins, curve, histogram, some

CONTEXT = Context("digits", "fair", 289, 3)
BY_NAME = {chart.name: chart for chart in CHARTS}
FIGURES = [
    "mean_ranks", "accuracy_ece", "accuracy_ece_density", "risk_coverage", "parallel_coordinates", "reliability", "pairwise",
    "calibration_bars", "ood_bars", "near_far_ood", "efficiency", "roc_curves", "pr_curves", "training_curves",
    "severity_curves", "ablation_bars", "score_histograms", "summary_heatmap", "corruption_heatmap_accuracy",
    "corruption_heatmap_ece",
]  # fmt: skip


def change(row: str, difference: float, std: float, p: float | None, significant: bool) -> AblationRow:
    """One test of an ablation row against VOLTA on ECE."""
    unknown = dict.fromkeys(["mean", "mean_reference", "p", "p_welch", "hedges_g"])
    return AblationRow(
        task="digits", protocol="fair", row=row, reference="volta", metric="ece", set="test", n=3, n_reference=3,
        n_shared=3, std=std, difference=difference, paired=True, p_holm=p, note="",
        detectable_difference=None, p_equivalence=None, verdict="better" if significant else "inconclusive", **unknown,
    )  # fmt: skip


def pair(first: str, second: str) -> TestRow:
    """The test of two methods on ECE, the first of which is better."""
    known = {
        "task": "digits", "protocol": "fair", "metric": "ece", "set": "test", "reference": first, "method": second,
        "difference": -0.01, "verdict": "better", "p_holm": 0.01,
    }  # fmt: skip
    return TestRow(**(dict.fromkeys(columns_of(TestRow)) | known))


def numbers(n: int = 4) -> GroupNumbers:
    """Everything a chart may need, of ``n`` compared methods and one ablation row."""
    methods = [
        MethodValues(
            m.name,
            m.title,
            {
                **m.values,
                **{f"auroc@{kind}:": m.values["auroc@ood:near_set"] for kind in ("near", "far")},
                **{
                    f"{key}@shift:fog-{severity}": m.values[key]
                    for key in ("accuracy", "ece", "nll", "brier")
                    for severity in (1, 2)
                },
            },
            m.ours,
            {"ece": (3, 2, 1)},
        )
        for m in some(n + 1)
    ]
    names = [m.name for m in methods]
    return GroupNumbers(
        context=CONTEXT,
        methods=tuple(methods),
        compared=tuple(names[:-1]),
        headline=("accuracy", "ece", "auroc@ood:near_set"),
        ood_sets=("ood:near_set", "ood:noise"),
        near_sets=("ood:near_set",),
        shift_sets=("shift:fog-1", "shift:fog-2"),
        trainings={(name, 1): (TrainingLog(3, None, 0.0, (0.9, 0.4, 0.5), 1.0),) for name in names},
        pairs=(pair(names[0], names[1]),),
        networks=((names[1], names[2]),),
        leaderboard=tuple(
            LeaderboardRow(
                "digits",
                "fair",
                name,
                metric,
                "" if metric == OVERALL else "test",
                3,
                place + 1.5,
                None,
                place + 1.0,
                place + 2.0,
                place + 1.0,
                n,
                None,
                place == 0,
                "",
                "",
            )
            for place, name in enumerate(names[:-1])
            for metric in (OVERALL, "ece")
        ),
        excess={name: curve(name, 0.05) for name in names},
        bins={"test": {name: bins(name) for name in names}, "shift:fog-1": {names[0]: bins(names[0])}},
        curves={name: curve(name, 0.1) for name in names},
        histograms={(name, seed): histogram(name) for name in names for seed in (1, 2)},
        roc={"ood:near_set": {name: curve(name, 0.9) for name in names}},
        precision_recall={"ood:near_set": {name: curve(name, 0.8) for name in names}},
        ablation=(change(names[-1], 0.01, 0.001, 0.03, True), change(names[1], -0.2, 0.001, None, False)),
    )


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_one_script_registers_the_drawing_of_a_chart(chart):
    assets = files("volta.report") / "assets"
    scripts = [item.read_text(encoding="utf-8") for item in assets.iterdir() if item.name.startswith("charts-")]
    assert sum(script.count(f'register("{chart.kind}"') for script in scripts) == 1


def test_the_figures_for_print_keep_their_names():
    assert [version.name for chart in CHARTS for version in chart.prints] == FIGURES


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_chart_says_what_it_needs_and_draws_what_it_has(chart):
    nothing = GroupNumbers(CONTEXT, (MethodValues("volta", "VOLTA", {"train_s": [1.0]}, True),), ("volta",))
    assert not chart.available(nothing)
    full = numbers()
    assert chart.available(full)
    assert "NaN" not in script_json(chart.data(full))
    for choice in chart.choices(full):
        assert len({key for key, _ in choice.options}) == len(choice.options) > 0
    for version in chart.prints:
        version.draw(full).draw_without_rendering()


def test_points_name_what_beats_them():
    points = BY_NAME["accuracy_ece"].data(numbers())["points"]
    # Each method of the made-up run is better in accuracy and worse in ECE than the one before.
    assert all(point["beaten_by"] == [] for point in points.values())
    worse = MethodValues("worse", "worse", {"accuracy": [0.1], "ece": [0.5]})
    group = GroupNumbers(CONTEXT, (*numbers().methods, worse), (*numbers().compared, "worse"))
    assert BY_NAME["accuracy_ece"].data(group)["points"]["worse"]["beaten_by"] == [m.name for m in numbers().methods]


def test_the_pages_density_peaks_at_one_and_leaves_ours_out():
    group = numbers(8)
    found = density_json(group)
    assert found["shares"].shape == (36, 48)
    assert (len(found["x"]), len(found["y"])) == (49, 37)
    assert found["shares"].max() == pytest.approx(1)
    assert density_json(numbers(2)) is None
    far = MethodValues("volta", "VOLTA", {"accuracy": [0.2] * 9, "ece": [0.5] * 9}, ours=True)
    with_ours = GroupNumbers(CONTEXT, (far, *group.methods[1:]), group.compared)
    shares = density_json(with_ours)["shares"]
    assert shares[:, : shares.shape[1] // 2].max() < 0.01


def test_summary_shades_by_the_share_of_the_others_beaten():
    methods = [MethodValues(name, name, {"ece": [value]}) for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    row = MethodValues("row", "row", {"ece": [0.15]})
    group = GroupNumbers(CONTEXT, (*methods, row), ("a", "b", "c"), ("ece",))
    rows = BY_NAME["summary_heatmap"].data(group)["tables"][""]["rows"]
    assert [rows[name][0]["share"] for name in ("a", "b", "c", "row")] == pytest.approx([1, 0.5, 0, 2 / 3])


def test_shift_shades_span_the_compared_methods_alone():
    def method(name: str, value: float) -> MethodValues:
        return MethodValues(name, name, {"accuracy@shift:fog-1": [value]})

    methods = (method("a", 0.2), method("b", 0.6), method("row", 0.9))
    group = GroupNumbers(CONTEXT, methods, ("a", "b"), shift_sets=("shift:fog-1",))
    table = BY_NAME["corruption_heatmap"].data(group)["tables"]["accuracy"]
    assert [table["rows"][name][0]["share"] for name in ("a", "b", "row")] == [0, 1, 1]
    assert table["orders"]["mean"]["values"] == {"a": 0.2, "b": 0.6, "row": 0.9}


def test_bars_carry_each_seed_by_its_own_name():
    rows = BY_NAME["calibration_bars"].data(numbers())["metrics"]["ece"]["rows"]
    assert [seed for seed, _ in rows["volta"]["seeds"]] == [1, 2, 3]
    assert [value for _, value in rows["volta"]["seeds"]] == pytest.approx([0.024, 0.022, 0.02])
    assert rows["volta"]["mean"] == pytest.approx(0.022)
    assert rows["volta"]["std"] == pytest.approx(0.002)
    ood = BY_NAME["ood_bars"].data(numbers())["metrics"]
    assert {key: metric["start"] for key, metric in ood.items()} == {"auroc@ood:near_set": 0.5, "auroc@ood:noise": 0.5}


def test_differences_say_which_way_is_better_and_where_the_axis_bends():
    table = BY_NAME["ablation_bars"].data(numbers())["tables"]["ece"]["volta"]
    assert [(row["better"], row["same"], row["significant"]) for row in table["rows"]] == [
        (False, False, True),
        (True, False, False),
    ]
    assert table["bend"] is None
    small = [change(f"x{i}", 0.001, 0.0, None, False) for i in range(4)]
    outlier = change("y", 0.7, 0.0, None, False)
    group = GroupNumbers(CONTEXT, numbers().methods, numbers().compared, ablation=(*small, outlier))
    assert BY_NAME["ablation_bars"].data(group)["tables"]["ece"]["volta"]["bend"] == 0.001


def test_parallel_ranks_are_among_the_compared_methods():
    data = BY_NAME["parallel_coordinates"].data(numbers())
    assert [axis["where"] for axis in data["axes"]] == ["", "", "near set"]
    ranks = np.array([line["ranks"] for line in data["lines"].values()])
    assert ranks[:4, 0] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert ranks[:4, 1] == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert ranks[4, 0] == 1
