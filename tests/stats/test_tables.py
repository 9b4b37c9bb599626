import csv
import io
import math
from dataclasses import replace

import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from volta.core.errors import InputError
from volta.stats.comparisons import (
    AblationRow,
    PairTest,
    TestRow,
    against_reference,
    check_reference,
    compare_ablation,
    compare_all_pairs,
    without_rows,
)
from volta.stats.ranking import make_leaderboard
from volta.stats.results import (
    CorruptionRow,
    SummaryRow,
    columns_of,
    group_records,
    rows_to_csv,
    summarise,
    summarise_corruptions,
)
from volta.stats.tests import Estimate

from .builders import five, record, table

VOLTA_VALUES = five([0.90, 0.91, 0.92], [0.010, 0.012, 0.011])
ENERGY_VALUES = five([0.85, 0.86, 0.88], [0.030, 0.035, 0.041])


def compare_with_reference(tables, bootstraps=None, reference=None):
    return against_reference(tables, compare_all_pairs(tables, bootstraps), reference)


def by(rows, **wanted):
    (found,) = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return found


def test_tests_are_paired_over_seeds_with_welch_beside_and_holm_within_a_metric():
    results = table(
        {"volta": VOLTA_VALUES, "energy": ENERGY_VALUES, "swag": five([0.9, 0.91, 0.93], [0.02, 0.01, 0.03])}
    )
    rows = compare_with_reference([results])
    assert len(rows) == 12
    assert [row.metric for row in rows[::2]] == ["accuracy", "ece", "brier", "nll", "auroc", "aurc"]
    row = by(rows, metric="ece", method="energy")
    assert row.p == pytest.approx(stats.ttest_rel(VOLTA_VALUES["ece"], ENERGY_VALUES["ece"]).pvalue, rel=1e-10)
    welch = stats.ttest_ind(VOLTA_VALUES["ece"], ENERGY_VALUES["ece"], equal_var=False)
    assert row.p_welch == pytest.approx(welch.pvalue, rel=1e-10)
    assert (row.paired, row.n) == (True, 3)
    assert row.difference == pytest.approx(0.011 - 0.106 / 3)
    assert row.gain == pytest.approx(-row.difference)
    interval = stats.ttest_rel(VOLTA_VALUES["ece"], ENERGY_VALUES["ece"]).confidence_interval()
    assert (row.low, row.high) == pytest.approx((interval.low, interval.high))
    family = [one for one in rows if one.metric == "ece"]
    assert {one.family for one in family} == {"volta · ece · test · paper"}
    corrected = multipletests([one.p for one in family], method="holm")[1]
    assert [one.p_holm for one in family] == pytest.approx(list(corrected), rel=1e-10)
    assert {one.verdict for one, p in zip(family, corrected, strict=True) if p < 0.05} == {"better"}
    assert row.detectable_difference > 0
    assert row.hedges_g < 0
    assert (row.verdict, row.margin) == ("better", 0.01)
    assert by(rows, metric="auroc", method="energy").set == "ood:near"


def test_equivalence_is_two_one_sided_tests():
    values = {"volta": {"ece": [0.0100, 0.0104, 0.0101, 0.0099]}, "energy": {"ece": [0.0110, 0.0108, 0.0113, 0.0106]}}
    (row,) = [row for row in compare_with_reference([table(values)]) if row.metric == "ece"]
    differences = [a - b for a, b in zip(values["volta"]["ece"], values["energy"]["ece"], strict=True)]
    sides = [
        stats.ttest_1samp(differences, -0.01, alternative="greater").pvalue,
        stats.ttest_1samp(differences, 0.01, alternative="less").pvalue,
    ]
    assert row.p_equivalence == pytest.approx(max(sides), rel=1e-9)
    # Significant, but shown to be too small to matter.
    assert (row.p < 0.05, row.verdict) == (True, "equivalent")


def test_any_reference_the_best_and_all_pairs():
    values = {
        "volta": five([0.90, 0.91, 0.92, 0.90], [0.010, 0.012, 0.011, 0.011]),
        "energy": five([0.85, 0.86, 0.88, 0.85], [0.030, 0.035, 0.041, 0.031]),
        "copy": five([0.85, 0.86, 0.88, 0.85], [0.030, 0.035, 0.041, 0.031]),
    }
    results = table(values)
    rows = compare_with_reference([results], reference="energy")
    row = by(rows, metric="ece", method="volta")
    assert (row.reference, row.verdict) == ("energy", "worse")
    same = by(rows, metric="ece", method="copy")
    assert (same.p, same.verdict, same.note.split(";")[0]) == (1.0, "equivalent", "equal in every seed")
    best = by(compare_with_reference([results], reference="best"), metric="ece", method="energy")
    # Copies count once, so that the family is one test.
    assert (best.reference, best.family, best.verdict) == ("volta", "volta · ece · test · paper", "better")
    assert best.p_holm == pytest.approx(stats.ttest_rel(values["volta"]["ece"], values["energy"]["ece"]).pvalue)
    pairs = [row for row in compare_all_pairs([results]) if row.metric == "ece"]
    assert [(row.reference, row.method) for row in pairs] == [
        ("volta", "energy"),
        ("volta", "copy"),
        ("energy", "copy"),
    ]
    assert pairs[0].p_holm == pairs[1].p_holm == pytest.approx(pairs[0].p)
    assert [pair.family for pair in pairs[1:]] == ["volta · ece · test · paper", "other pairs · ece · test"]
    assert {pair.family for pair in compare_all_pairs([table({"energy": ENERGY_VALUES, "swag": VOLTA_VALUES})])} >= {
        "all pairs · ece · test"
    }
    assert compare_with_reference([results], reference="nobody") == []
    with pytest.raises(InputError, match="reference is 'nobody'; pass best or one of the methods run: volta, energy"):
        check_reference([results], "nobody")


def test_unshared_seeds_are_compared_as_welch_does():
    records = [
        record(name, seed, {"test": {"accuracy": value}})
        for name, seeds, values in (("volta", (0, 1, 2), (0.9, 0.91, 0.92)), ("swag", (7, 8, 9), (0.8, 0.83, 0.82)))
        for seed, value in zip(seeds, values, strict=True)
    ]
    row = by(compare_with_reference(group_records(records)), metric="accuracy")
    assert (row.paired, row.p) == (False, pytest.approx(row.p_welch))
    assert "no two shared seeds: not paired" in row.note


def test_extra_methods_do_not_move_the_correction_of_the_papers_comparison():
    values = {"volta": VOLTA_VALUES, "energy": ENERGY_VALUES}
    alone = compare_with_reference([table(values)])
    wider = table(values | {"knn": five([0.7, 0.8, 0.9], [0.1, 0.2, 0.3])})
    wider.origins["knn"] = "extra"
    rows = compare_with_reference([wider])
    assert [row.p_holm for row in rows if row.method == "energy"] == [row.p_holm for row in alone]
    assert by(rows, method="knn", metric="ece").family == "volta · ece · test · extra"


def test_ablation_rows_are_no_baselines_and_extras_are():
    records = [
        record(name, seed, {"test": {"accuracy": 0.8 + seed / 100}}, origin=origin)
        for name, origin in (("volta", "volta"), ("ensemble", "extra"), ("volta-full", "ablation"))
        for seed in range(2)
    ]
    rows = compare_with_reference(group_records(records))
    assert {row.method for row in rows} == {"ensemble"}


def test_one_seed_leaves_p_empty_and_says_why():
    rows = compare_with_reference([table({"volta": five([0.9], [0.01]), "energy": five([0.8], [0.02])})])
    row = by(rows, metric="ece")
    assert (row.p, row.p_holm, row.hedges_g, row.detectable_difference) == (None,) * 4
    assert row.difference == pytest.approx(-0.01)
    assert row.verdict == "inconclusive"
    assert row.note == "one seed: no standard deviation, no test"
    line = rows_to_csv(TestRow, [row]).splitlines()[1]
    assert line.startswith(
        "digits,fair,ece,test,volta,energy,1,1,1,0.01,0.02,-0.01,,true,,volta · ece · test · paper,,"
    )


def test_no_variance_on_both_sides():
    constant = {"accuracy": [0.9] * 3, "ece": [0.01] * 3}
    rows = compare_with_reference([table({"volta": constant, "energy": {"accuracy": [0.9] * 3, "ece": [0.02] * 3}})])
    equal, different = by(rows, metric="accuracy"), by(rows, metric="ece")
    assert (equal.p, equal.verdict) == (1.0, "equivalent")
    assert "equal in every seed" in equal.note
    assert (different.p, different.verdict) == (None, "inconclusive")
    assert "the same difference in every seed: t is undefined" in different.note


def test_missing_seeds_and_metrics_are_noted():
    results = table({"volta": VOLTA_VALUES, "energy": {"accuracy": [0.8, 0.81]}})
    rows = compare_with_reference([results])
    accuracy = by(rows, metric="accuracy")
    assert (accuracy.n_reference, accuracy.n_method) == (3, 2)
    assert "energy lacks seed(s) 2" in accuracy.note
    ece = by(rows, metric="ece")
    assert (ece.mean_reference, ece.mean_method, ece.difference) == (pytest.approx(0.011), None, None)
    assert ece.note == "no ece for energy"


def test_a_task_without_ood_sets_says_so():
    values = {name: column for name, column in VOLTA_VALUES.items() if name != "auroc"}
    rows = compare_with_reference([table({"volta": values, "energy": values})])
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
    assert {row.method for row in compare_with_reference([results])} == {"energy"}
    assert {(row.row, row.reference) for row in compare_ablation([results])} == {
        ("volta-full", "successor"),
    }
    assert group_records(records[:2])[0].ours is None


def test_without_volta_there_is_nothing_to_test():
    assert compare_with_reference([table({"energy": ENERGY_VALUES})]) == []


def test_ablation_compares_with_the_full_model_and_with_volta():
    results = table(
        {
            "volta": VOLTA_VALUES,
            "energy": ENERGY_VALUES,
            "volta-full": ENERGY_VALUES,
            "volta-add-margin": ENERGY_VALUES,
        }
    )
    rows = compare_ablation([results])
    assert {(row.row, row.reference) for row in rows} == {
        ("volta-add-margin", "volta-full"),
        ("volta-full", "volta"),
        ("volta-add-margin", "volta"),
    }
    same = by(rows, row="volta-add-margin", reference="volta-full", metric="nll")
    assert same.p == pytest.approx(1.0)
    other = by(rows, row="volta-full", reference="volta", metric="ece")
    assert other.p == pytest.approx(stats.ttest_rel(ENERGY_VALUES["ece"], VOLTA_VALUES["ece"]).pvalue)
    welch = stats.ttest_ind(ENERGY_VALUES["ece"], VOLTA_VALUES["ece"], equal_var=False)
    assert other.p_welch == pytest.approx(welch.pvalue)
    family = [row for row in rows if row.reference == "volta"]
    assert [row.p_holm for row in family] == pytest.approx(
        list(multipletests([row.p for row in family], method="holm")[1])
    )
    assert compare_ablation([table({"volta": VOLTA_VALUES, "energy": ENERGY_VALUES})]) == []


def test_ablation_without_a_reference_says_so():
    rows = compare_ablation([table({"volta": VOLTA_VALUES, "volta-add-margin": ENERGY_VALUES})])
    assert by(rows, row="volta-add-margin", reference="volta-full", metric="ece").note == "no ece for volta-full"


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
        "task,protocol,metric,set,reference,method,n,n_reference,n_method,mean_reference,mean_method,difference,gain,"
        "paired,p,family,p_holm,p_welch,hedges_g,detectable_difference,low,high,boot_low,"
        "boot_high,margin,p_equivalence,verdict,note"
    )
    assert ",".join(columns_of(AblationRow)) == (
        "task,protocol,row,reference,metric,set,n,n_reference,n_shared,mean,std,mean_reference,difference,paired,p,p_holm,"
        "p_welch,hedges_g,detectable_difference,p_equivalence,verdict,note"
    )
    assert ",".join(columns_of(SummaryRow)) == "task,protocol,method,set,metric,n,mean,std,note"
    assert ",".join(columns_of(CorruptionRow)) == "task,protocol,method,corruption,severity,metric,n,mean,std,note"


def test_csv_keeps_every_digit_and_quotes_commas():
    results = table({"volta": five([1 / 3, 0.4], [0.1, 0.2]), "energy": five([0.1, 0.2], [0.1, 0.2])})
    rows = compare_with_reference([results])
    read = list(csv.DictReader(io.StringIO(rows_to_csv(TestRow, rows))))
    assert float(read[0]["mean_reference"]) == rows[0].mean_reference
    assert read[0]["note"] == rows[0].note
    assert read[0]["paired"] in ("true", "false")


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


@pytest.mark.parametrize("n_rows", [100, 200, 300, 500, 1000])
def test_few_rows_that_differ_little_are_no_proof_of_equality(n_rows):
    """Of two models as they are, one wrong on 1 % of all rows where the other is right: exactly the margin."""
    share = 0.0
    for n_differing in range(n_rows + 1):
        value = n_differing / n_rows
        estimate = Estimate(value, 1, 0.0, 0.0, math.sqrt((value - value**2) / n_rows), n_rows)
        test = PairTest("a", "b", "accuracy", "test", 1, None, None, gain=estimate)
        if test.p_equivalent < 0.05:
            share += float(stats.binom.pmf(n_differing, n_rows, 0.01))
    assert share <= 0.055


def test_rows_none_of_which_differs_prove_as_much_as_there_are_of_them():
    same = Estimate(0.0, 5, 0.0, 4.0, 0.0)
    assert same.p_equivalent(0.01) == 0.0
    assert replace(same, n_rows=2).p_equivalent(0.01) == pytest.approx(0.99**2)
    assert replace(same, n_rows=10_000).p_equivalent(0.01) < 1e-40


def test_without_knowing_what_new_rows_would_do_nothing_is_tested():
    found = table({"volta": five([0.9, 0.91, 0.9], [0.01] * 3), "swag": five([0.8, 0.81, 0.8], [0.02] * 3)})
    bootstraps = without_rows([found])
    (row,) = [row for row in compare_with_reference([found], bootstraps) if row.metric == "accuracy"]
    assert (row.p, row.p_equivalence, row.verdict) == (None, None, "inconclusive")
    assert row.p_welch < 0.01
    assert "rows not resampled" in row.note
    assert {(row.in_confidence_set, row.low) for row in make_leaderboard([found], bootstraps)} == {(None, None)}
