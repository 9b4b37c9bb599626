"""What someone's own model says of rows, and the form that it is stored in as a cell's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from volta.bench.eval_set import TEST, VAL
from volta.core.errors import InputError
from volta.core.types import Array
from volta.methods.scores import one_minus_max, one_minus_max_softmax, softmax

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
class OwnModel:
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


def stored_arrays(model: OwnModel) -> dict[str, Array]:
    """Return the arrays of a checked model in a cell's layout, ``SET/KIND``; probabilities are float32 or float64."""
    arrays: dict[str, Array] = {}
    for name, rows in model.sets.items():
        if is_ood(name):
            arrays[f"{name}/ood_score"] = _ood_score(rows)
        else:
            arrays |= {f"{name}/{kind}": values for kind, values in _labelled(name, rows).items()}
        if rows.ids is not None:
            arrays[f"{name}/id"] = rows.ids
    return arrays


def _labelled(name: str, rows: RowSet) -> dict[str, Array]:
    probs = _probs(rows)
    if rows.labels is None:
        raise InputError(f"{rows.where} has no labels; add them, one a row")
    arrays: dict[str, Array] = {"labels": rows.labels.astype(np.int32), "probs": probs}
    if name == VAL:
        return arrays
    arrays["uncertainty"] = _uncertainty(rows)
    if name == str(TEST):
        arrays["ood_score"] = _ood_score(rows)
    if rows.sets is not None:
        arrays["sets"] = rows.sets
    return arrays


def _probs(rows: RowSet) -> Array:
    if rows.probs is not None:
        return rows.probs
    if rows.logits is None:
        raise InputError(f"{rows.where} has neither probs nor logits; add one of them")
    return softmax(np.asarray(rows.logits, dtype=np.float64))


def _uncertainty(rows: RowSet) -> Array:
    """Return the uncertainty given, or 1 − max p, without cancellation near certainty."""
    if rows.uncertainty is not None:
        return rows.uncertainty
    if rows.probs is None and rows.logits is not None:
        return one_minus_max_softmax(np.asarray(rows.logits, dtype=np.float64))
    return one_minus_max(_probs(rows))


def _ood_score(rows: RowSet) -> Array:
    return rows.ood_score if rows.ood_score is not None else _uncertainty(rows)
