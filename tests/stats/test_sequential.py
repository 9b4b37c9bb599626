import pytest

from volta.core.errors import InputError
from volta.stats.sequential import SCHEDULE, Question, alpha_at, decide, next_analysis


def question(key, verdict="", methods=("a", "b"), needed=None):
    return Question(key, methods, verdict, 5, needed, "figures")


def test_analyses_follow_each_other_to_the_cap():
    assert [next_analysis(n) for n in (0, 5, 7, 39, 40)] == [5, 10, 10, 40, None]


def test_what_is_spent_sums_to_alpha():
    assert sum(alpha_at(n) for n in SCHEDULE) == pytest.approx(0.05)
    assert sum(alpha_at(n, (3, 6), 0.1) for n in (3, 6)) == pytest.approx(0.1)
    assert alpha_at(12, (12,)) == pytest.approx(0.05)


def test_a_verdict_stays_and_the_cheapest_open_question_comes_first():
    first = decide([question("x", "supported"), question("y"), question("z", methods=("c",))], None, 5)
    assert [one.key for one in first.decided] == ["x"]
    assert (first.n_seeds, first.next_analysis, first.finished) == (5, 10, False)
    second = decide(
        [question("x", "refuted"), question("y"), question("z", methods=("c",))],
        first,
        10,
        seconds={"a": 5.0, "b": 1.0, "c": 2.0},
    )
    assert [(one.key, one.verdict, one.n_seeds) for one in second.decided] == [("x", "supported", 5)]
    assert [one.key for one in second.open] == ["z", "y"]
    assert second.cost_s == {"y": 60.0, "z": 20.0}
    assert second.methods == ("c", "a", "b")
    last = decide([question("y"), question("z", "supported")], second, 40)
    assert [one.key for one in last.decided] == ["x", "z"]
    assert last.finished
    assert last.next_analysis is None


def test_without_times_the_question_nearest_to_its_verdict_comes_first():
    report = decide([question("far", needed=None), question("mid", needed=30), question("near", needed=9)], None, 5)
    assert [one.key for one in report.open] == ["near", "mid", "far"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: alpha_at(6), "interim analyses are at 5, 10, 20, 40 seeds"),
        (lambda: alpha_at(5, alpha=2), "alpha is 2"),
    ],
)
def test_bad_input_is_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()
