"""Anyone's fitted classifier as a source of logits: its probabilities, its margins, or a plain function's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from volta.core.errors import InputError
from volta.core.types import Array
from volta.data.frames import Cells, RawTable
from volta.decisions.conformal import Floats

Response: TypeAlias = Literal["predict_proba", "decision_function", "output_margin", "network", "function"]

MARGINS = ("binary:logistic", "multi:softprob", "multi:softmax")
"""XGBoost's objectives whose margins are logits."""

SUM_TOLERANCE = 1e-3
"""How far from 1 the probabilities of a row may sum: some libraries round them."""


def response_of(estimator: Any) -> Response:
    """Return how a classifier is asked; raise unless it can be asked for more than labels.

    XGBoost is asked for its margins: it rounds probabilities to float32, in which 1 - p is soon 0.
    """
    last = split_steps(estimator)[1]
    if library_of(last) == "xgboost" and getattr(last, "objective", None) in MARGINS:
        return "output_margin"
    if hasattr(estimator, "predict_proba"):
        return "predict_proba"
    if is_network(estimator):
        return "network"
    if hasattr(estimator, "decision_function"):
        return "decision_function"
    if callable(estimator) and not isinstance(estimator, type):
        return "function"
    raise InputError(
        f"estimator is {estimator!r:.80}, which has neither predict_proba nor decision_function; pass a classifier "
        "with one of them, a torch.nn.Module, or a function from rows to probabilities"
    )


@dataclass(frozen=True, eq=False)
class BaseModel:
    """A fitted classifier, or a function, whose outputs are logits of ``n_classes``.

    ``columns``: the class number of each of its outputs; classes that it did not see have probability 0. Probabilities
    become log max(p, ``floor``), since a forest's may be 0; margins are logits as they are, one margin m being (0, m).
    """

    estimator: Any
    response: Response
    columns: NDArray[np.int64]
    n_classes: int
    floor: float

    @property
    def margins(self) -> bool:
        """Whether outputs are margins, and not probabilities."""
        return self.response in ("decision_function", "output_margin", "network")

    def logits(self, rows: Any) -> Floats:
        """Return (n, n_classes) logits of rows as the estimator takes them."""
        found = self.outputs(rows)
        if self.margins and len(self.columns) == self.n_classes:
            return found[:, np.argsort(self.columns)]
        if self.margins:
            found = _softmax(found)
        probs = found
        if len(self.columns) < self.n_classes or (self.columns[1:] < self.columns[:-1]).any():
            probs = np.zeros((len(found), self.n_classes))
            probs[:, self.columns] = found
        return np.asarray(np.log(np.maximum(probs, self.floor)))

    def outputs(self, rows: Any) -> Floats:
        """Return (n, len(columns)) probabilities or margins in float64, checked."""
        if len(rows) == 0:
            return np.zeros((0, len(self.columns)))
        found = np.asarray(self._ask(rows), dtype=np.float64)
        if self.margins and found.size == len(found):
            found = found.reshape(-1)
            found = np.column_stack([np.zeros_like(found), found])
        name = f"{self.response} of {name_of(self.estimator)}"
        if found.shape != (len(rows), len(self.columns)):
            raise InputError(
                f"{name} gave an array of shape {found.shape} for {len(rows)} rows and {len(self.columns)} classes; "
                "it has to give a row for each row and a column for each class"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.einsum("ij->i", found)
        if not np.isfinite(sums).all():
            row = int(np.argmin(np.isfinite(sums)))
            raise InputError(f"{name} gave {found[row].tolist()} for row {row}; every number has to be finite")
        if not self.margins and len(found):
            wrong = np.abs(sums - 1.0) > SUM_TOLERANCE
            if found.min() < -SUM_TOLERANCE:  # rarely, and a look at each row takes longer
                wrong |= (found < -SUM_TOLERANCE).any(axis=1)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise InputError(
                    f"{name} gave {found[row].tolist()} for row {row}, which are no probabilities; return those, "
                    "of logits their softmax"
                )
        return found

    def _ask(self, rows: Any) -> Any:
        if self.response == "function":
            return self.estimator(rows)
        if self.response == "network":
            return _network_logits(self.estimator, rows)
        if self.response != "output_margin":
            return getattr(self.estimator, self.response)(rows)
        prepare, last = split_steps(self.estimator)
        return last.predict(rows if prepare is None else prepare.transform(rows), output_margin=True)


NETWORK_ROWS = 1024
"""So many rows a network is given at a time."""


def is_network(estimator: Any) -> bool:
    """Whether an estimator is a torch.nn.Module."""
    import torch

    return isinstance(estimator, torch.nn.Module)


def _network_logits(network: Any, rows: Array) -> Floats:
    """Return a network's outputs, or their ``logits``, in whole blocks: rounding depends on how many rows there are."""
    import torch

    from volta.estimators.deciding import in_blocks
    from volta.estimators.post_hoc import evaluating

    weight = next(network.parameters(), torch.zeros(0))
    given = torch.as_tensor(in_blocks(np.asarray(rows))).to(weight.device, weight.dtype)
    with evaluating(network), torch.inference_mode():
        found = [network(batch) for batch in torch.split(given, NETWORK_ROWS)]
    logits = torch.cat([getattr(each, "logits", each) for each in found])
    return np.asarray(logits.double().cpu().numpy()[: len(rows)])


def _softmax(logits: Floats) -> Floats:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def name_of(estimator: Any) -> str:
    """Return what a reader knows a classifier by: its class, a pipeline's steps, or a function's name."""
    if hasattr(estimator, "steps"):
        return " → ".join(type(step).__name__ for _, step in estimator.steps)
    if isinstance(estimator, PreparedModel):
        return f"{name_of(estimator.prepare)} → {name_of(estimator.model)}"
    return str(getattr(estimator, "__name__", type(estimator).__name__))


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model of a library of its own behind the earlier steps of the scikit-learn pipeline that it ended."""

    prepare: Any
    model: Any

    def predict_proba(self, rows: Any) -> Any:
        """Return the model's probabilities of the prepared rows."""
        return self.model.predict_proba(self.prepare.transform(rows))


def unfrozen(estimator: Any) -> Any:
    """Return what a FrozenEstimator holds, or the estimator itself."""
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def split_steps(estimator: Any) -> tuple[Any, Any]:
    """Return the earlier steps of a pipeline, or None, and its last, or the estimator itself."""
    estimator = unfrozen(estimator)
    if isinstance(estimator, PreparedModel):
        return estimator.prepare, estimator.model
    steps = getattr(estimator, "steps", [("", estimator)])
    return estimator[:-1] if len(steps) > 1 else None, steps[-1][1]


def fit_base(
    estimator: Any,
    rows: Any,
    labels: NDArray[np.int64],
    classes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    floor: float,
) -> BaseModel:
    """Fit an unfitted classifier on rows with class numbers ``labels``, and return it."""
    present, numbers = np.unique(labels, return_inverse=True)
    # XGBoost takes class numbers 0, 1, ... alone; all others see the user's labels, which their parameters may name.
    numbered = library_of(split_steps(estimator)[1]) == "xgboost"
    estimator.fit(rows, numbers if numbered else classes[labels], **_weighting(estimator, weights))
    return BaseModel(estimator, response_of(estimator), present, len(classes), floor)


def library_of(estimator: Any) -> str:
    """Return the name of the package that an estimator's class is from."""
    return type(estimator).__module__.partition(".")[0]


def _weighting(estimator: Any, weights: NDArray[np.float64] | None) -> dict[str, Any]:
    """Return the arguments of ``fit`` by which an estimator, or the last step of a pipeline, is given weights."""
    if weights is None:
        return {}
    if has_fit_parameter(estimator, "sample_weight"):
        return {"sample_weight": weights}
    if hasattr(estimator, "steps") and has_fit_parameter(split_steps(estimator)[1], "sample_weight"):
        from sklearn import get_config

        routed = get_config()["enable_metadata_routing"]
        return {"sample_weight" if routed else f"{estimator.steps[-1][0]}__sample_weight": weights}
    raise InputError(
        f"sample_weight is set, but fit of {name_of(estimator)} takes none; leave it out, or pass whole numbers, which "
        "count rows"
    )


def known_classes(estimator: Any) -> NDArray[Any] | None:
    """Return the labels that a fitted classifier knows, in the order of its outputs, or None of a plain function."""
    found = getattr(estimator, "classes_", None)
    if found is None:
        return None
    classes = np.asarray(found)
    if classes.ndim != 1 or len(np.unique(classes)) != len(classes):
        raise InputError(f"estimator.classes_ has shape {classes.shape}; a classifier of one target has (n_classes,)")
    return classes


def take_rows(rows: Any, index: NDArray[np.int64]) -> Any:
    """Return some rows of a data frame of pandas, polars or pyarrow, or of an array."""
    if hasattr(rows, "iloc"):
        return rows.iloc[index]
    return rows.take(index) if hasattr(rows, "column_names") else rows[index]


def frame_like(given: Any, table: RawTable) -> Any:
    """Return a table as a data frame of the package of ``given``, categories typed as there."""
    columns = {name: _plain_cells(cells) for name, cells in zip(table.names or (), table.columns, strict=True)}
    package = library_of(given)
    if package == "polars":
        import polars

        return polars.DataFrame({name: list(values) for name, values in columns.items()}, schema=given.schema)
    if package == "pyarrow":
        import pyarrow

        return pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()})
    import pandas

    frame = pandas.DataFrame(columns)
    typed = {name: kind for name, kind in given.dtypes.items() if str(kind) == "category"}
    return frame.astype(typed) if typed else frame


def _plain_cells(cells: Cells) -> Array:
    """Return a column's cells as data frames hold them."""
    if cells.kind == "text" or np.isnan(cells.values).any():
        return cells.values
    if cells.kind == "date":
        return (cells.values * 86_400_000_000).astype("datetime64[us]")
    return cells.values.astype(np.bool_) if cells.kind == "boolean" else cells.values


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows as the base model takes them, and the same as numbers (n, d), for evidence."""

    raw: Any
    numbers: Array

    def __len__(self) -> int:
        return len(self.numbers)
