"""A model behind one face for serving: rows of JSON in, decisions out, whatever kind of file holds it."""

from __future__ import annotations

import base64
import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError, VoltaError, VoltaWarning, parse_errors
from volta.core.types import Array
from volta.decisions import Decisions, Monitor
from volta.decisions.conformal import Floats
from volta.serve.state import ColumnRanges

if TYPE_CHECKING:
    from volta.estimators.deciding import DecidingMixin
    from volta.estimators.row_classifier import RowClassifier

_NUMBERS = frozenset({int, float, bool})
_CELLS = _NUMBERS | {str, type(None)}


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of n rows: ``decisions``; ``probs`` (n, K); ``monitor`` (n,), what the monitor ranks.

    ``numbers`` (n, d): what drift of columns is seen in, None where there are no columns.
    """

    decisions: Decisions
    probs: Floats
    monitor: Floats
    numbers: Floats | None = None


class ServedModel(ABC):
    """A loaded model.

    ``columns``: names of a row's values, or None; ``n_values``: how many there are, None for images; ``batches``:
    whether a row's answer is the same next to other rows; ``max_error``: the policy's, None where it has none;
    ``edges``, ``ranges``: what a stream is compared with, see :class:`~volta.serve.state.State`; ``card_of``: the
    classifier whose model card is the model's, None where there is none.
    """

    classes: NDArray[Any]
    columns: tuple[str, ...] | None
    n_values: int | None
    batches: bool = True
    alpha: float
    fpr: float
    max_error: float | None = None
    policy: str
    title: str
    edges: Floats | None = None
    ranges: ColumnRanges | None = None
    card_of: RowClassifier | None = None

    @abstractmethod
    def score(self, rows: Any) -> Scores:
        """Decide rows that :meth:`parse` has made."""

    @abstractmethod
    def monitor(self, *, alpha: float, block: int) -> Monitor:
        """Return a new monitor."""

    def parse(self, rows: Sequence[Any]) -> tuple[Array, list[str | None]]:
        """Return the good rows as (m, d) float64, and for each row given why it is bad, None where it is good."""
        width = int(self.n_values or 0)
        if all(type(row) is list and len(row) == width and _NUMBERS.issuperset(map(type, row)) for row in rows):
            found, reasons = [*rows], list[str | None]([None] * len(rows))
        else:
            cells = [self._cells(row) for row in rows]
            found = [row for row in cells if not isinstance(row, str)]
            reasons = [row if isinstance(row, str) else None for row in cells]
        try:
            values = np.array(found, dtype=np.float64).reshape(-1, width)
        except OverflowError:
            values = np.array([[_as_float(value) for value in row] for row in found]).reshape(-1, width)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            good = [place for place, why in enumerate(reasons) if why is None]
            for place in np.flatnonzero(~finite).tolist():
                column = int(np.argmin(np.isfinite(values[place])))
                reasons[good[place]] = f"{self._called(column)} is too large for a number"
            values = values[finite]
        return values, reasons

    def _cells(self, row: Any) -> list[Any] | tuple[Any, ...] | str:
        """Return a row's values in the model's order, or why there are none."""
        if isinstance(row, dict):
            if self.columns is None:
                return f"the model's columns have no names; pass a list of {self.n_values} numbers"
            try:
                found = itemgetter(*self.columns)(row) if len(self.columns) > 1 else (row[self.columns[0]],)
            except KeyError as error:
                return f"column {error.args[0]!r} is missing"
        elif isinstance(row, list):
            if len(row) != self.n_values:
                return f"the row has {len(row)} values, the model {self.n_values}"
            found = row
        else:
            return "a row is an object of values by column name, or a list of values"
        for place, value in enumerate(found):
            if problem := self._cell_problem(value):
                return f"{self._called(place)} {problem}"
        return found

    def _cell_problem(self, value: Any) -> str:
        if type(value) in _NUMBERS:
            return ""
        return "is missing" if value is None else f"holds {json.dumps(value)[:40]}, which is no number"

    def _called(self, place: int) -> str:
        return f"column {place if self.columns is None else repr(self.columns[place])}"

    def check_batches(self, example: Any) -> None:
        """Find out whether equal rows get equal answers next to each other; methods that draw at random do not."""
        one, two = self.score(example[:1]), self.score(example)
        same = np.array_equal(two.probs[:1], one.probs) and np.array_equal(two.probs[0], two.probs[-1])
        self.batches = self.batches and same and bool(one.monitor[0] == two.monitor[0] == two.monitor[-1])


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


class TableModel(ServedModel):
    """A classifier of table rows: ours, any that ``TrustedClassifier`` holds, or one of a network's outputs.

    Rows of a network's outputs are its logits, then its features.
    """

    def __init__(self, classifier: DecidingMixin, *, alpha: float, fpr: float) -> None:
        from volta.estimators.card import policy_sentence
        from volta.estimators.row_classifier import RowClassifier
        from volta.estimators.trusted import TrustedClassifier

        self.classifier, self.alpha, self.fpr = classifier, alpha, fpr
        self.classes, self.title = classifier.classes_, type(classifier).__name__
        self.max_error = classifier.policy_.max_error if classifier.policy_.exists else None
        self.policy = policy_sentence(classifier.policy_)
        self.edges = _edges(classifier)
        evidence = getattr(classifier.members_[0], "evidence", None)
        self._schema, self._of_outputs = None, not isinstance(classifier, RowClassifier)
        self._by_frame = isinstance(classifier, TrustedClassifier)
        example: Any
        if isinstance(classifier, RowClassifier):
            self.card_of = classifier
            names = getattr(classifier, "feature_names_in_", None)
            self.columns = None if names is None else tuple(str(name) for name in names)
            self.n_values, self._schema = int(classifier.n_features_in_), classifier.schema_
            found: Any = classifier.members_[0].evidence
            watched = self.columns or tuple(str(place) for place in range(self.n_values))
            if self._schema is not None:
                self.columns = self._schema.names if self._schema.named else None
                watched = self._schema.encoded_names
            self.ranges = ColumnRanges(watched, found.centre, found.scale, found.levels[:, 0], found.high)
            example = np.repeat(found.centre[None], 3, axis=0)
            if self._schema is not None:
                example = list(
                    zip(*(cells.values.tolist() for cells in self._schema.decode(example).columns), strict=True)
                )
        else:
            self.columns = tuple(f"logit_{place}" for place in range(len(self.classes)))
            if evidence is not None:
                self.columns += tuple(f"feature_{place}" for place in range(len(evidence.high)))
            self.n_values = len(self.columns)
            example = np.zeros((3, self.n_values))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VoltaWarning)
            self.check_batches(example)

    def parse(self, rows: Sequence[Any]) -> tuple[Any, list[str | None]]:
        """Return good rows, as numbers or, of a table with text, dates or missing cells, as lists of cells."""
        if self._schema is None:
            return super().parse(rows)
        cells = [self._cells(row) for row in rows]
        return [row for row in cells if not isinstance(row, str)], [
            row if isinstance(row, str) else None for row in cells
        ]

    def _cell_problem(self, value: Any) -> str:
        if self._schema is None:
            return super()._cell_problem(value)
        return (
            f"holds a JSON {type(value).__name__}; send a number, a text or null" if type(value) not in _CELLS else ""
        )

    def score(self, rows: Any) -> Scores:
        """Decide rows that :meth:`parse` has made."""
        inputs, numbers, notes = self._inputs(rows)
        scored = self.classifier._score(inputs)
        decisions = self.classifier.decide_scored(scored, self.fpr, alpha=self.alpha)
        if notes is not None:
            decisions = replace(decisions, notes=notes)
        return Scores(decisions, scored.prediction.probs, scored.ood[0], numbers)

    def _inputs(self, rows: Any) -> tuple[Any, Floats | None, NDArray[Any] | None]:
        """Return what the fits take, the numbers in which drift is seen, and notes of unseen kinds of cells."""
        classifier: Any = self.classifier
        if self._of_outputs:
            from volta.networks.outputs import Outputs

            logits, features = rows[:, : len(self.classes)], rows[:, len(self.classes) :]
            return classifier._inputs(Outputs(logits, features if features.shape[1] else None)), None, None
        if self._schema is None and not self._by_frame:
            return rows, rows, None
        table = rows
        if self._schema is not None:
            finite = [[_as_float(value) if type(value) is int else value for value in row] for row in rows]
            names = self._schema.names
            table = dict(zip(names, map(list, zip(*finite, strict=True)), strict=True))
        if self._by_frame and self.columns is not None:
            import pandas

            table = pandas.DataFrame(table, columns=list(self.columns))
        inputs, notes, _ = classifier._cells(table, "flag")
        return inputs, classifier._numbers(inputs), notes

    def monitor(self, *, alpha: float, block: int) -> Monitor:
        """Return a new monitor of the first fit's scores."""
        return self.classifier.monitor(alpha=alpha, block=block).scores


def _edges(classifier: DecidingMixin) -> Floats:
    return np.asarray(np.quantile(classifier.calibration_.uncertainty, np.arange(1, 10) / 10))


class _Encoded(ServedModel):
    """A model whose row is an image file, in base64."""

    columns, n_values, batches = ("image",), None, False

    def parse(self, rows: Sequence[Any]) -> tuple[Any, list[str | None]]:
        """Return the images as (h, w, 3) uint8, and why the others are none."""
        from volta.data.images import decode

        images, reasons = [], list[str | None]()
        for row in rows:
            text: Any = row.get("image") if isinstance(row, dict) else row
            try:
                images.append(decode(base64.b64decode(text, validate=True)))
                reasons.append(None)
            except (VoltaError, ValueError, TypeError) as error:
                reasons.append(f"not an image file in base64 ({error})"[:200])
        return images, reasons


class ImageModel(_Encoded):
    """A classifier of images."""

    def __init__(self, classifier: Any, *, alpha: float, fpr: float) -> None:
        from volta.estimators.card import policy_sentence

        self.classifier, self.alpha, self.fpr = classifier, alpha, fpr
        self.classes, self.title = classifier.classes_, type(classifier).__name__
        self.max_error = classifier.policy_.max_error if classifier.policy_.exists else None
        self.policy = policy_sentence(classifier.policy_)
        self.edges, self.card_of = _edges(classifier), classifier.classifier_

    def score(self, rows: Any) -> Scores:
        """Decide images one by one: they may differ in size."""
        from volta.features.extract import PixelArray

        images = [PixelArray(np.ascontiguousarray(image.transpose(2, 0, 1)[None])) for image in rows]
        found = [self.classifier._scored(image) for image in images]
        decided = [self.classifier.decide_scored(each, self.fpr, alpha=self.alpha) for each in found]
        return Scores(
            _joined(decided),
            np.concatenate([each.prediction.probs for each in found]),
            np.concatenate([each.ood[0] for each in found]),
        )

    def monitor(self, *, alpha: float, block: int) -> Monitor:
        """Return a new monitor of the first fit's scores."""
        scores: Monitor = self.classifier.monitor(alpha=alpha, block=block).scores
        return scores


def _joined(parts: Sequence[Decisions]) -> Decisions:
    first = parts[0]
    fields = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("action", "label", "probability", "uncertainty", "pvalue", "sets")
    }
    return Decisions(class_names=first.class_names, reasons=first.reasons, **fields)


class OnnxModel(ServedModel):
    """A graph that ``to_onnx`` wrote; it knows neither its calibration scores nor its policy's error.

    The monitor ranks rows by their p-value: a row with p = (1 + m)/(1 + n) has m of the n calibration scores above its
    own, which stand half a step apart from it. Between two calibration scores rows tie, and ties are drawn.
    """

    batches = False

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingDataError(
                "an ONNX graph needs ONNX Runtime; install it with: pip install 'volta-uq[onnx]'"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        with parse_errors(path, "cannot be loaded as an ONNX graph", "export it again: volta export"):
            self._session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        notes = self._session.get_modelmeta().custom_metadata_map
        with parse_errors(path, "is no graph of a classifier as volta writes them", "export one: volta export"):
            known = {name: json.loads(text) for name, text in notes.items()}
            self.classes, self.alpha, self.fpr = np.array(known["classes"]), known["alpha"], known["fpr"]
            self.title, self._n = f"{known['method']}, ONNX", int(known["n_calibration"])
            above, names = known["abstain_above"], known["feature_names"]
        self._inputs = [(each.name, each.type, each.shape) for each in self._session.get_inputs()]
        self.is_of_images = self._inputs[0][0] == "pixels"
        self._widths = [int(shape[-1]) for _, _, shape in self._inputs] if not self.is_of_images else []
        self.n_values = sum(self._widths) or None
        self.columns = None if names is None else tuple(names)
        if len(self._widths) > 1 or self._inputs[0][0] == "logits":
            self.columns = tuple(
                f"{name.removesuffix('s')}_{place}"
                for (name, _, _), width in zip(self._inputs, self._widths, strict=True)
                for place in range(width)
            )
        limit = "never" if above is None else above if isinstance(above, str) else f"above {above:.4g}"
        self.policy = f"abstains {limit}; fixed at export"
        self._reasons = (
            "uncertainty at most the policy's threshold",
            "uncertainty above the policy's threshold",
            f"conformal p-value at most {self.fpr:g}",
        )

    def parse(self, rows: Sequence[Any]) -> tuple[Any, list[str | None]]:
        """Return good rows, and why the others are bad."""
        return _Encoded.parse(self, rows) if self.is_of_images else super().parse(rows)  # type: ignore[arg-type]

    def score(self, rows: Any) -> Scores:
        """Run the graph; images one by one."""
        if self.is_of_images:
            parts = [self._run({"pixels": np.ascontiguousarray(image.transpose(2, 0, 1)[None])}) for image in rows]
            found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        else:
            pieces = np.split(rows, np.cumsum(self._widths)[:-1], axis=1)
            found = self._run(
                {
                    name: piece.astype(np.float64 if "double" in kind else np.float32)
                    for (name, kind, _), piece in zip(self._inputs, pieces, strict=True)
                }
            )
        decisions = Decisions(
            action=found["decision"],
            label=self.classes[found["label"]],
            probability=found["probs"].max(axis=1),
            uncertainty=found["uncertainty"],
            pvalue=found["ood_pvalue"],
            sets=found["set"],
            class_names=self.classes,
            reasons=self._reasons,
        )
        return Scores(decisions, found["probs"], -np.round(found["ood_pvalue"] * (self._n + 1) - 1))

    def _run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(None, inputs), strict=True))

    def monitor(self, *, alpha: float, block: int) -> Monitor:
        """Return a new monitor of p-values."""
        return Monitor(0.5 - np.arange(1, self._n + 1), alpha=alpha, block=block, rng=np.random.default_rng(0))


def load_served(path: Path, *, alpha: float | None = None, fpr: float | None = None) -> ServedModel:
    """Return the model of a file: any saved classifier of ours, or an exported graph, whose levels are fixed."""
    from volta.estimators.deciding import DEFAULT_FPR
    from volta.estimators.saving import load

    if not path.is_file():
        raise MissingDataError(
            f"MODEL is {path}, which does not exist; make one: volta fit DATA --label COLUMN --out {path}"
        )
    if path.suffix.lower() == ".onnx":
        if alpha is not None or fpr is not None:
            raise InputError("--alpha or --fpr is set, but a graph has both fixed; export it again with to_onnx")
        return OnnxModel(path)
    classifier = load(path)
    kind = ImageModel if hasattr(classifier, "backbone_") else TableModel
    return kind(classifier, alpha=0.1 if alpha is None else alpha, fpr=DEFAULT_FPR if fpr is None else fpr)
