import pytest

from tests.stats.builders import five, table
from volta.paper import CLAIMS, judge_claims, judge_evidence, paper_evidence

SPREAD = (-0.001, 0.0, 0.001)


def around(centre, spread=SPREAD):
    return [centre + step for step in spread]


def method(accuracy=0.9, ece=0.02, **centres):
    return five(
        around(accuracy), around(ece, [step / 4 for step in SPREAD]), **{k: around(v) for k, v in centres.items()}
    )


def verdicts(values):
    return {row.claim: row for row in judge_claims([table(values)])}


def test_there_are_eight_claims_each_with_a_rule():
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS) == 8
    assert all(claim.statement.endswith(".") and claim.rule.startswith(("holds if", "as for")) for claim in CLAIMS)


def test_best_ece_holds_when_every_baseline_is_significantly_worse():
    row = verdicts({"volta": method(ece=0.01), "swag": method(ece=0.09), "enn": method(ece=0.03)})["best-ece"]
    assert row.verdict == "holds"
    assert "all 2 baselines" in row.sentence
    assert "VOLTA 0.0100 ± 0.00025 (n = 3), ENN 0.0300" in row.sentence


def test_best_ece_does_not_hold_when_a_baseline_is_significantly_better():
    row = verdicts({"volta": method(ece=0.05), "swag": method(ece=0.09), "enn": method(ece=0.01)})["best-ece"]
    assert row.verdict == "does not hold"
    assert "1 of 2 baselines are significantly better" in row.sentence


def test_best_ece_cannot_be_told_when_a_baseline_is_as_good():
    row = verdicts({"volta": method(ece=0.0100), "swag": method(ece=0.09), "enn": method(ece=0.0101)})["best-ece"]
    assert row.verdict == "cannot tell at this n"
    assert "VOLTA's mean is the best, but 1 of 2" in row.sentence
    assert "with 80 % power" in row.sentence


def test_extra_methods_do_not_decide_the_papers_claims():
    values = {"volta": method(ece=0.02), "swag": method(ece=0.09)}
    results = table(values | {"ensemble": method(ece=0.001)})
    results.origins["ensemble"] = "extra"
    (row,) = [row for row in judge_claims([results]) if row.claim == "best-ece"]
    assert row.verdict == "holds"


@pytest.mark.parametrize(
    ("best", "verdict"), [(0.902, "holds"), (0.88, "holds"), (0.95, "does not hold"), (0.91, "cannot tell at this n")]
)
def test_accuracy_on_par_is_a_question_of_the_margin(best, verdict):
    found = verdicts({"volta": method(0.9), "swag": method(0.7), "enn": method(best)})["accuracy-on-par"]
    assert found.verdict == verdict
    assert "ENN" in found.sentence
    assert "margin 0.01" in found.sentence


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ((0.7, 0.75, 0.95), "holds"),
        ((0.7, 0.94, 0.95), "does not hold"),
        ((0.7, 0.94), "does not hold"),
        ((0.7,), "holds"),
    ],
)
def test_ood_is_judged_against_the_middle_baseline(others, verdict):
    names = ("swag", "enn", "energy")
    values = {"volta": method(auroc=0.9)} | {name: method(auroc=v) for name, v in zip(names, others, strict=False)}
    assert verdicts(values)["ood-competitive"].verdict == verdict


def test_selective_prediction_is_judged_on_aurc():
    values = {"volta": method(aurc=0.1), "swag": method(aurc=0.2)}
    assert verdicts(values)["selective-prediction"].verdict == "holds"
    assert (
        verdicts({"volta": method(aurc=0.2), "swag": method(aurc=0.1)})["selective-prediction"].verdict
        == "does not hold"
    )


LOSSES = ("margin", "reconstruction", "diversity", "contrastive")


def ablation(**changed):
    rows = {"volta": method(), "volta-full": method()}
    rows |= {f"volta-full-no-{name}": method() for name in LOSSES} | {f"volta-plus-{name}": method() for name in LOSSES}
    return rows | {name.replace("_", "-"): values for name, values in changed.items()}


def test_auxiliary_losses_that_gain_nothing():
    row = verdicts(ablation())["auxiliary-losses-do-not-help"]
    assert row.verdict == "holds"
    assert "all of 40 comparisons (8 of 8 pairs were run)" in row.sentence


def test_an_auxiliary_loss_that_helps_refutes():
    row = verdicts(ablation(volta_plus_contrastive=method(0.95)))["auxiliary-losses-do-not-help"]
    assert row.verdict == "does not hold"
    assert "VOLTA-PLUS-CONTRASTIVE" in row.sentence


def test_an_auxiliary_loss_that_harms_does_not_refute():
    assert verdicts(ablation(volta_plus_margin=method(0.8)))["auxiliary-losses-do-not-help"].verdict == "holds"


def test_noise_is_no_proof_that_losses_do_not_help():
    noisy = five([0.85, 0.9, 0.95], [0.01, 0.02, 0.05])
    row = verdicts(ablation(volta_full_no_margin=noisy))["auxiliary-losses-do-not-help"]
    assert row.verdict == "cannot tell at this n"
    assert "a gain that matters is not excluded" in row.sentence


def test_half_an_ablation_is_not_enough():
    rows = ablation()
    del rows["volta-plus-margin"]
    row = verdicts(rows)["auxiliary-losses-do-not-help"]
    assert row.verdict == "cannot tell at this n"
    assert "7 of 8 pairs" in row.sentence


@pytest.mark.parametrize(
    ("shallow", "verdict"),
    [
        (method(0.85), "holds"),
        (method(0.95), "does not hold"),
        (method(), "does not hold"),
        (five([0.85, 0.9, 0.95], [0.01, 0.02, 0.05]), "cannot tell at this n"),
        (method(0.95, ece=0.08), "cannot tell at this n"),
    ],
)
def test_depth_of_the_encoder(shallow, verdict):
    row = verdicts({"volta": method(), "volta-full": method(), "volta-full-shallow": shallow})["deep-encoder-matters"]
    assert row.verdict == verdict


def test_temperature_and_mc_inference():
    values = {
        "volta": method(),
        "volta-full": method(),
        "volta-full-no-temperature": method(ece=0.2),
        "volta-full-no-mc": method(),
    }
    found = verdicts(values)
    assert found["temperature-matters"].verdict == "holds"
    assert "significantly better on ECE" in found["temperature-matters"].sentence
    assert found["mc-inference-does-not-help"].verdict == "holds"


def test_what_was_not_run_cannot_be_told():
    found = verdicts({"volta": method()})
    assert {row.verdict for row in found.values()} == {"cannot tell at this n"}
    assert found["best-ece"].sentence == "No baseline of the paper has ECE in this run."
    assert found["deep-encoder-matters"].sentence == "volta-full and volta-full-shallow were not both run."
    assert judge_claims([table({"swag": method()})]) == []


def test_one_seed_tells_nothing_and_says_why():
    found = verdicts({"volta": five([0.9], [0.01]), "swag": five([0.8], [0.1])})
    assert {row.verdict for row in found.values()} == {"cannot tell at this n"}
    assert "one seed" in found["best-ece"].sentence
    assert "one seed" in found["accuracy-on-par"].sentence
    assert "n = 1" in found["best-ece"].sentence


def test_the_papers_own_table_under_the_same_rules():
    found = {row.claim: row for row in judge_evidence(paper_evidence())}
    assert found["best-ece"].verdict == "holds"
    assert "MC Dropout 0.0185 ± 0.003 (n = 3)" in found["best-ece"].sentence
    assert found["accuracy-on-par"].verdict == "cannot tell at this n"
    assert found["ood-competitive"].verdict == "cannot tell at this n"
    assert "no standard deviation is given" in found["deep-encoder-matters"].sentence
    assert {row.protocol for row in found.values()} == {"paper (printed)"}
    assert judge_evidence(paper_evidence("tinyimagenet"))[0].verdict == "cannot tell at this n"
