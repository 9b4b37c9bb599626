import numpy as np
import pytest

from volta.core.errors import InputError
from volta.decisions import decide, fit_coverage, fit_policy

PROBS = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
UNCERTAINTY = [0.1, 0.9, 0.1]
POLICY = fit_coverage(np.linspace(0, 0.5, 99), coverage=0.9)


def test_ood_comes_before_abstention():
    found = decide(PROBS, UNCERTAINTY, policy=POLICY, pvalues=[0.5, 0.01, 0.05], fpr=0.05)
    assert [found[row].action for row in range(len(found))] == ["answer", "ood", "ood"]
    assert found[2].reason == "conformal p-value at most 0.05"
    assert found[0].pvalue == 0.5


def test_without_pvalues_and_sets():
    found = decide(PROBS, UNCERTAINTY, policy=POLICY, classes=["cat", "dog"])
    assert found[1].action == "abstain"
    assert found[1].reason == "more uncertain than the 90 % of samples that the policy answers"
    assert str(found[1]) == f"abstain, likeliest dog with probability 0.6: {found[1].reason}"
    assert (found[0].label, found[0].probability) == ("cat", 0.9)
    assert (found[0].pvalue, found[0].classes) == (None, None)
    assert found.to_array().dtype.names == ("action", "label", "probability", "uncertainty", "reason")


def test_structured_array():
    sets = [[1, 0], [1, 1], [0, 0]]
    found = decide(PROBS, UNCERTAINTY, policy=POLICY, pvalues=[0.5] * 3, sets=sets, classes=["cat", "dog"]).to_array()
    assert found["action"].tolist() == ["answer", "abstain", "answer"]
    assert found["set"].tolist() == [("cat",), ("cat", "dog"), ()]
    assert found["label"].tolist() == ["cat", "dog", "dog"]
    np.testing.assert_allclose(found["probability"], [0.9, 0.6, 0.8])


def test_no_policy_abstains_and_says_why():
    policy = fit_policy([0.1], [True])
    found = decide(PROBS, UNCERTAINTY, policy=policy)
    assert found[0].action == "abstain"
    assert found[0].reason == f"no policy: {policy.note}"


def test_slices_are_decisions_too():
    found = decide(PROBS, UNCERTAINTY, policy=POLICY, pvalues=[0.5, 0.01, 0.2], sets=[[1, 0], [1, 1], [0, 1]])
    part = found[1:]
    assert len(part) == 2
    assert (part[0], part[-1]) == (found[1], found[2])
    assert decide(PROBS, UNCERTAINTY, policy=POLICY)[:2][0].pvalue is None
    assert [one.action for one in found[::2]] == ["answer", "answer"]
    assert [one.action for one in found[found.action == 0]] == ["answer"] * int((found.action == 0).sum())
    assert [one.label for one in found[[2, 0]]] == [found[2].label, found[0].label]


def test_labels_are_plain_values():
    for classes, kind in ((None, int), (["cat", "dog"], str), ([True, False], bool), ([0.5, 1.5], float)):
        assert type(decide(PROBS, UNCERTAINTY, policy=POLICY, classes=classes)[0].label) is kind
    mixed = np.array(["cat", 3], dtype=object)
    assert decide(PROBS, UNCERTAINTY, policy=POLICY, classes=mixed)[1].label == 3


def test_a_policy_that_always_answers_says_so():
    few = fit_coverage([0.1, 0.2], coverage=0.9)
    assert decide(PROBS, UNCERTAINTY, policy=few)[0].reason == few.note
    assert few.note.endswith("every row is answered")
    sure = fit_policy(np.zeros(400), np.ones(400, dtype=bool), max_error=0.02, reference=[0.0])
    assert decide(PROBS, UNCERTAINTY, policy=sure)[0].reason == "the policy answers every sample"


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="uncertainty has 1 rows but probs has 3"):
        decide(PROBS, [0.1], policy=POLICY)
    with pytest.raises(InputError, match="pvalues has 1 rows but probs has 3"):
        decide(PROBS, UNCERTAINTY, policy=POLICY, pvalues=[0.1])
    with pytest.raises(InputError, match=r"sets has shape \(1, 2\) but probs \(3, 2\)"):
        decide(PROBS, UNCERTAINTY, policy=POLICY, sets=[[1, 0]])
    with pytest.raises(InputError, match=r"classes has shape \(3,\); pass one label for each of the 2"):
        decide(PROBS, UNCERTAINTY, policy=POLICY, classes=["a", "b", "c"])
    with pytest.raises(InputError, match="fpr is 2"):
        decide(PROBS, UNCERTAINTY, policy=POLICY, fpr=2)
