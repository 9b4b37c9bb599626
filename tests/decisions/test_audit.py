"""`volta.audit`: it accuses nobody who keeps to what is stated, finds those who do not, and shows how."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats

import volta
from volta.decisions import audit as module
from volta.decisions import fit_ood

LEVEL, CONFIDENCE = 0.1, 0.9
N_ATTACKS = 4


def class_in_row(rng, n_rows, n_new):
    """Rows that hold their class, so that a rule may err exactly as often as it wants to."""
    y = rng.integers(2, size=n_rows + n_new)
    return y[:, None].astype(float), y


PLAIN = [volta.Attack(f"attack {number}", class_in_row, (10,)) for number in range(N_ATTACKS)]


def beta_law(rng):
    """The law of a conformal rule's rate given 9 calibration rows, its mean the level."""
    return rng.beta(1, 9)


def all_or_nothing(rng):
    return float(rng.random() < LEVEL)


def constant(rng):
    return LEVEL


def exactly_at_the_confidence(rng):
    """A rate above the level in one draw of ten, and at the level itself in all others."""
    return 1.0 if rng.random() < 1 - CONFIDENCE else LEVEL


def oracle(claim, law, seed):
    """Return a rule whose failure rate over draws of its seed has mean LEVEL exactly."""
    rng = np.random.default_rng(seed)
    rate = law(rng)

    def rule(x):
        fails, classes = rng.random(len(x)) < rate, x[:, 0].astype(int)
        if claim in ("coverage", "class_coverage"):
            return (classes[:, None] == np.arange(2)) ^ fails[:, None]
        if claim == "false_alarms":
            return fails
        if claim == "selective_risk":
            return np.where(rng.random(len(x)) < 0.3, -1, np.where(fails, 1 - classes, classes))
        if claim == "fdr":
            return (np.arange(len(x)) == 1) & fails[0]
        return np.arange(len(x)) == (5 if fails[0] else -1)

    return rule


def audit_of_oracle(claim, law, confidence, seed, draws=40, n_new=50):
    def fit(x, y, fit_seed):
        return oracle(claim, law, fit_seed)

    level = 1 - LEVEL if claim in ("coverage", "class_coverage") else LEVEL
    return volta.audit(fit, claim, level, confidence=confidence, attacks=PLAIN, draws=draws, n_new=n_new, seed=seed)


ORACLES = [
    ("coverage", beta_law, None),
    ("class_coverage", all_or_nothing, None),
    ("false_alarms", beta_law, None),
    ("false_alarms", all_or_nothing, None),
    ("selective_risk", constant, None),
    ("fdr", all_or_nothing, None),
    ("ever_alarm", beta_law, None),
    ("false_alarms", exactly_at_the_confidence, CONFIDENCE),
    ("selective_risk", exactly_at_the_confidence, CONFIDENCE),
]


def accusations(case, n_audits):
    return sum(audit_of_oracle(*case, seed).verdict == "broken" for seed in range(n_audits))


@pytest.mark.parametrize("case", ORACLES)
def test_an_exact_oracle_is_not_accused(case):
    assert accusations(case, 3) == 0


@pytest.mark.slow
@pytest.mark.validity
@pytest.mark.parametrize("case", ORACLES)
def test_an_exact_oracle_is_accused_in_one_audit_of_a_hundred_at_most(case):
    assert accusations(case, 300) <= stats.binom(300, 0.01).isf(1e-4)


def test_the_interval_holds_the_rate_of_bounded_means():
    """Over many draws both ends miss the true mean at most as often as they may. A second: 800 bisections."""
    rng, tail, missed = np.random.default_rng(0), 0.05, np.zeros(2)
    for _ in range(400):
        shares = rng.beta(1, 9, size=60)
        low = module._lower_end(shares, np.ones(60), tail)
        high = 1 - module._lower_end(1 - shares, np.ones(60), tail)
        missed += (low > 0.1, high < 0.1)
    assert (missed <= stats.binom(400, tail).isf(1e-6)).all()


def test_the_lower_end_solves_for_the_capital():
    shares, weights = np.array([0.2, 0.5, 0.4, 0.1] * 10), np.ones(40)
    low = module._lower_end(shares, weights, 0.05)
    capital = np.mean(np.prod(1 + module._BETS[:, None] * (shares / low - weights), axis=1))
    assert capital == pytest.approx(20, rel=1e-6)
    assert module._lower_end(np.zeros(40), weights, 0.05) == pytest.approx(0, abs=1e-12)


def naive_quantile(x, y, seed):
    """A quantile of the fitted rows' own scores."""
    centre = middle(x)
    return lambda rows: norms(rows - centre) > np.quantile(norms(x - centre), SHARE)


SHARE = 0.9


def middle(x):
    return x.mean(axis=0)


def norms(x):
    return np.linalg.norm(x, axis=1)


def test_a_broken_rule_is_found_and_blamed_for_what_it_states_alone():
    found = volta.audit(naive_quantile, "false_alarms", 0.1, attacks=["tiny n", "drift", "imbalance 1:100"])
    verdicts = {result.attack: result.verdict for result in found.results}
    assert verdicts["tiny n"] == found.verdict == "broken"
    assert verdicts["drift"] == "outside the stated assumption"
    assert verdicts["imbalance 1:100"] == "kept"
    assert found.worst.attack == "tiny n"
    for result in found.results:
        assert 0 <= result.low <= result.measured <= result.high <= 1


def split_flags(x, y, seed):
    half = len(x) // 2
    centre = x[:half].mean(axis=0)
    test = fit_ood(np.linalg.norm(x[half:] - centre, axis=1))
    return lambda rows: test.flags(np.linalg.norm(rows - centre, axis=1), fpr=0.1)


def test_split_conformal_flags_are_kept_under_every_attack_within_the_assumption():
    """Two seconds: the least draws that tell kept from unproven, under all attacks."""
    found = volta.audit(split_flags, "false_alarms", 0.1)
    assert found.verdict == "kept"
    assert {result.attack for result in found.results if result.verdict == "outside the stated assumption"} >= {
        "contaminated rows",
        "drift",
        "optional stopping",
    }
    assert [result.attack for result in found.results] == [attack.name for attack in volta.ATTACKS]


def likely(x, y, seed):
    """Sets and answers of a nearest centre, none of them calibrated."""
    classes = np.unique(y)
    centres = np.stack([x[y == k].mean(axis=0) for k in classes])

    def distances(rows):
        return np.linalg.norm(rows[:, None] - centres, axis=2)

    return classes, distances


def narrow_sets(x, y, seed):
    _, distances = likely(x, y, seed)
    return lambda rows: distances(rows) == distances(rows).min(axis=1, keepdims=True)


def all_answers(x, y, seed):
    classes, distances = likely(x, y, seed)
    return lambda rows: np.where(distances(rows).min(axis=1) < 1.5, classes[distances(rows).argmin(axis=1)], -1)


@pytest.mark.parametrize(
    ("fit", "claim", "level", "confidence"),
    [
        (naive_quantile, "false_alarms", 0.1, None),
        (naive_quantile, "false_alarms", 0.1, 0.9),
        (narrow_sets, "class_coverage", 0.9, None),
        (all_answers, "selective_risk", 0.05, None),
        (naive_quantile, "fdr", 0.1, None),
    ],
)
def test_the_script_repeats_the_worst_attack_without_volta(fit, claim, level, confidence, capsys):
    found = volta.audit(fit, claim, level, confidence=confidence, attacks=["ties", "plain"], draws=10, n_new=200)
    assert "volta" not in found.script
    exec(compile(found.script, "script", "exec"), {"__name__": "script"})
    assert capsys.readouterr().out == f"failure rate {round(found.worst.measured, 3)}\n"
    assert found.script.startswith(f"# {found.claim}, {found.worst.attack}")


def false_alarms(x, y, seed):
    """Has the name of a function that scripts hold."""
    return lambda rows: rows[:, 0] > 0.5


@pytest.mark.parametrize(
    "fit", [lambda x, y, seed: lambda rows: rows[:, 0] > 0.5, partial(naive_quantile), false_alarms]
)
def test_a_script_says_what_it_cannot_show(fit):
    found = volta.audit(fit, "false_alarms", 0.1, attacks=["plain"], draws=4, n_new=50)
    assert "fit = ...  # define it here" in found.script


def test_a_script_holds_an_attack_of_the_users_own(capsys):
    found = volta.audit(false_flags, "false_alarms", 0.1, attacks=[PLAIN[0]], draws=4, n_new=50)
    exec(compile(found.script, "script", "exec"), {"__name__": "script"})
    assert capsys.readouterr().out == f"failure rate {round(found.worst.measured, 3)}\n"
    own = volta.Attack("own", partial(class_in_row))
    assert (
        "sample = ...  # define it here"
        in volta.audit(false_flags, "false_alarms", 0.1, attacks=[own], draws=4, n_new=50).script
    )


def false_flags(x, y, seed):
    return lambda rows: rows[:, 0] > 0.5


def test_refusals_are_no_failures_and_are_told():
    def fit(x, y, seed):
        if len(x) < 100 or seed % 4 == 0:
            raise ValueError("too few rows")
        return lambda rows: np.zeros(len(rows), dtype=bool)

    tiny, plain = volta.audit(fit, "false_alarms", 0.1, attacks=["tiny n", "plain"], draws=60).results
    assert (tiny.verdict, tiny.refused, tiny.error) == ("refused", 60, "ValueError: too few rows")
    assert 0 < plain.refused < 30
    assert plain.measured == 0
    found = volta.audit(fit, "false_alarms", 0.1, attacks=["tiny n"], draws=5)
    assert found.verdict == "refused"
    assert str(found).endswith("\nrefused: ValueError: too few rows")


def test_a_rule_that_never_answers_proves_nothing():
    def fit(x, y, seed):
        return lambda rows: np.full(len(rows), -1)

    (result,) = volta.audit(fit, "selective_risk", 0.1, attacks=["plain"], draws=20).results
    assert (result.measured, result.verdict) == (0, "too few draws")
    (result,) = volta.audit(fit, "selective_risk", 0.1, confidence=0.9, attacks=["plain"], draws=100, n_new=50).results
    assert result.verdict == "kept"


def test_optional_stopping_uses_the_rule_that_looks_best():
    def fit(x, y, seed):
        return lambda rows: np.arange(len(rows)) < (100 - abs(len(x) - 120))

    assert volta.ATTACKS[-1].sizes == (40, 80, 120, 160, 200)
    (result,) = volta.audit(fit, "false_alarms", 0.1, attacks=["optional stopping"], draws=5).results
    assert result.measured == pytest.approx(100 / 500)
    streams = volta.audit(fit, "ever_alarm", 0.1, draws=2).results
    assert "optional stopping" not in {result.attack for result in streams}


def test_equal_seeds_give_equal_results_and_progress_is_told(capsys):
    settings = {"attacks": ["plain", "ties"], "draws": 10, "progress": True}
    first = volta.audit(naive_quantile, "false_alarms", 0.1, **settings)
    assert first == volta.audit(naive_quantile, "false_alarms", 0.1, **settings)
    assert first.results != volta.audit(naive_quantile, "false_alarms", 0.1, seed=1, **settings).results
    assert "ties: attack 2 of 2" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_give_what_one_gives():
    one, two = (volta.audit(naive_quantile, "false_alarms", 0.1, draws=20, n_jobs=jobs) for jobs in (1, 2))
    assert one == two


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "power"}, "claim is 'power'; pass one of coverage"),
        ({"attacks": []}, "none fits false_alarms"),
        ({"attacks": ["power"]}, "attack is 'power'; pass an Attack or one of plain, ties"),
        ({"claim": "fdr", "confidence": 0.9}, "confidence is 0.9, but fdr is a rate over draws"),
        ({"level": 1.0}, "level"),
        ({"draws": 1}, "draws"),
    ],
)
def test_what_cannot_be_audited_is_refused(change, message):
    with pytest.raises(volta.InputError, match=message):
        volta.audit(naive_quantile, **({"claim": "false_alarms", "level": 0.1} | change))
