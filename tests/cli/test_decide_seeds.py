"""``volta bench --decide``: interim analyses, open questions, kept verdicts, resuming."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.report.synthetic import Plan, write_run
from volta.bench.store import RunStore
from volta.cli.main import app
from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.report.statistics import (
    StoredAnalyses,
    analyse,
    analysis_lines,
    answer_questions,
    comparison_key,
    compute_statistics,
    earlier_analyses,
    read_analyses,
)
from volta.stats.results import load_tables
from volta.stats.sequential import Question, alpha_at, analyses_up_to

METHODS = ("volta", "softmax", "temperature", "energy")


def asked(key, methods, verdicts):
    """A question whose verdict at each number of seeds is given; empty: undecided."""
    return lambda n: Question(key, methods, verdicts.get(n, ""), n, 17, f"{key} at {n}")


class Judge:
    """Answers from a list, and remembers what it was asked."""

    def __init__(self, *makers):
        self.makers = makers
        self.calls = []

    def __call__(self, seeds, alpha):
        self.calls.append((tuple(seeds), alpha))
        return [make(len(seeds)) for make in self.makers]


def decide_with(store, judge, schedule=(2, 3, 4)):
    """Make the interim analyses of a folder whose cells have all run; return what each one was on, and said."""
    ran, said, names, analysis = [], [], METHODS, None
    stored = earlier_analyses(store, schedule)
    for n_seeds in schedule:
        ran.append((names, first_seeds(n_seeds)))
        questions = judge(first_seeds(n_seeds), alpha_at(n_seeds, schedule))
        analysis = analyse(store, stored, questions, analysis, n_seeds, schedule)
        said += analysis_lines(analysis)
        if analysis.finished:
            break
        names = analysis.methods
    return ran, said


@pytest.fixture
def store(tmp_path):
    methods = tuple((name, name, "volta" if name == "volta" else "paper") for name in METHODS)
    return write_run(tmp_path / "run", Plan(methods=methods, seeds=first_seeds(4), n_rows=60))


def test_only_what_open_questions_need_goes_on_and_verdicts_stay(store):
    judge = Judge(
        asked("first", ("volta", "softmax"), {2: "supported", 3: "refuted"}),
        asked("second", ("volta", "energy"), {3: "equivalent"}),
        asked("third", ("volta",), {}),
    )
    ran, said = decide_with(store, judge)
    assert [seeds for _, seeds in ran] == [first_seeds(n) for n in (2, 3, 4)]
    assert ran[0][0] == METHODS
    assert set(ran[1][0]) == {"volta", "energy"}
    assert ran[2][0] == ("volta",)
    assert [alpha for _, alpha in judge.calls] == [alpha_at(n, (2, 3, 4)) for n in (2, 3, 4)]
    analyses = read_analyses(store)
    assert {question.key: (question.verdict, question.n_seeds) for question in analyses.decided} == {
        "first": ("supported", 2),
        "second": ("equivalent", 3),
    }
    assert (analyses.n_open, analyses.alpha) == (1, alpha_at(4, (2, 3, 4)))
    assert len(ran) == 3
    words = "\n".join(said)
    assert "interim analysis at 2 seeds, level" in words
    assert "1 of 3 questions decided" in words
    assert "about 17 seeds should decide it; the next analysis takes about" in words
    assert "the cap of 4 seeds is reached" in words


def test_the_cheapest_open_question_comes_first(store):
    for record in store.records():
        store.replace_record(replace(record, wall_s=100.0 if record.cell.method == "softmax" else 1.0))
    judge = Judge(asked("dear", ("softmax", "volta"), {}), asked("cheap", ("energy", "temperature"), {}))
    ran, said = decide_with(store, judge)
    assert ran[1][0] == ("energy", "temperature", "softmax", "volta")
    opened = [line for line in said if line.startswith("  open")]
    assert opened[0].endswith("cheap; about 17 seeds should decide it; the next analysis takes about 2 s on one worker")
    assert "1 min 41 s" in opened[1]


def test_verdicts_outlast_the_call_that_gave_them(store):
    first = Judge(
        asked("early", ("volta", "softmax"), {2: "supported"}), asked("late", ("volta", "energy"), {4: "supported"})
    )
    decide_with(store, first)
    kept = read_analyses(store)
    # What another version would say of the same seeds changes nothing that was decided.
    other = Judge(asked("early", ("volta", "softmax"), {}), asked("late", ("volta", "energy"), {2: "refuted"}))
    ran, _ = decide_with(store, other)
    assert read_analyses(store).decided == kept.decided
    assert [set(methods) for methods, _ in ran] == [set(METHODS), {"volta", "energy"}, {"volta", "energy"}]


@pytest.mark.parametrize("schedule", [(2, 3), (2, 3, 4, 8)])
def test_a_folder_has_one_schedule(store, schedule):
    judge = Judge(asked("open", ("volta", "softmax"), {}))
    decide_with(store, judge)
    before = read_analyses(store)
    with pytest.raises(InputError, match="pass --cap 4, or another --out"):
        decide_with(store, judge, schedule)
    assert len(judge.calls) == 3
    assert read_analyses(store) == before


def test_it_ends_as_soon_as_all_is_decided(store):
    ran, said = decide_with(store, Judge(asked("only", ("volta", "softmax"), {2: "supported"})))
    assert len(ran) == 1
    assert not any("continuing" in line for line in said)


def test_nothing_to_decide_is_said(store):
    with pytest.raises(InputError, match="--decide has no question"):
        decide_with(store, Judge())


def test_analyses_end_at_the_cap():
    assert analyses_up_to(5) == (5,)
    assert analyses_up_to(100) == (5, 10, 20, 40, 100)
    with pytest.raises(InputError, match="--cap is 1"):
        analyses_up_to(1)


def test_an_analysis_rests_on_its_own_seeds_whatever_more_there_is(tmp_path, store):
    methods = tuple((name, name, "volta" if name == "volta" else "paper") for name in METHODS)
    fewer = write_run(tmp_path / "fewer", Plan(methods=methods, seeds=first_seeds(2), n_rows=60))
    assert answer_questions(store, first_seeds(2), 0.01, n_resamples=20) == answer_questions(
        fewer, first_seeds(2), 0.01, n_resamples=20
    )


def test_named_comparisons_are_questions_where_the_paper_says_nothing(tmp_path):
    store = write_run(tmp_path / "own", Plan(tasks=("my-data",), n_rows=60))
    keys = [question.key for question in answer_questions(store, (42, 123, 456), 0.05, n_resamples=0)]
    assert "my-data · fair · accuracy · volta against softmax" in keys
    named = answer_questions(store, (42, 123, 456), 0.05, "softmax", n_resamples=0)
    assert {question.methods[0] for question in named} == {"softmax"}
    assert {question.verdict for question in named} <= {"", "better", "worse", "equivalent"}


def test_the_reports_comparisons_keep_the_verdicts_of_their_analyses(tmp_path):
    store = write_run(tmp_path / "own", Plan(tasks=("my-data",), n_rows=60))

    def found_with(*decided):
        return compute_statistics(store, load_tables(store), 0, analyses=StoredAnalyses((2, 3), 3, decided, 0))

    stats = found_with()
    key = "my-data · fair · accuracy · volta against softmax"
    row = next(row for row in stats.tests if comparison_key(row) == key)
    for verdict, shown in (("better", "better"), ("equivalent", "equivalent")):
        decided = Question(key, ("volta", "softmax"), verdict, 2, None, "")
        found = found_with(decided)
        kept = next(row for row in found.tests if comparison_key(row) == key)
        assert kept.verdict == shown
        assert kept.note.endswith(f"verdict of the interim analysis at 2 seeds, level {alpha_at(2, (2, 3)):.4f}")
        assert replace(kept, verdict=row.verdict, note=row.note) == row
        others = [row for row in stats.tests if comparison_key(row) != key]
        assert [row for row in found.tests if comparison_key(row) != key] == others
        assert {row.verdict for row in found.pairs if comparison_key(row) == key} == {verdict}
    turned = Question(key.replace("volta against softmax", "softmax against volta"), (), "worse", 2, None, "")
    assert next(row for row in found_with(turned).tests if comparison_key(row) == key).verdict == "better"
    assert found_with(Question(key, ("volta", "softmax"), "better", 3, None, "")).tests == stats.tests


def test_seeds_beyond_the_schedule_decide_nothing(tmp_path):
    store = write_run(tmp_path / "own", Plan(tasks=("my-data",), n_rows=60))
    key = "my-data · fair · accuracy · volta against softmax"
    decided = Question(key, ("volta", "softmax"), "better", 2, None, "")
    stats = compute_statistics(store, load_tables(store), 0, analyses=StoredAnalyses((2,), 2, (decided,), 3))
    found = {comparison_key(row): row for row in stats.tests}
    assert {row.n for row in found.values()} == {3}
    kept = found.pop(key)
    assert (kept.verdict, "verdict of the interim analysis at 2 seeds" in kept.note) == ("better", True)
    assert {row.verdict for row in found.values()} == {"inconclusive"}
    assert all("no verdict: 3 seeds, but the last interim analysis has 2" in row.note for row in found.values())


def test_seeds_and_decide_exclude_each_other():
    done = CliRunner().invoke(app, ["bench", "digits", "--decide", "--seeds", "3"])
    assert isinstance(done.exception, InputError)
    assert "exclude each other" in str(done.exception)


def test_an_unknown_reference_is_refused_before_anything_runs(tmp_path):
    options = ["--methods", "softmax", "--reference", "nobody", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["bench", "digits", *options])
    assert isinstance(done.exception, InputError)
    assert "--reference is 'nobody'; pass best, all, or a method of this run: softmax" in str(done.exception)
    assert not (tmp_path / "run").exists()


# Over two seconds: two rounds of real cells and a report.
@pytest.mark.usefixtures("quick_figures")
def test_on_digits_it_runs_analyses_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("volta.api.analyses_up_to", lambda cap: analyses_up_to(cap, (2, 3)))
    folder = tmp_path / "run"
    options = ["bench", "digits", "--decide", "--cap", "3", "--methods", "volta,temperature", "--max-epochs", "2"]
    command = [*options, "--executor", "local", "--out", str(folder)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "interim analysis at 2 seeds, level" in first.output
    store = RunStore(folder)
    analyses = read_analyses(store)
    assert analyses.schedule == (2, 3)
    assert analyses.n_seeds in (2, 3)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert analyses.sentence in page
    with (folder / "claims.csv").open(encoding="utf-8") as file:
        alphas = {float(row["alpha"]) for row in csv.DictReader(file)}
    assert alphas <= {alpha_at(n, (2, 3)) for n in (2, 3)}
    again = CliRunner().invoke(app, [*command, "--no-report"])
    assert "nothing to run" in again.output
    assert read_analyses(store) == analyses


def test_deciding_without_a_reference_is_refused_before_anything_runs(tmp_path):
    out = tmp_path / "run"
    done = CliRunner().invoke(app, ["bench", "digits", "--methods", "softmax,knn", "--decide", "--out", str(out)])
    assert isinstance(done.exception, InputError)
    assert "name one with --reference" in str(done.exception)
    assert not out.exists()
