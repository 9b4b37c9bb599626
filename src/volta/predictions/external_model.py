"""One external model's predictions: their stored form, and checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import TEST, VAL, EvalSet
from volta.core.checks import sum_tolerance
from volta.core.errors import InputError
from volta.core.seeding import check_seed
from volta.core.types import Array
from volta.methods.scores import one_minus_max, one_minus_max_softmax, softmax

NO_LABEL = -1
"""Stands for the label of a row that has none, as OOD rows do; an empty cell of a CSV reads the same."""

UNKNOWN = -2
_NUMERAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_NONE = ("", "nan", str(NO_LABEL))


def class_numbers(labels: Array, names: Sequence[str]) -> NDArray[np.int64]:
    """Return each label's index in ``names``: ``NO_LABEL`` where it is missing, ``UNKNOWN`` where it is not a class.

    Numbers are compared as numbers: a class 1 may be written 1.0.

    >>> class_numbers(np.array(["oak", "ash", "", "elm"]), ["ash", "oak"]).tolist()
    [1, 0, -1, -2]
    >>> class_numbers(np.array([4.0, 1.0]), ["1", "4"]).tolist()
    [1, 0]
    """
    places = {plain_class(name): place for place, name in enumerate(names)}
    distinct, inverse = np.unique(labels.astype(np.str_), return_inverse=True)
    plain = [plain_class(text) for text in distinct.tolist()]
    codes = [places.get(text, NO_LABEL if text in _NONE else UNKNOWN) for text in plain]
    return np.array(codes, dtype=np.int64)[inverse]


def plain_class(text: str) -> str:
    """Return the one way in which a class is written: 01, 1 and 1.0 are the same number, 1_0 and 1e3 are none.

    >>> plain_class("01"), plain_class("1.50"), plain_class("1_0"), plain_class(" oak ")
    ('1', '1.5', '1_0', 'oak')
    """
    text = text.strip()
    if not is_numeral(text):
        return text
    number = Decimal(text)
    return str(int(number)) if number == int(number) else str(number.normalize())


def is_numeral(text: str) -> bool:
    """Whether a class's name is a plain decimal number."""
    return _NUMERAL.fullmatch(text.strip()) is not None


KINDS = ("probs", "logits", "labels", "uncertainty", "ood_score", "sets", "ids")
"""What may be known of rows."""


@dataclass(frozen=True, eq=False)
class RowSet:
    """One model on the rows of one set, as given: either ``probs`` or ``logits``, (n, K); all else may be absent.

    ``labels`` (n,), ``uncertainty`` (n,), ``ood_score`` (n,), ``sets`` (n, K) membership, ``ids`` (n,). ``where`` names
    file and set in errors; ``rows`` (n,) are the rows' numbers there, their places where None.
    """

    where: str
    probs: Array | None = None
    logits: Array | None = None
    labels: Array | None = None
    uncertainty: Array | None = None
    ood_score: Array | None = None
    sets: Array | None = None
    ids: Array | None = None
    rows: Array | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that are there, by name."""
        named = {name: getattr(self, name) for name in KINDS}
        return {name: values for name, values in named.items() if values is not None}

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    @property
    def n_classes(self) -> int | None:
        """How many classes it speaks of; None where it holds scores alone."""
        values = self.probs if self.probs is not None else self.logits
        return None if values is None or values.ndim != 2 else values.shape[1]

    def take(self, order: NDArray[np.intp]) -> RowSet:
        """Return the rows in another order."""
        rows = order if self.rows is None else self.rows[order]
        return RowSet(self.where, rows=rows, **{name: values[order] for name, values in self.arrays.items()})

    def refuse(self, row: int, words: str) -> NoReturn:
        """Raise an error about one row, by its number in the file."""
        number = row if self.rows is None else int(self.rows[row])
        raise InputError(f"{self.where}, row {number}: {words}")


@dataclass(frozen=True, eq=False)
class ExternalModel:
    """One method with one seed: its rows by set, under the sets' stored names.

    ``classes``: the names of the classes in the order of their columns, where the file has some; labels are numbers.
    """

    method: str
    seed: int
    where: str
    sets: Mapping[str, RowSet] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name for a person."""
        return f"{self.method}, seed {self.seed}"


def is_ood(name: str) -> bool:
    """Whether the stored name of a set is that of an OOD set."""
    return name.startswith("ood:")


def stored_arrays(model: ExternalModel) -> dict[str, Array]:
    """Return the arrays of a checked model in a cell's layout, ``SET/KIND``; probabilities are float32 or float64."""
    arrays: dict[str, Array] = {}
    for name, rows in model.sets.items():
        found = _as_stored(name, rows)
        arrays |= {f"{name}/{kind}": values for kind, values in found.items() if values is not None}
    return arrays


def _as_stored(name: str, rows: RowSet) -> dict[str, Array | None]:
    probs, uncertainty = rows.probs, rows.uncertainty
    if rows.logits is not None:
        logits = np.asarray(rows.logits, dtype=np.float64)
        probs = softmax(logits)
        # From logits, so that nothing cancels near certainty.
        uncertainty = one_minus_max_softmax(logits) if uncertainty is None else uncertainty
    elif probs is not None and uncertainty is None:
        uncertainty = one_minus_max(probs)
    score = uncertainty if rows.ood_score is None else rows.ood_score
    if is_ood(name):
        return {"ood_score": score, "id": rows.ids}
    found = {"labels": None if rows.labels is None else rows.labels.astype(np.int32), "probs": probs}
    if name != VAL:
        found |= {"uncertainty": uncertainty, "ood_score": score if name == str(TEST) else None, "sets": rows.sets}
    return found | {"id": rows.ids}


ROUNDING = 1e-3
"""Rows that sum to 1 within this are taken for rounded probabilities and divided by their sum."""

_CONFIDENCE = "1 − max p"
_NAME = re.compile(r"[\w.+ ()=,@-]{1,80}", re.ASCII)


def check_model(model: ExternalModel) -> ExternalModel:
    """Return the model with every set checked; refuse what could not be evaluated, by file, row and remedy."""
    check_name(model)
    if str(TEST) not in model.sets:
        found = ", ".join(model.sets) or "none"
        raise InputError(f"{model.where}: {model.label} has no test rows (sets: {found}); call their set test")
    checked = check_sets(model)
    _check_ood_scores(checked.sets)
    return checked


def check_name(model: ExternalModel) -> None:
    """Refuse a method that cannot be a folder's name, and a seed that is none."""
    if not isinstance(model.method, str):
        raise InputError(f"{model.where}: method is {model.method!r}; pass its name as text")
    if not _NAME.fullmatch(model.method) or not model.method.strip(". "):
        raise InputError(
            f"{model.where}: method {model.method!r} cannot be a folder's name; use letters, digits and . _ + -"
        )
    check_seed(model.seed, f"{model.where}: seed")


def check_sets(model: ExternalModel, *, labelled: bool = True) -> ExternalModel:
    """Return the model with the rows of each set checked by themselves, and that all sets have the same classes.

    ``labelled`` False: sets may lack labels, or have only the stand-in for a missing one.
    """
    checked = {name: _check_set(name, rows, labelled) for name, rows in model.sets.items()}
    known = [rows for rows in checked.values() if rows.n_classes is not None]
    for rows in known[1:]:
        if rows.n_classes != known[0].n_classes:
            raise InputError(
                f"{rows.where} has {rows.n_classes} classes but {known[0].where} has {known[0].n_classes}; give all "
                "sets one column a class"
            )
    return replace(model, sets=checked)


def _check_set(name: str, rows: RowSet, labelled: bool) -> RowSet:
    _check_set_name(name, rows)
    rows = replace(rows, probs=_matrix(rows, "probs"), logits=_matrix(rows, "logits"))
    _check_lengths(rows)
    if rows.probs is not None and rows.logits is not None:
        raise InputError(f"{rows.where} has both probs and logits; keep one of them")
    if rows.n_classes is None and not is_ood(name):
        raise InputError(f"{rows.where} has neither probs nor logits; add one of them")
    if rows.logits is not None and not (finite := np.isfinite(rows.logits)).all():
        row = int(np.argmin(finite.all(axis=1)))
        value = rows.logits[row][~finite[row]][0]
        rows.refuse(row, f"logits hold {value}; drop the row, or find what produced it")
    labels = rows.labels
    unlabelled = is_ood(name) or (
        not labelled and (labels is None or (labels.dtype.kind in "if" and bool((labels == NO_LABEL).all())))
    )
    checked = replace(
        rows,
        probs=None if rows.probs is None else _checked_probs(rows, rows.probs),
        uncertainty=_checked_scores(rows, "uncertainty"),
        ood_score=_checked_scores(rows, "ood_score"),
        sets=_checked_sets(rows),
        labels=None if unlabelled else _checked_labels(rows),
    )
    _check_ids(checked)
    return checked


def _check_set_name(name: str, rows: RowSet) -> None:
    if name == VAL:
        return
    expected = "name sets test, val, ood:NAME or shift:NAME-SEVERITY"
    try:
        kind = EvalSet(name)
    except InputError:
        rows.refuse(0, f"set {name!r} is unknown; {expected}")
    if kind.kind in ("near", "far") or kind.variant:
        rows.refuse(0, f"set {name} is computed here; {expected}")
    if kind.name and (not _NAME.fullmatch(kind.name) or kind.name.startswith(".")):
        rows.refuse(0, f"set {name!r} has a name that is none; use letters, digits and . _ + -")


def _check_lengths(rows: RowSet) -> None:
    (first, reference), *others = rows.arrays.items()
    for name, values in others:
        if len(values) != len(reference):
            raise InputError(
                f"{rows.where}: {name} has {len(values)} rows but {first} has {len(reference)}; give one a row"
            )
    if not len(reference):
        raise InputError(f"{rows.where} has no rows; give at least one")


def _checked_probs(rows: RowSet, values: Array) -> Array:
    sums = np.einsum("ij->i", values, dtype=np.float64)
    # Written so that NaN fails.
    bad = ~(values >= 0).all(axis=1) | ~(np.abs(sums - 1) <= ROUNDING)
    if bad.any():
        row = int(np.argmax(bad))
        if not (values[row] >= 0).all():
            column = int(np.argmax(~(values[row] >= 0)))
            value = values[row, column]
            rows.refuse(row, f"class {column} has {value:.6g}, no probability; if these are logits, say so: --logits "
                             "(in Python logits=…)")  # fmt: skip
        rows.refuse(row, f"probabilities sum to {sums[row]:.6g}, not to 1; if these are logits, say so: --logits "
                         "(in Python logits=…); if they are rounded, write more decimals")  # fmt: skip
    if np.abs(sums - 1).max() > sum_tolerance(values.dtype, values.shape[1]):
        values = values / sums[:, None]
    return values


def _matrix(rows: RowSet, name: str) -> Array | None:
    values: Array | None = getattr(rows, name)
    if values is None:
        return None
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise InputError(
            f"{rows.where}: {name} is {values.dtype} of shape {values.shape}; expected numbers (n, classes)"
        )
    if values.shape[1] < 2:
        raise InputError(f"{rows.where}: {name} has one class; for two classes give both columns, 1 − p and p")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _checked_labels(rows: RowSet) -> Array:
    labels, n_classes = rows.labels, rows.n_classes or 0
    if labels is None:
        raise InputError(f"{rows.where} has no labels; add them, one a row (a column label)")
    if labels.dtype == np.bool_ and n_classes == 2:
        labels = labels.astype(np.int64)
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        raise InputError(
            f"{rows.where}: labels are {labels.dtype} of shape {labels.shape}; number classes 0 … {n_classes - 1} in "
            "the order of the columns; an npz may name them in an array classes instead"
        )
    whole = labels == np.floor(labels)
    bad = ~whole | (labels < 0) | (labels >= n_classes)
    if bad.any():
        row = int(np.argmax(bad))
        rows.refuse(row, f"label {labels[row]:g} is not one of 0 … {n_classes - 1}, the {n_classes} columns' classes; "
                         "number classes from 0 in the order of the columns")  # fmt: skip
    return labels.astype(np.int64)


def _checked_scores(rows: RowSet, name: str) -> Array | None:
    values: Array | None = getattr(rows, name)
    if values is None:
        return None
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(f"{rows.where}: {name} is {values.dtype} of shape {values.shape}; expected one number a row")
    exact = values.astype(np.float64)
    if np.isnan(exact).any():
        rows.refuse(int(np.argmax(np.isnan(exact))), f"{name} is missing (NaN); a score must order")
    return exact


def _checked_sets(rows: RowSet) -> Array | None:
    sets = rows.sets
    if sets is None:
        return None
    if sets.ndim != 2 or sets.shape[1] != rows.n_classes or sets.dtype.kind not in "biuf":
        raise InputError(
            f"{rows.where}: sets is {sets.dtype} of shape {sets.shape}; expected 0 or 1 for each of {rows.n_classes} "
            "classes"
        )
    bad = ~((sets == 0) | (sets == 1)).all(axis=1)
    if bad.any():
        rows.refuse(int(np.argmax(bad)), "sets hold a value other than 0 and 1; write 1 where the class is in the set")
    return sets.astype(np.bool_)


def _check_ids(rows: RowSet) -> None:
    ids = rows.ids
    if ids is None:
        return
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise InputError(f"{rows.where}: id is {ids.dtype} of shape {ids.shape}; use whole numbers or text, one a row")
    order = np.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    if same.any():
        row = int(order[1:][same].min())
        rows.refuse(row, f"id {ids[row]} stands twice; give every row of a set an id of its own")


def _check_ood_scores(sets: Mapping[str, RowSet]) -> None:
    """Refuse OOD scores of another kind than the test rows': the two would not be comparable."""
    test = sets[str(TEST)]
    for name, rows in sets.items():
        if not is_ood(name):
            continue
        mine, theirs = _score_kind(test), _score_kind(rows)
        if mine != theirs:
            raise InputError(
                f"{rows.where} has {theirs} as its score but the test rows have {mine}; give both the same: "
                f"{'uncertainty' if theirs == _CONFIDENCE else theirs} for the test rows too, or neither"
            )


def _score_kind(rows: RowSet) -> str:
    return "ood_score" if rows.ood_score is not None else "uncertainty" if rows.uncertainty is not None else _CONFIDENCE
