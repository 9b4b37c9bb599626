from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.figures.style import metric_key
from volta.paper import EQUIVALENT, INCONCLUSIVE, NOT_RUN, REFUTED, SUPPORTED
from volta.report import export
from volta.report.leaderboard import leaderboard_table
from volta.report.page import group_view
from volta.report.result_tables import (
    ablation_table,
    baseline_table,
    ood_table,
    pair_matrix,
    paper_table,
    paper_tests_table,
    results_table,
    shifts_table,
)
from volta.report.run import HEADLINE, load_run
from volta.report.statistics import compute_statistics
from volta.report.table_model import TableCell, decimals_for, mark_best, show, show_number, show_p

from .synthetic import FULL, Plan, write_run


@pytest.fixture(scope="module")
def parts(small):
    run = load_run(small)
    return run.groups[0], compute_statistics(small, run.tables, 200).of("digits", "fair")


def column(table, key):
    place = [column.key for column in table.columns].index(key)
    return {row.name: row.cells[place] for row in table.rows}


def test_best_follows_the_direction_and_ties_share_it():
    cells = [TableCell("0.10", 0.1), TableCell("0.20", 0.2), TableCell("0.20", 0.2000001)]
    assert [cell.best for cell in mark_best(cells, True)] == [False, True, True]
    assert [cell.best for cell in mark_best(cells, False)] == [True, False, False]
    assert not any(cell.best for cell in mark_best(cells, None))
    assert not any(cell.best for cell in mark_best(cells[:1], True))


def test_results_hold_mean_deviation_and_each_seed(parts):
    group, own = parts
    table = results_table(group, own)
    cell = column(table, "ece")["volta"]
    values = group.values("volta", "ece")
    assert cell.value == pytest.approx(sum(values) / 3)
    assert cell.tip.splitlines()[:3] == [
        f"seed {seed}: {value:.3f}" for seed, value in zip((42, 123, 456), values, strict=True)
    ]
    best = [name for name, cell in column(table, "accuracy").items() if cell.best]
    means = {name: cell.value for name, cell in column(table, "accuracy").items()}
    assert max(means, key=means.get) in best
    assert [row.name for row in table.rows] == ["volta", "softmax", "temperature", "mahalanobis"]
    assert table.families[0] == ("headline", "Headline")


def test_marks_follow_the_tests(parts):
    group, own = parts
    table = results_table(group, own)
    for test in own.tests:
        key = test.metric if test.set == "test" else f"{test.metric}@{test.set}"
        mark = column(table, key)[test.method].mark
        assert mark == ("†" if test.verdict in ("better", "worse") else "")


def test_tests_say_what_could_have_been_seen(parts):
    group, own = parts
    table = baseline_table(group, own)
    assert len(table.rows) == len(own.tests) == 18
    first = table.rows[0].cells
    keys = [column.key for column in table.columns]
    assert first[keys.index("detectable_difference")].value == own.tests[0].detectable_difference
    assert first[keys.index("interval")].text.startswith("[")


def test_ablation_has_the_full_model_and_volta(parts):
    group, own = parts
    table = ablation_table(group, own.ablation)
    assert {row.name for row in table.rows} == {
        "volta",
        "volta-full",
        *(f"volta-full-no-{x}" for x in ("adaptive-temperature", "margin")),
    }
    assert "against VOLTA" in column(table, "ece")["volta-full"].tip


@pytest.fixture(scope="module")
def with_variants(tmp_path_factory):
    methods = (*Plan().methods, ("energy", "Energy", "paper"))
    store = write_run(tmp_path_factory.mktemp("variants") / "run", Plan(variants=True, methods=methods))
    run = load_run(store)
    return run.groups[0], compute_statistics(store, run.tables, 100).of("digits", "fair")


def test_columns_after_one_temperature_stand_where_the_records_have_them(parts, with_variants):
    group, own = with_variants
    table = results_table(group, own)
    headings = {column.key: column.label for column in table.columns}
    assert headings["ece@test+T"] == "ECE+T ↓"
    assert headings["nll@test+T"] == "NLL+T ↓"
    assert headings["brier@test+T"] == "Brier+T ↓"
    assert headings["aurc@test+msp"] == "AURC × 1000 (by 1 − max p) ↓"
    assert headings["auroc@near:"] == "AUROC (near OOD) ↑"
    headline = [column.key for column in table.columns if "headline" in column.families]
    assert headline == [*HEADLINE, "auroc@near:", "fpr95@near:"]
    group, own = parts
    assert not any("+T" in column.key for column in results_table(group, own).columns)
    assert group.ood_means == ()


def test_near_and_far_stand_side_by_side_in_a_compact_table(with_variants):
    group, _ = with_variants
    table = ood_table(group)
    wanted = ("auroc", "aupr_out", "fpr95", "oscr", "scod_aurc")
    assert [column.key for column in table.columns[1:]] == [f"{m}@{w}" for m in wanted for w in ("near:", "far:")]
    assert column(table, "auroc@far:")["volta"].value == pytest.approx(np.mean(group.values("volta", "auroc@far:")))


def test_the_leaderboard_is_in_order_of_rank_with_the_confidence_set_in_bold(with_variants):
    group, own = with_variants
    table = leaderboard_table(group, own.leaderboard, 0.05)
    ranks = [cell.value for cell in column(table, "rank").values()]
    assert ranks == sorted(ranks)
    for row in own.leaderboard:
        if row.metric != "(overall)":
            cell = column(table, metric_key(row.metric, row.set))[row.method]
            assert cell.best is row.in_confidence_set
            assert f"rank {row.rank:g} of {row.n_ranked}" in cell.tip
    keys = [column.key for column in table.columns]
    ranked = ["accuracy", "ece@test+T", "nll@test+T", "aurc", "auroc@near:", "auroc@far:"]
    assert keys == ["method", "rank", "mean_rank", *ranked, "train_s", "latency_ms"]
    mean_rank = column(table, "mean_rank")[table.rows[0].name]
    assert mean_rank.text.endswith(")")
    assert "95 % confidence set" in table.legend


def test_own_data_has_a_leaderboard_and_no_claims(folder):
    store = write_run(folder, Plan(tasks=("my-data",), seeds=(1, 2), n_rows=60))
    run = load_run(store)
    view = group_view(run.groups[0], compute_statistics(store, run.tables, 0).of(run.groups[0].task, "fair"))
    keys = [part.key for part in view.parts]
    assert "claims" not in keys
    assert keys[0] == "leaderboard"
    assert view.finding.startswith("On my-data, ")


def test_one_seed_has_ranks_but_no_confidence_set(folder):
    store = write_run(folder, Plan(seeds=(1,), n_rows=60))
    run = load_run(store)
    own = compute_statistics(store, run.tables, 0).of(run.groups[0].task, "fair")
    table = leaderboard_table(run.groups[0], own.leaderboard, 0.05)
    assert "One seed gives no confidence set" in table.legend
    assert not any(cell.best for row in table.rows for cell in row.cells)


def test_verdicts_are_shown_as_they_are_stored(parts):
    group, own = parts
    table = baseline_table(
        group, replace(own, tests=[replace(own.tests[0], verdict=word) for word in ("equivalent", "worse")])
    )
    assert [(cell.text, cell.tone) for cell in (row.cells[3] for row in table.rows)] == [
        ("equivalent", "equivalent"),
        ("worse", "worse"),
    ]
    verdicts = (NOT_RUN, SUPPORTED, REFUTED, EQUIVALENT, INCONCLUSIVE, SUPPORTED)
    claims = [replace(own.claims[0], verdict=verdict) for verdict in verdicts]
    view = group_view(group, replace(own, claims=claims))
    (part,) = [part for part in view.parts if part.key == "claims"]
    assert part.claims == claims
    assert part.title == "The paper’s claims: 2 supported, 1 refuted, 1 equivalent, 1 inconclusive, 1 not run"


def test_a_run_without_our_method_is_tested_against_its_best(tmp_path):
    methods = (("softmax", "Softmax", "paper"), ("knn", "kNN", "extra"))
    store = write_run(tmp_path / "run", Plan(methods=methods, seeds=(1, 2, 3), n_rows=60))
    run = load_run(store)
    own = compute_statistics(store, run.tables, 0).of("digits", "fair")
    assert {test.reference for test in own.tests} <= {"softmax", "knn"}
    assert own.tests
    legend = results_table(run.groups[0], own).legend
    assert "better or worse than" in legend
    assert "VOLTA" not in legend
    assert "better or worse than" not in results_table(run.groups[0], replace(own, tests=[], paper=[])).legend


def test_any_method_can_be_the_reference(small):
    run = load_run(small)
    group = run.groups[0]
    own = compute_statistics(small, run.tables, 0, "temperature").of("digits", "fair")
    table = baseline_table(group, own)
    assert table.caption == "Temperature scaling against each other method"
    assert {test.method for test in own.tests} == {"volta", "softmax", "mahalanobis"}
    assert "better or worse than Temperature scaling" in results_table(group, own).legend
    own = compute_statistics(small, run.tables, 0, "best").of("digits", "fair")
    assert baseline_table(group, own).caption == "The best method against each other method"
    with pytest.raises(InputError, match="reference is 'nobody'; pass best or one of the methods run"):
        compute_statistics(small, run.tables, 0, "nobody")


def test_all_pairs_are_a_matrix_with_both_directions(small):
    run = load_run(small)
    group = run.groups[0]
    own = compute_statistics(small, run.tables, 50, "all").of("digits", "fair")
    table = pair_matrix(group, own.pairs)
    assert [row.name for row in table.rows] == list(group.compared)
    assert ("ece", "ECE") in table.families
    there = column(table, "ece|softmax")["volta"]
    back = column(table, "ece|volta")["softmax"]
    assert there.value == -back.value
    assert {there.tone, back.tone} in ({"inconclusive"}, {"equivalent"}, {"better", "worse"})
    assert "Hedges" in there.tip
    view = group_view(group, own)
    assert next(part for part in view.parts if part.key == "tests").table.key == "pairs-digits-fair"
    assert export(small, "md", reference="all").count("### All pairs, ") == len(table.families)


def test_shifts_have_a_family_per_metric(parts):
    table = shifts_table(parts[0])
    assert [key for key, _ in table.families] == ["accuracy", "ece", "nll", "brier"]
    assert {column.where or column.heading for column in table.columns[1:]} == {
        "blur-1",
        "blur-3",
        "noise-1",
        "noise-3",
    }


def test_many_shifts_are_averaged_over_severities(folder):
    shifts = tuple(
        f"{name}-{severity}"
        for name in ("fog", "snow", "jpeg", "noise", "blur", "rain", "dust")
        for severity in range(1, 6)
    )
    group = load_run(write_run(folder, Plan(shifts=shifts, seeds=(1, 2), n_rows=40))).groups[0]
    table = shifts_table(group)
    assert len(table.columns) == 1 + 4 * 7
    expected = sum(sum(group.values("volta", f"accuracy@shift:fog-{s}")) for s in range(1, 6)) / 10
    assert column(table, "accuracy@shift:fog")["volta"].value == pytest.approx(expected)


def test_the_papers_values_stand_beside_ours(folder):
    store = write_run(
        folder, Plan(tasks=("cifar10",), methods=FULL.methods[:3], ood=("cifar100",), seeds=(1, 2), n_rows=60)
    )
    run = load_run(store)
    group = run.groups[0]
    own = compute_statistics(store, run.tables, 0).of(group.task, group.protocol)
    assert column(results_table(group, own), "accuracy")["volta"].paper == "0.877 ± 0.005"
    table = paper_table(group, own.paper)
    # The text prints .0098, the table .0100: what stands beside ours is the table's.
    assert [row.cells[2].text for row in table.rows if row.name == "volta ece"] == ["0.0098", "0.01"]
    row = next(row for row in reversed(table.rows) if row.name == "volta ece")
    assert row.cells[3].value == pytest.approx(sum(group.values("volta", "ece")) / 2)


def test_the_papers_tests_are_recomputed_with_ours_beside_them(folder):
    plan = Plan(tasks=("cifar10", "digits"), methods=FULL.methods[:3], ood=("cifar100",), seeds=(1, 2), n_rows=60)
    store = write_run(folder, plan)
    run = load_run(store)
    stats = compute_statistics(store, run.tables, 0)
    group = run.groups[0]
    own = stats.of(group.task, group.protocol)
    table = paper_tests_table(group, own.tests, own.ablation)
    found = {row.name: dict(zip([c.key for c in table.columns], row.cells, strict=True)) for row in table.rows}
    swag = found["volta swag ece"]
    assert (swag["statement"].text, swag["p"].text, swag["range"].text) == ("p < 0.05", "0.003", "0.002 to 0.004")
    test = next(test for test in own.tests if (test.method, test.metric, test.set) == ("swag", "ece", "test"))
    assert (swag["p_welch"].value, swag["p_holm"].value) == (test.p_welch, test.p)
    assert found["volta enn ece"]["verdict"].text == "–"
    assert found["volta-full volta-full-shallow nll"]["statement"].text == "p = 0.0101"
    assert paper_tests_table(run.groups[1], own.tests, own.ablation) is None


@pytest.mark.parametrize(
    ("value", "text"), [(0.0071187, "0.00712"), (12.345, "12.3"), (0, "0"), (1234.5, "1234"), (1e-7, "1e-07")]
)
def test_costs_have_three_digits(value, text):
    assert show_number(value) == text


def test_formats():
    assert show("ece", 0.01234, 4) == "0.0123"
    assert show("ece", 0.00001234, 6) == "0.000012"
    assert show("latency_ms", 0.0071187) == "7.12 µs"
    assert [decimals_for("ece", means) for means in ([0.5], [0.01, 0.002], [0.001], [])] == [3, 4, 5, 3]
    assert (decimals_for("aurc", [0.0123]), show("aurc", 0.0123, 1)) == (1, "12.3")
    assert [show_p(p) for p in (None, 0.0001, 0.0421)] == ["–", "< 0.001", "0.042"]
    assert [show_p(p) for p in (0.0, 1e-17, 1e-15)] == ["< 1e-16", "< 1e-16", "< 0.001"]


def test_csv_files_are_written_and_optional_ones_only_if_they_hold_rows(small, folder):
    names = {path.name for path in small.root.iterdir()}
    assert {
        "results.csv",
        "summary.csv",
        "tests.csv",
        "ablation.csv",
        "corruptions.csv",
        "claims.csv",
        "ranks.csv",
    } <= names
    rows = list(csv.DictReader(io.StringIO((small.root / "tests.csv").read_text(encoding="utf-8"))))
    assert {row["method"] for row in rows} == {"softmax", "temperature", "mahalanobis"}
    assert "paper.csv" not in names
