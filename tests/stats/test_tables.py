import csv
import io

import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from volta.core.errors import InputError
from volta.stats import (
    AblationRow,
    CorruptionRow,
    SummaryRow,
    TestRow,
    compare_ablation,
    compare_with_baselines,
    group_records,
    rows_to_csv,
    summarise,
    summarise_corruptions,
)
from volta.stats.csv_rows import columns_of

from .builders import five, record, table

VOLTA_VALUES = five([0.90, 0.91, 0.92], [0.010, 0.012, 0.011])
ENERGY_VALUES = five([0.85, 0.86, 0.88], [0.030, 0.035, 0.041])


def by(rows, **wanted):
    (found,) = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return found


def test_tests_agree_with_scipy_and_holm_runs_over_the_whole_family():
    results = table(
        {"volta": VOLTA_VALUES, "energy": ENERGY_VALUES, "swag": five([0.9, 0.91, 0.93], [0.02, 0.01, 0.03])}
    )
    rows = compare_with_baselines([results])
    assert len(rows) == 10
    assert [row.metric for row in rows[::2]] == ["accuracy", "ece", "brier", "nll", "auroc"]
    row = by(rows, metric="ece", baseline="energy")
    reference = stats.ttest_ind(VOLTA_VALUES["ece"], ENERGY_VALUES["ece"], equal_var=False)
    assert row.p == pytest.approx(reference.pvalue, rel=1e-10)
    assert row.difference == pytest.approx(0.011 - 0.106 / 3)
    assert row.significant is True
    corrected = multipletests([one.p for one in rows], method="holm")[1]
    assert [one.p_holm for one in rows] == pytest.approx(list(corrected), rel=1e-10)
    assert [one.significant_holm for one in rows] == [bool(p < 0.05) for p in corrected]
    assert row.detectable_difference > 0
    assert row.hedges_g < 0
    assert by(rows, metric="auroc", baseline="energy").set == "ood:near"


def test_extra_methods_do_not_move_the_correction_of_the_papers_comparison():
    values = {"volta": VOLTA_VALUES, "energy": ENERGY_VALUES}
    alone = compare_with_baselines([table(values)])
    wider = table(values | {"knn": five([0.7, 0.8, 0.9], [0.1, 0.2, 0.3])})
    wider.origins["knn"] = "extra"
    rows = compare_with_baselines([wider])
    assert [row.p_holm for row in rows if row.baseline == "energy"] == [row.p_holm for row in alone]
    extra = [row for row in rows if row.baseline == "knn"]
    assert [row.p_holm for row in extra] == pytest.approx(
        list(multipletests([row.p for row in extra], method="holm")[1])
    )


def test_ablation_rows_are_no_baselines_and_extras_are():
    records = [
        record(name, seed, {"test": {"accuracy": 0.8 + seed / 100}}, origin=origin)
        for name, origin in (("volta", "volta"), ("ensemble", "extra"), ("volta-full", "ablation"))
        for seed in range(2)
    ]
    rows = compare_with_baselines(group_records(records))
    assert {row.baseline for row in rows} == {"ensemble"}


def test_one_seed_leaves_p_empty_and_says_why():
    rows = compare_with_baselines([table({"volta": five([0.9], [0.01]), "energy": five([0.8], [0.02])})])
    row = by(rows, metric="ece")
    assert (row.p, row.p_holm, row.significant, row.hedges_g, row.detectable_difference) == (None,) * 5
    assert row.difference == pytest.approx(-0.01)
    assert row.note == "one seed: no standard deviation, no test; no bootstrap was asked for"
    line = rows_to_csv(TestRow, [row]).splitlines()[1]
    assert line.startswith("digits,fair,ece,test,energy,1,1,0.01,0.02,-0.01,,,,,,,,,")


def test_no_variance_on_both_sides():
    constant = {"accuracy": [0.9] * 3, "ece": [0.01] * 3}
    rows = compare_with_baselines([table({"volta": constant, "energy": {"accuracy": [0.9] * 3, "ece": [0.02] * 3}})])
    equal, different = by(rows, metric="accuracy"), by(rows, metric="ece")
    assert (equal.p, equal.significant) == (1.0, False)
    assert "Hedges' g is undefined" in equal.note
    assert different.p is None
    assert "Welch's t is undefined" in different.note


def test_missing_seeds_and_metrics_are_noted():
    results = table({"volta": VOLTA_VALUES, "energy": {"accuracy": [0.8, 0.81]}})
    rows = compare_with_baselines([results])
    accuracy = by(rows, metric="accuracy")
    assert (accuracy.n_volta, accuracy.n_baseline) == (3, 2)
    assert "energy lacks seed(s) 2" in accuracy.note
    ece = by(rows, metric="ece")
    assert (ece.mean_volta, ece.mean_baseline, ece.difference) == (pytest.approx(0.011), None, None)
    assert ece.note == "no ece for energy"


def test_a_task_without_ood_sets_says_so():
    values = {name: column for name, column in VOLTA_VALUES.items() if name != "auroc"}
    rows = compare_with_baselines([table({"volta": values, "energy": values})])
    row = by(rows, metric="auroc")
    assert (row.set, row.note) == ("", "the task has no OOD set")


def test_near_sets_come_from_the_record_and_fall_back_to_the_first():
    metrics = {"test": {"accuracy": 0.9}, "ood:far": {"auroc": 0.9}, "ood:close": {"auroc": 0.8}}
    assert group_records([record("volta", 0, metrics, near=("close",))])[0].near_sets == ("ood:close",)
    assert group_records([record("volta", 0, metrics)])[0].near_sets == ("ood:far",)
    assert group_records([record("volta", 0, metrics, near=("gone",))])[0].near_sets == ("ood:far",)


def test_which_method_is_ours_is_said_by_its_origin_and_not_by_its_name():
    records = [
        record(name, seed, {"test": {"accuracy": 0.8 + seed / 100}}, origin=origin)
        for name, origin in (("energy", "paper"), ("successor", "volta"), ("volta-full", "ablation"))
        for seed in range(2)
    ]
    (results,) = group_records(records)
    assert results.ours == "successor"
    assert {row.baseline for row in compare_with_baselines([results])} == {"energy"}
    assert {(row.row, row.reference) for row in compare_ablation([results])} == {
        ("successor", "volta-full"),
        ("volta-full", "successor"),
    }
    assert group_records(records[:2])[0].ours is None


def test_without_volta_there_is_nothing_to_test():
    assert compare_with_baselines([table({"energy": ENERGY_VALUES})]) == []


def test_ablation_compares_with_the_full_model_and_with_volta():
    results = table(
        {
            "volta": VOLTA_VALUES,
            "energy": ENERGY_VALUES,
            "volta-full": ENERGY_VALUES,
            "volta-plus-margin": ENERGY_VALUES,
        }
    )
    rows = compare_ablation([results])
    assert {(row.row, row.reference) for row in rows} == {
        ("volta-plus-margin", "volta-full"),
        ("volta", "volta-full"),
        ("volta-full", "volta"),
        ("volta-plus-margin", "volta"),
    }
    same = by(rows, row="volta-plus-margin", reference="volta-full", metric="nll")
    assert same.p == pytest.approx(1.0)
    other = by(rows, row="volta-full", reference="volta", metric="ece")
    assert other.p == pytest.approx(stats.ttest_ind(ENERGY_VALUES["ece"], VOLTA_VALUES["ece"], equal_var=False).pvalue)
    family = [row for row in rows if row.reference == "volta"]
    assert [row.p_holm for row in family] == pytest.approx(
        list(multipletests([row.p for row in family], method="holm")[1])
    )
    assert compare_ablation([table({"volta": VOLTA_VALUES, "energy": ENERGY_VALUES})]) == []


def test_ablation_without_a_reference_says_so():
    rows = compare_ablation([table({"volta": VOLTA_VALUES, "volta-plus-margin": ENERGY_VALUES})])
    assert by(rows, row="volta-plus-margin", reference="volta-full", metric="ece").note == "no ece for volta-full"


def test_summary_has_mean_deviation_and_n():
    rows = summarise([table({"volta": VOLTA_VALUES, "energy": five([0.8], [0.02])})])
    row = by(rows, method="volta", metric="accuracy")
    assert (row.n, row.mean, row.std) == (3, pytest.approx(0.91), pytest.approx(0.01))
    single = by(rows, method="energy", metric="accuracy")
    assert (single.n, single.std) == (1, None)
    assert single.note.startswith("one seed")


def test_corruptions_are_split_by_name_and_severity_and_averaged():
    records = [
        record(
            "volta",
            seed,
            {
                "test": {"accuracy": 0.9},
                "shift:gaussian-noise-1": {"accuracy": 0.8 + seed / 10},
                "shift:blur-1": {"accuracy": 0.6},
                "shift:blur-5": {"accuracy": 0.4},
                "shift:night": {"accuracy": 0.5},
            },
        )
        for seed in range(2)
    ]
    rows = summarise_corruptions(group_records(records))
    noise = by(rows, corruption="gaussian-noise", severity=1)
    assert (noise.mean, noise.n) == (pytest.approx(0.85), 2)
    mean = by(rows, corruption="(mean)", severity=1)
    assert mean.mean == pytest.approx(0.725)
    assert mean.std == pytest.approx(0.05 / 2**0.5)
    assert by(rows, corruption="night").severity is None
    assert not [row for row in rows if row.corruption == "(mean)" and row.severity == 5]


def test_a_seed_without_every_corruption_is_left_out_of_the_average():
    sets = [{"shift:a-1": {"ece": 0.1}, "shift:b-1": {"ece": 0.3}}, {"shift:a-1": {"ece": 0.2}}]
    rows = summarise_corruptions(group_records([record("volta", seed, one) for seed, one in enumerate(sets)]))
    mean = by(rows, corruption="(mean)")
    assert (mean.n, mean.mean) == (1, pytest.approx(0.2))
    assert mean.note == "seeds without every corruption left out: 1; one seed: no standard deviation, no test"


def test_columns_are_fixed():
    assert ",".join(columns_of(TestRow)) == (
        "task,protocol,metric,set,baseline,n_volta,n_baseline,mean_volta,mean_baseline,difference,p,p_holm,hedges_g,"
        "significant,detectable_difference,boot_low,boot_high,significant_holm,note"
    )
    assert ",".join(columns_of(AblationRow)) == (
        "task,protocol,row,reference,metric,set,n,n_reference,mean,std,mean_reference,difference,p,p_holm,hedges_g,"
        "significant,detectable_difference,significant_holm,note"
    )
    assert ",".join(columns_of(SummaryRow)) == "task,protocol,method,set,metric,n,mean,std,note"
    assert ",".join(columns_of(CorruptionRow)) == "task,protocol,method,corruption,severity,metric,n,mean,std,note"


def test_csv_keeps_every_digit_and_quotes_commas():
    results = table({"volta": five([1 / 3, 0.4], [0.1, 0.2]), "energy": five([0.1, 0.2], [0.1, 0.2])})
    rows = compare_with_baselines([results])
    read = list(csv.DictReader(io.StringIO(rows_to_csv(TestRow, rows))))
    assert float(read[0]["mean_volta"]) == rows[0].mean_volta
    assert read[0]["note"] == rows[0].note
    assert read[0]["significant"] in ("true", "false")


def test_nan_never_reaches_a_file():
    rows = summarise([table({"volta": VOLTA_VALUES})])
    object.__setattr__(rows[0], "mean", float("nan"))
    with pytest.raises(InputError, match="column mean holds nan"):
        rows_to_csv(type(rows[0]), rows)


def test_bad_records_are_refused():
    good = record("volta", 0, {"test": {"ece": 0.1}})
    with pytest.raises(InputError, match=r"digits · fair · volta · seed 0 twice"):
        group_records([good, good])
    with pytest.raises(InputError, match="ece on test is inf"):
        group_records([record("volta", 0, {"test": {"ece": float("inf")}})])
