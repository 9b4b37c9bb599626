"""What every classifier of table rows shares: its fits become decisions, a record, explanations and a saved state."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from volta._version import __version__
from volta.core.checks import check_count
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.files import hash_array
from volta.core.scaling import Scaler
from volta.core.seeding import rng
from volta.core.types import Array, Split
from volta.data.column_encoding import TableSchema
from volta.data.frames import is_frame
from volta.decisions import TableEvidence
from volta.decisions.monitor import drift_in_order
from volta.estimators.deciding import (
    DEFAULT_COVERAGE,
    NO_ROWS,
    DecidingMixin,
    ErrorsName,
    HeldOut,
    Member,
    calibrate,
    join_predictions,
)
from volta.estimators.explain import Explanation, Reference, explain_rows, fit_reference
from volta.estimators.inputs import FitInput, check_rows, matched, surely_finite, without_lost

if TYPE_CHECKING:
    from volta.methods.base import Method
    from volta.networks.recipe import TrainingLog


PACKAGES = ("numpy", "scikit-learn", "torch")


@dataclass(frozen=True)
class FitRecord:
    """Rows that a classifier was fitted on, part by part (``train``, ``val``, ``cal``), and what made it.

    ``class_counts``: part → rows of each class, in the order of ``classes_``; ``data_hash``: part → SHA-256 over
    features and class numbers as they were used; ``files``: name → SHA-256 of the files they were read from, where they
    were; ``label``: the column that held the classes; ``versions``: package → version. With ``n_folds`` above 1 each
    row calibrates the one of as many fits that did not see it: ``train`` and ``cal`` are all rows, and ``val`` is
    there only where the user has rows for it.
    """

    class_counts: dict[str, tuple[int, ...]]
    data_hash: dict[str, str]
    versions: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    label: str | None = None
    n_folds: int = 1

    def n_rows(self, part: str) -> int:
        """Return how many rows a part has."""
        return sum(self.class_counts[part])


def record_fit(parts: Mapping[str, Split], classes: NDArray[Any], n_folds: int) -> FitRecord:
    """Describe the parts of a fit; rows are in the user's units, those in ``train`` are all that trained."""
    return FitRecord(
        class_counts={
            name: tuple(np.bincount(part.labels, minlength=len(classes)).tolist()) for name, part in parts.items()
        },
        data_hash={name: _hash(part) for name, part in parts.items()},
        versions={"volta-uq": __version__, **{name: found for name in PACKAGES if (found := _version(name))}},
        n_folds=n_folds,
    )


def _hash(part: Split) -> str:
    return hashlib.sha256(f"{hash_array(part.inputs)}{hash_array(part.labels)}".encode()).hexdigest()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


ORDER_ALPHA = 0.001
"""How often rows without an order may be warned of."""

ORDER_COLUMNS = 30
"""At most so many columns, drawn at random, are looked at for a change along the order of the rows."""


class OrderWarning(VoltaWarning):
    """Rows change along the order in which they were given: new rows may be unlike them."""


class FittedRows(Member, Protocol):
    """One fit on table rows: a method, and the scaling and evidence that were learned on the same rows."""

    @property
    def method(self) -> Method:
        """What predicts."""

    @property
    def scaler(self) -> Scaler:
        """The scaling of the training rows."""

    @property
    def evidence(self) -> TableEvidence:
        """What the training rows look like."""


class RowClassifier(DecidingMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of table rows after its fits: ``members_``, one with split calibration, several with cross-fitting.

    Rows are a matrix of numbers, or a table as it comes; ``schema_``, None for the former, encodes those.

    A subclass fits members, passes them to ``_learn``, and makes them again from a saved state in ``_remake``.
    """

    members_: Sequence[FittedRows]
    history_: tuple[TrainingLog, ...]
    reference_: Reference
    fit_record_: FitRecord
    n_features_in_: int
    random_state: Any
    keep_rows: bool
    schema_: TableSchema | None = None

    @property
    def method_(self) -> Method:
        """The method of the first fit."""
        return self.members_[0].method

    @property
    def scaler_(self) -> Scaler:
        """The scaling of the first fit."""
        return self.members_[0].scaler

    def _learn(
        self, given: FitInput, parts: list[tuple[Split, Split, Split]], fits: Sequence[tuple[FittedRows, HeldOut]]
    ) -> None:
        """Take over the fits of each draw's ``parts``, and what they say of the rows that calibrate them."""
        from volta.methods.conformal import Aps

        self.members_ = [member for member, _ in fits]
        self.set_score_ = "aps" if isinstance(self.method_, Aps) else "lac"
        self.calibration_ = calibrate([held_out for _, held_out in fits])
        self._set_policy(coverage=DEFAULT_COVERAGE)
        self._warn_of_order(given)
        train, val, cal = parts[0]
        recorded = {"train": train, "val": val, "cal": cal}
        if len(parts) > 1:
            recorded = {"train": given.rows, "cal": given.rows} | ({} if given.val is None else {"val": given.val})
        self.fit_record_ = record_fit(recorded, self.classes_, len(parts))
        learned, index = (given.rows, given.index) if len(parts) > 1 else (train, given.index[given.draws[0].train])
        kept = (index, learned.inputs) if self.keep_rows else None
        scaled: Array = self.scaler_.apply(learned.inputs)
        self.reference_ = fit_reference(self.method_, scaled, learned.labels, len(self.classes_), kept)

    def _inputs(self, X: Any) -> Any:  # noqa: N803
        self._fitted()
        return check_rows(self, X)

    def _cells(self, X: Any, errors: ErrorsName) -> tuple[Array, NDArray[Any] | None, NDArray[np.intp]]:  # noqa: N803
        self._fitted()
        if self.schema_ is None:
            rows = check_rows(self, X, finite=errors == "raise")
            if surely_finite(rows):
                return rows, None, NO_ROWS
            return without_lost(rows, self._names(), self.members_[0].evidence.centre)
        table = matched(self, X)
        rows = self.schema_.encode_table(table)
        if not rows[:, self.schema_.flags].any():
            return rows, None, NO_ROWS
        misfits = self.schema_.misfits(table, rows)
        if errors == "raise":
            raise InputError(f"X row {misfits[0].row}, {misfits[0]}; mend the cell, or pass errors='flag'")
        notes = np.full(len(rows), "", dtype=object)
        for row, several in groupby(misfits, key=lambda misfit: misfit.row):
            notes[row] = "; ".join(map(str, several))
        return rows, notes, NO_ROWS

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return (n, K) class probabilities, columns in the order of ``classes_``."""
        self._check_order(X)
        return super().predict_proba(X)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the most probable label of each row."""
        self._check_order(X)
        return super().predict(X)

    def _check_order(self, X: Any) -> None:  # noqa: N803
        """Raise where a data frame of numbers has other columns than the fit: scikit-learn asks it of these methods."""
        self._fitted()
        if self.schema_ is None and is_frame(X):
            validate_data(self, X, reset=False, skip_check_array=True)

    def _names(self) -> list[str] | None:
        """Return the names of the columns, where there are any."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn that tables with missing values and text are taken.

        Its tag of categories stays unset: to its checks it means categories coded as whole numbers, which are numbers.
        """
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def _warn_of_order(self, given: FitInput) -> None:
        """Warn where held-out rows change along the order in which they were given, as those of a stream may."""
        kept = self.calibration_
        order = given.order_of_calibration()
        rows = given.cal.inputs if given.cal is not None else given.rows.inputs[given.calibration_rows()]
        random = rng(self.seed_, "order")
        columns = np.sort(random.permutation(rows.shape[1])[:ORDER_COLUMNS])
        scores = np.column_stack([kept.true_scores["lac"][order], kept.ood[order], rows[order][:, columns]])
        drift = drift_in_order(scores, groups=kept.labels[order], alpha=ORDER_ALPHA, rng=random)
        if drift.alarm:
            warn_user(drift.note, OrderWarning)

    def explain(self, X: Any, *, most: int = 3) -> list[Explanation]:  # noqa: N803
        """Return for each row the nearest classes, columns that speak against it, and similar training rows.

        The latter with ``keep_rows``; at most ``most`` of each. ``print`` shows an explanation in words.
        """
        inputs = self._inputs(X)
        return explain_rows(
            self._numbers(inputs),
            method=self.method_,
            scaler=self.scaler_,
            evidence=self.members_[0].evidence,
            reference=self.reference_,
            prediction=join_predictions([member.predict(inputs) for member in self.members_]),
            classes=self.classes_,
            names=self._names(),
            most=check_count(most, "most"),
            encoded=None if self.schema_ is None else (self.schema_, matched(self, X)),
        )

    def card(self, path: Path | str) -> None:
        """Write the model card, HTML or, where ``path`` ends in ``.md``, Markdown; ``volta card`` takes test sets too.

        Calibration, risk and coverage, policies with guarantees, hashes and limits, from the calibration samples.
        """
        from volta.core.files import write_text
        from volta.estimators.card import calibration_evidence, card_html, card_markdown, make_card
        from volta.estimators.saving import file_path

        self._fitted()
        made = make_card(self, None, calibration_evidence(self))
        found = file_path(path)
        write_text(found, card_markdown(made) if found.suffix.lower() == ".md" else card_html(made))

    def save(self, path: Path | str) -> None:
        """Write the fitted classifier to one safetensors file with a checksum; nothing is pickled."""
        from volta.estimators.saving import save_classifier

        self._fitted()
        save_classifier(self, path, self._methods(), self._state())

    def _numbers(self, inputs: Any) -> Array:
        """Return checked inputs as rows of numbers (n, d)."""
        rows: Array = inputs
        return rows

    def _methods(self) -> list[Method]:
        return [member.method for member in self.members_]

    def _state(self) -> dict[str, Any]:
        """Return what ``fit`` learned, but the methods and the classes, as a saved file holds it."""
        state = {name: getattr(self, name) for name in _STATE}
        if self.schema_ is not None:
            state["schema_"] = self.schema_
        state["members"] = [{"scaler": each.scaler, "evidence": each.evidence} for each in self.members_]
        if hasattr(self, "feature_names_in_"):
            state["feature_names_in_"] = [str(name) for name in self.feature_names_in_]
        return state

    def _restore(self, methods: list[Method], classes: NDArray[Any], state: dict[str, Any]) -> Self:
        """Take over what an equal classifier learned, from a saved file."""
        from volta.estimators.saving import restore_state

        self.members_ = self._remake(methods, classes, state)
        restore_state(self, classes, state, (*_STATE, "feature_names_in_", "schema_"))
        if "feature_names_in_" in state:
            self.feature_names_in_ = np.array(state["feature_names_in_"], dtype=object)
        return self

    @abstractmethod
    def describe(self) -> list[tuple[str, str]]:
        """Return what made the fit, in words, for the model card."""

    @abstractmethod
    def to_onnx(self, path: Path | str) -> None:
        """Write an ONNX graph that decides as :meth:`decide` does."""

    @abstractmethod
    def _remake(self, methods: list[Method], classes: NDArray[Any], state: dict[str, Any]) -> Sequence[FittedRows]:
        """Return the members of a saved file; what they are made of is taken out of ``state``."""


_STATE = (
    "n_features_in_",
    "calibration_",
    "reference_",
    "history_",
    "set_score_",
    "seed_",
    "policy_settings_",
    "fit_record_",
)
