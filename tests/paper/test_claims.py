import numpy as np
import pytest

from tests.stats.builders import five, record, table
from volta.paper import CLAIM_TASKS, CLAIMS, evaluate_claims, evaluate_evidence, paper_evidence, questions_of
from volta.stats.results import group_records

NOISY = five([0.85, 0.9, 0.95], [0.01, 0.02, 0.05])


def around(centre, spread=0.001):
    """Three seeds whose mean is the centre; another centre has another spread, so that differences vary over seeds."""
    steps = np.random.default_rng(round(1e5 * centre)).uniform(-1, 1, 3)
    return list(centre + spread * (steps - steps.mean()))


def method(accuracy=0.9, ece=0.02, **centres):
    return five(around(accuracy), around(ece, 0.00025), **{k: around(v) for k, v in centres.items()})


def verdicts(values):
    return {row.claim: row for row in evaluate_claims([table(values)])}


def test_there_are_twelve_claims_each_with_a_rule():
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS) == 12
    assert all(claim.statement.endswith(".") and claim.rule.startswith(("supported if", "as for")) for claim in CLAIMS)


def test_best_ece_is_supported_when_every_baseline_is_significantly_worse():
    row = verdicts({"volta": method(ece=0.01), "swag": method(ece=0.09), "enn": method(ece=0.03)})["best-ece"]
    assert row.verdict == "supported"
    assert "all 2 distinct baselines" in row.sentence
    assert "VOLTA 0.0100 ± 0.000034" in row.sentence
    assert "(n = 3), ENN 0.0300" in row.sentence
    assert (row.n, row.alpha, row.methods) == (3, 0.05, "volta swag enn")


def test_best_ece_is_refuted_when_a_baseline_is_significantly_better():
    row = verdicts({"volta": method(ece=0.05), "swag": method(ece=0.09), "enn": method(ece=0.01)})["best-ece"]
    assert row.verdict == "refuted"
    assert "1 of 2 distinct baselines are significantly better on ECE (Bonferroni" in row.sentence


def test_a_significant_loss_below_the_margin_is_called_that():
    row = verdicts({"volta": method(ece=0.015), "swag": method(ece=0.09), "enn": method(ece=0.010)})["best-ece"]
    assert row.verdict == "refuted"
    assert "1 of 2 distinct baselines are significantly better" in row.sentence
    assert "by less than the margin 0.01 (Bonferroni" in row.sentence


def test_best_ece_may_be_equivalent():
    row = verdicts({"volta": method(ece=0.0100), "swag": method(ece=0.09), "enn": method(ece=0.0101)})["best-ece"]
    assert row.verdict == "equivalent"
    assert "differ by less than the margin 0.01" in row.sentence


def test_best_ece_is_inconclusive_under_noise_and_says_how_many_seeds_it_takes():
    row = verdicts({"volta": method(ece=0.01), "swag": method(ece=0.09), "enn": NOISY})["best-ece"]
    assert row.verdict == "inconclusive"
    assert "VOLTA's mean is the best of the paper's methods, but 1 of 2" in row.sentence
    assert "minimum detectable difference (80 % power)" in row.sentence
    assert row.seeds_needed > 3


def test_best_needs_no_correction_over_baselines_and_counts_a_network_once():
    # Paired p = 0.03 against the nearest of eight baselines: Holm would multiply it.
    own = [0.010, 0.011, 0.012, 0.010, 0.011]
    near = [value + step for value, step in zip(own, (0.001, 0.003, 0.0002, 0.002, 0.0015), strict=True)]
    others = {name: five([0.9] * 5, near) for name in ("energy", "gmm", "mahalanobis", "conformal")}
    others |= {
        name: five([0.9] * 5, [0.08 + 0.001 * k * seed for seed in range(5)]) for k, name in enumerate("abcd", 1)
    }
    row = verdicts({"volta": five([0.9] * 5, own)} | others)["best-ece"]
    assert row.verdict == "supported"
    assert "all 5 distinct baselines" in row.sentence


def test_extra_methods_do_not_decide_the_papers_claims():
    values = {"volta": method(ece=0.02), "swag": method(ece=0.09)}
    results = table(values | {"ensemble": method(ece=0.001)})
    results.origins["ensemble"] = "extra"
    (row,) = [row for row in evaluate_claims([results]) if row.claim == "best-ece"]
    assert row.verdict == "supported"


@pytest.mark.parametrize(
    ("best", "verdict"), [(0.902, "supported"), (0.88, "supported"), (0.95, "refuted"), (0.91, "inconclusive")]
)
def test_accuracy_on_par_is_a_question_of_the_margin(best, verdict):
    found = verdicts({"volta": method(0.9), "swag": method(0.7), "enn": method(best)})["accuracy-on-par"]
    assert found.verdict == verdict
    assert "ENN" in found.sentence
    assert "margin 0.01" in found.sentence


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ((0.7, 0.75, 0.95), "supported"),
        ((0.7, 0.94, 0.95), "refuted"),
        ((0.7, 0.97), "supported"),
        ((0.89, 0.95), "refuted"),
        ((0.7,), "supported"),
    ],
)
def test_ood_is_judged_against_the_median_of_the_baselines(others, verdict):
    names = ("swag", "enn", "energy")
    values = {"volta": method(auroc=0.9)} | {name: method(auroc=v) for name, v in zip(names, others, strict=False)}
    row = verdicts(values)["ood-competitive"]
    assert row.verdict == verdict
    assert f"the median of {len(others)} baselines" in row.sentence


def test_the_median_is_taken_in_each_seed():
    # Each baseline is far above in one seed and below in the others; the middle one of every seed is close to VOLTA.
    own = [0.9, 0.901, 0.899]
    values = {"volta": method() | {"auroc": own}}
    for index, name in enumerate(("swag", "enn", "energy")):
        values[name] = method() | {
            "auroc": [value + (0.06, -0.06, 0.0005)[(index + s) % 3] for s, value in enumerate(own)]
        }
    assert verdicts(values)["ood-competitive"].verdict == "inconclusive"
    values["energy"]["auroc"] = [0.902, 0.9, 0.9]
    values["swag"]["auroc"], values["enn"]["auroc"] = [0.99, 0.8, 0.99], [0.8, 0.99, 0.8]
    assert verdicts(values)["ood-competitive"].verdict == "supported"


def test_selective_prediction_is_judged_on_aurc():
    values = {"volta": method(aurc=0.1), "swag": method(aurc=0.2)}
    assert verdicts(values)["selective-prediction"].verdict == "supported"
    assert verdicts({"volta": method(aurc=0.2), "swag": method(aurc=0.1)})["selective-prediction"].verdict == "refuted"


LOSSES = ("margin", "reconstruction", "diversity", "contrastive")


def ablation(**changed):
    rows = {"volta": method(), "volta-full": method()}
    rows |= {f"volta-full-no-{name}": method() for name in LOSSES} | {f"volta-add-{name}": method() for name in LOSSES}
    return rows | {name.replace("_", "-"): values for name, values in changed.items()}


def test_auxiliary_losses_that_gain_nothing():
    row = verdicts(ablation())["auxiliary-losses-do-not-help"]
    assert row.verdict == "supported"
    assert "all of 40 comparisons (8 of 8 pairs were run)" in row.sentence


def test_an_auxiliary_loss_that_helps_refutes():
    row = verdicts(ablation(volta_add_contrastive=method(0.95)))["auxiliary-losses-do-not-help"]
    assert row.verdict == "refuted"
    assert "VOLTA-ADD-CONTRASTIVE" in row.sentence


def test_a_significant_gain_below_the_margin_refutes_nothing():
    gaining = method(0.9) | {
        "accuracy": [value + step for value, step in zip(around(0.9), (2e-3, 2.1e-3, 1.9e-3), strict=True)]
    }
    assert verdicts(ablation(volta_add_contrastive=gaining))["auxiliary-losses-do-not-help"].verdict == "supported"


def test_an_auxiliary_loss_that_harms_does_not_refute():
    assert verdicts(ablation(volta_add_margin=method(0.8)))["auxiliary-losses-do-not-help"].verdict == "supported"


def test_noise_is_no_proof_that_losses_do_not_help():
    row = verdicts(ablation(volta_full_no_margin=NOISY))["auxiliary-losses-do-not-help"]
    assert row.verdict == "inconclusive"
    assert "a gain that matters is not excluded" in row.sentence


def test_half_an_ablation_is_not_enough():
    rows = ablation()
    del rows["volta-add-margin"]
    row = verdicts(rows)["auxiliary-losses-do-not-help"]
    assert row.verdict == "inconclusive"
    assert "7 of 8 pairs" in row.sentence


@pytest.mark.parametrize(
    ("shallow", "verdict"),
    [
        (method(0.85), "supported"),
        (method(0.95), "refuted"),
        (method(), "equivalent"),
        (NOISY, "inconclusive"),
        (method(0.95, ece=0.08), "inconclusive"),
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
    assert found["temperature-matters"].verdict == "supported"
    assert "is better on ECE" in found["temperature-matters"].sentence
    assert found["mc-inference-does-not-help"].verdict == "supported"


def test_a_claim_about_methods_that_were_not_run_has_its_own_verdict():
    found = verdicts({"volta": method()})
    assert {row.verdict for row in found.values()} == {"not run"}
    assert found["best-ece"].sentence == "No baseline of the paper has ECE in this run."
    assert found["deep-encoder-matters"].sentence == "volta-full and volta-full-shallow were not both run."
    assert evaluate_claims([table({"swag": method()})]) == []


def test_one_seed_tells_nothing_and_says_why():
    found = verdicts({"volta": five([0.9], [0.01]), "swag": five([0.8], [0.1])})
    assert {row.verdict for row in found.values()} == {"inconclusive", "not run"}
    assert "one seed" in found["best-ece"].sentence
    assert "one seed" in found["accuracy-on-par"].sentence
    assert "n = 1" in found["best-ece"].sentence


def test_the_papers_own_table_under_the_same_rules():
    found = {row.claim: row for row in evaluate_evidence(paper_evidence())}
    assert found["best-ece"].verdict == "supported"
    assert "MC Dropout 0.0185 ± 0.003 (n = 3)" in found["best-ece"].sentence
    assert found["accuracy-on-par"].verdict == "inconclusive"
    assert found["ood-competitive"].verdict == "inconclusive"
    assert "no standard deviation is given" in found["deep-encoder-matters"].sentence
    assert {row.protocol for row in found.values()} == {"paper (printed)"}
    assert evaluate_evidence(paper_evidence("tinyimagenet"))[0].verdict == "inconclusive"


def test_calibration_is_judged_after_temperature_under_fair_alone():
    raw = {"volta": 0.01, "swag": 0.09, "volta-full": 0.01, "volta-full-no-temperature": 0.2}
    scaled = {"volta": 0.03, "swag": 0.005, "volta-full": 0.01, "volta-full-no-temperature": 0.01}

    def judged(protocol):
        results = table({name: method(ece=ece) for name, ece in raw.items()}, protocol=protocol)
        for name, ece in scaled.items():
            results.values[name]["test+T"] = {"ece": dict(enumerate(around(ece, 0.00025)))}
        return {row.claim: row for row in evaluate_claims([results])}

    assert judged("fair")["best-ece"].verdict == "refuted"
    assert "ECE after temperature" in judged("fair")["best-ece"].sentence
    assert judged("paper")["best-ece"].verdict == "supported"
    # Judged after a temperature, the claim about temperature would be judged on nothing.
    assert judged("fair")["temperature-matters"].verdict == "supported"


def test_claims_are_about_the_papers_tasks_alone():
    values = {"volta": method(ece=0.01), "swag": method(ece=0.09)}
    assert {task: bool(evaluate_claims([table(values, task=task)])) for task in (*CLAIM_TASKS, "mine")} == {
        "cifar10": True,
        "cifar100": True,
        "tinyimagenet": True,
        "digits": True,
        "mine": False,
    }


def test_claims_become_questions():
    rows = evaluate_claims([table({"volta": method(ece=0.01), "swag": method(ece=0.09)})])
    asked = {question.key: question for question in questions_of(rows)}
    assert asked["digits · fair · best-ece"].decided
    assert asked["digits · fair · best-ece"].methods == ("volta", "swag")
    # Nothing was run for the ablation, so no number of seeds would answer it.
    assert not any("encoder" in key for key in asked)


def test_a_lower_level_decides_less():
    values = {
        "volta": five([0.9] * 4, [0.01, 0.011, 0.012, 0.01]),
        "swag": five([0.9] * 4, [0.02, 0.031, 0.016, 0.025]),
    }
    found = {alpha: evaluate_claims([table(values)], alpha=alpha)[0].verdict for alpha in (0.05, 0.001)}
    assert found == {0.05: "supported", 0.001: "inconclusive"}


def costs(latency, size):
    return method() | {"latency_ms": around(latency), "size_mb": [size] * 3}


@pytest.mark.parametrize(
    ("latency", "size", "verdict"),
    [
        (0.5, 2.0, "supported"),
        (1.05, 2.1, "supported"),
        (1.2, 2.0, "refuted"),
        (0.5, 2.3, "refuted"),
        (1.1, 2.0, "inconclusive"),
    ],
)
def test_lightweight_is_latency_and_size_against_the_median_of_the_baselines(latency, size, verdict):
    values = {"volta": costs(latency, size), "swag": costs(1.0, 2.0), "enn": costs(0.9, 2.0), "energy": costs(1.4, 9.0)}
    row = verdicts(values)["lightweight"]
    assert row.verdict == verdict
    assert "latency, ms" in row.sentence
    assert "size, MB" in row.sentence


def test_lightweight_needs_costs_and_more_seeds_would_not_decide_it():
    assert verdicts({"volta": method(), "swag": method()})["lightweight"].verdict == "not run"
    rows = evaluate_claims([table({"volta": costs(1.1, 2.0), "swag": costs(1.0, 2.0)})])
    assert "lightweight" in {row.claim for row in rows}
    assert not [question for question in questions_of(rows) if "lightweight" in question.key]


@pytest.mark.parametrize(
    ("ece_of_the_better", "verdict"),
    [(0.06, "supported"), (0.02, "refuted"), (0.005, "refuted"), (0.03, "inconclusive")],
)
def test_better_ood_detection_has_its_price_or_not(ece_of_the_better, verdict):
    values = {
        "volta": method(ece=0.02, auroc=0.8),
        "swag": method(ece=ece_of_the_better, auroc=0.9),
        "enn": method(ece=0.02, auroc=0.7),
    }
    row = verdicts(values)["ood-costs-calibration"]
    assert row.verdict == verdict
    assert "1 baselines that are significantly better on near-OOD AUROC" in row.sentence


def test_nothing_is_traded_where_no_baseline_detects_better():
    row = verdicts({"volta": method(auroc=0.9), "swag": method(auroc=0.7)})["ood-costs-calibration"]
    assert (row.verdict, row.sentence[:33]) == ("inconclusive", "No baseline is shown to be better")


def on_cifar100(**svhn):
    records = [
        record(name, seed, {"test": {"accuracy": 0.9}, "ood:svhn": {"auroc": value}}, task="cifar100")
        for name, centre in svhn.items()
        for seed, value in enumerate(around(centre))
    ]
    return {row.claim: row for row in evaluate_claims(group_records(records))}


def test_ranks_on_one_ood_set_leave_out_who_the_paper_puts_above():
    rows = on_cifar100(volta=0.9, taylor_sensus=0.95, swag=0.8)
    assert rows["second-on-svhn"].verdict == "supported"
    assert "on SVHN AUROC" in rows["second-on-svhn"].sentence
    assert on_cifar100(volta=0.9, taylor_sensus=0.8, swag=0.95)["second-on-svhn"].verdict == "refuted"
    assert rows["third-on-noise"].verdict == "not run"
    assert "second-on-svhn" not in verdicts({"volta": method(), "swag": method()})
