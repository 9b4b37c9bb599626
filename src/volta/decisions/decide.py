"""One decision a row: answer, abstain or OOD, with the reason in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_probs, check_same_length, check_scores, check_sets
from volta.core.errors import InputError
from volta.decisions.conformal import Floats, float_level
from volta.decisions.ood import check_pvalues
from volta.decisions.policies import Policy

Action: TypeAlias = Literal["answer", "abstain", "ood"]
ACTIONS: tuple[Action, ...] = ("answer", "abstain", "ood")
_ABSTAIN, _OOD = ACTIONS.index("abstain"), ACTIONS.index("ood")


@dataclass(frozen=True)
class Decision:
    """What to do with one row; ``print`` says it in a sentence.

    ``label`` is the likeliest class, which counts only where ``action`` is ``answer``, and ``probability`` its
    probability; ``pvalue`` and ``classes``, the prediction set, are None where they were not asked for.
    """

    action: Action
    label: Any
    probability: float
    uncertainty: float
    pvalue: float | None
    classes: tuple[Any, ...] | None
    reason: str

    def __str__(self) -> str:
        likeliest = f"{self.label} with probability {self.probability:.3g}"
        parts = [f"answer {likeliest}" if self.action == "answer" else f"{self.action}, likeliest {likeliest}"]
        if self.classes is not None:
            parts.append(f"set {{{', '.join(map(str, self.classes))}}}")
        if self.pvalue is not None:
            parts.append(f"p-value {self.pvalue:.2g}")
        return f"{'; '.join(parts)}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decisions of n rows; index it for a `Decision`, take fewer by a slice, mask or list, `to_array` for a table.

    ``action`` (n,) index into ``ACTIONS``; ``label`` (n,); ``probability``, ``uncertainty`` (n,); ``pvalue`` (n,) or
    None; ``sets`` (n, K) or None; ``class_names`` (K,); ``reasons``: the sentence of each action; ``notes``: (n,) what
    else is to be said of a row, mostly nothing, or None.
    """

    action: NDArray[np.intp]
    label: NDArray[Any]
    probability: NDArray[np.float64]
    uncertainty: NDArray[np.float64]
    pvalue: NDArray[np.float64] | None
    sets: NDArray[np.bool_] | None
    class_names: NDArray[Any]
    reasons: tuple[str, str, str]
    notes: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.action)

    @overload
    def __getitem__(self, row: int) -> Decision: ...

    @overload
    def __getitem__(self, row: slice | list[int] | NDArray[Any]) -> Decisions: ...

    def __getitem__(self, row: int | slice | list[int] | NDArray[Any]) -> Decision | Decisions:
        if isinstance(row, slice | list) or np.ndim(row):
            return replace(
                self,
                action=self.action[row],
                label=self.label[row],
                probability=self.probability[row],
                uncertainty=self.uncertainty[row],
                pvalue=None if self.pvalue is None else self.pvalue[row],
                sets=None if self.sets is None else self.sets[row],
                notes=None if self.notes is None else self.notes[row],
            )
        action = int(self.action[row])
        return Decision(
            action=ACTIONS[action],
            label=label.item() if isinstance(label := self.label[row], np.generic) else label,
            probability=float(self.probability[row]),
            uncertainty=float(self.uncertainty[row]),
            pvalue=float(self.pvalue[row]) if self.pvalue is not None else None,
            classes=tuple(self.class_names[self.sets[row]].tolist()) if self.sets is not None else None,
            reason=_joined(self.reasons[action], "" if self.notes is None else self.notes[row]),
        )

    def row_reasons(self) -> NDArray[Any]:
        """Return (n,) the reason of each row."""
        found = np.array(self.reasons)[self.action]
        if self.notes is None:
            return found
        return np.array([_joined(reason, note) for reason, note in zip(found.tolist(), self.notes, strict=True)])

    def to_array(self) -> NDArray[np.void]:
        """Return a structured array, one record a row; ``pandas.DataFrame(decisions.to_array())`` is a table.

        Fields: action, label, probability, uncertainty, pvalue (where there is one), set (the classes, where there are
        sets, as a tuple), reason.
        """
        columns: dict[str, NDArray[Any]] = {
            "action": np.array(ACTIONS)[self.action],
            "label": self.label,
            "probability": self.probability,
            "uncertainty": self.uncertainty,
        }
        if self.pvalue is not None:
            columns["pvalue"] = self.pvalue
        if self.sets is not None:
            classes = np.empty(len(self), dtype=object)
            classes[:] = [tuple(self.class_names[members].tolist()) for members in self.sets]
            columns["set"] = classes
        columns["reason"] = self.row_reasons()
        records = np.empty(len(self), dtype=[(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            records[name] = column
        return records


def _joined(reason: str, note: str) -> str:
    return f"{reason}; {note}" if note else reason


def decide(
    probs: ArrayLike,
    uncertainty: ArrayLike,
    *,
    policy: Policy,
    pvalues: ArrayLike | None = None,
    fpr: float = 0.05,
    sets: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> Decisions:
    """Decide each row: ``ood`` where its p-value is at most ``fpr``, else ``abstain`` or ``answer`` by the policy.

    Guarantees: those of the parts. P(ood | in-distribution) ≤ fpr, as in `OodTest.flags`. Sets as in `fit_sets`. Of a
    policy with error ≤ ε among the rows it answers a share φ may be flagged as OOD; among those left the error is at
    most ε / (1 − φ), since no more rows are wrong than before. How large φ is: in-distribution rows are flagged at most
    ``fpr`` of the time, so φ ≤ fpr / coverage on average over calibration draws, and for single ones it is often more.
    At fpr = `conditional_level` (n, f, c) φ ≤ f / ``policy.coverage_low`` holds with a probability of at least
    c + ``policy.confidence`` − 1, and ε / (1 − φ) with ε's own confidence less that: a union bound over three events.
    probs: (n_samples, n_classes); uncertainty: (n_samples,); pvalues: (n_samples,), no row is OOD without them; sets:
    (n_samples, n_classes), passed on; classes: (n_classes,) labels, 0 … K − 1 unless set.

    >>> from volta.decisions.policies import fit_coverage
    >>> policy = fit_coverage(np.linspace(0.0, 0.4, 99), coverage=0.9)
    >>> found = decide([[0.9, 0.1], [0.5, 0.5]], [0.1, 0.5], policy=policy, pvalues=[0.01, 0.6], classes=["cat", "dog"])
    >>> found[0].action, found[1].action, found[0].label
    ('ood', 'abstain', 'cat')
    """
    rows = check_probs(probs)
    scores = check_scores(uncertainty, "uncertainty")
    check_same_length(probs=rows, uncertainty=scores)
    float_level(fpr, "fpr")
    names = np.arange(rows.shape[1]) if classes is None else np.asarray(classes)
    if names.shape != (rows.shape[1],):
        raise InputError(f"classes has shape {names.shape}; pass one label for each of the {rows.shape[1]} classes")
    unusual = None
    if pvalues is not None:
        unusual = check_pvalues(pvalues, 1)
        check_same_length(probs=rows, pvalues=unusual)
    members = None
    if sets is not None:
        members = check_sets(sets)
        if members.shape != rows.shape:
            raise InputError(f"sets has shape {members.shape} but probs {rows.shape}; pass the sets of the same rows")
    return unchecked_decisions(rows, scores, policy, unusual, fpr, members, names)


def unchecked_decisions(
    probs: NDArray[Any],
    uncertainty: Floats,
    policy: Policy,
    pvalues: Floats | None,
    fpr: float,
    sets: NDArray[np.bool_] | None,
    classes: NDArray[Any],
) -> Decisions:
    """Return what `decide` does of arrays that are known to fit, which are not looked at again."""
    action = _ABSTAIN - policy.unchecked_answers(uncertainty).astype(np.intp)
    level = float_level(fpr, "fpr")
    if pvalues is not None:
        action[pvalues <= level] = _OOD
    return Decisions(
        action=action,
        label=classes[probs.argmax(axis=1)],
        probability=np.maximum.reduce(probs, axis=1).astype(np.float64, copy=False),
        uncertainty=uncertainty,
        pvalue=pvalues,
        sets=sets,
        class_names=classes,
        reasons=_reasons(policy, level),
    )


@lru_cache(maxsize=64)
def _reasons(policy: Policy, fpr: float) -> tuple[str, str, str]:
    share = f"{100 * policy.coverage:.3g} %"
    answer = f"among the {share} most certain samples, which the policy answers"
    if policy.threshold == math.inf:
        answer = policy.note or "the policy answers every sample"
    abstain = f"more uncertain than the {share} of samples that the policy answers"
    return answer, abstain if policy.exists else f"no policy: {policy.note}", f"conformal p-value at most {fpr:g}"
