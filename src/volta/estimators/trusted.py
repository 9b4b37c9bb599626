"""Trust for any classifier: calibrated probabilities, sets, abstention, OOD flags around the model you have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from volta.core.errors import InputError, StoreError, unknown_name
from volta.core.scaling import Scaler, fit_scaler
from volta.core.seeding import rng
from volta.core.types import Array, Prediction, Split
from volta.data.column_encoding import named_rows
from volta.data.frames import RawTable, is_frame, read_table
from volta.decisions import TableEvidence, fit_evidence
from volta.decisions.conformal import Floats
from volta.estimators.base_models import (
    BaseModel,
    TableRows,
    fit_base,
    frame_like,
    known_classes,
    name_of,
    response_of,
    take_rows,
)
from volta.estimators.classifier import seed_of
from volta.estimators.deciding import ErrorsName, HeldOut, evidence_scores, hold_out, settled
from volta.estimators.inputs import CalibrationName, FitInput, averaging_one, check_rows, matched, prepare_fit_input
from volta.estimators.model_files import dump_model, dump_rows, load_model, load_rows, warn_of_storage
from volta.estimators.row_classifier import RowClassifier
from volta.methods.calibrators import (
    CALIBRATORS,
    Calibrator,
    FittedTemperature,
    find_calibrator,
    fold_losses,
    folds_of,
)
from volta.methods.temperature import CalibrationWarning
from volta.networks.outputs import LabelledOutputs, NetworkOutputs, Outputs

if TYPE_CHECKING:
    from volta.methods.base import Method, PostHoc


UNCHANGED = "softmax"
"""The method that leaves probabilities as they are."""

CANDIDATES = (UNCHANGED, "temperature", "structured_vector_scaling")
"""What ``calibrator="auto"`` chooses from; the last, with parameters for each class, where there are rows for it."""

AS_IT_IS = Calibrator("as it is", lambda logits, labels, weights: FittedTemperature(1.0))

ROWS_PER_CLASS = 50
N_PROBES = 256
"""So many calibration samples are kept, by which a model is known again and a graph is compared with Python."""

SAME_MODEL = 1e-6
"""How far predictions of one model may lie apart on two machines."""

ROWS_TO_CHOOSE = 10


@dataclass(frozen=True, eq=False)
class TrustedMember:
    """One fit of the base model, the calibrator of its logits, and scaling and evidence of the rows it trained on."""

    model: BaseModel
    method: PostHoc
    scaler: Scaler
    evidence: TableEvidence

    def predict(self, inputs: TableRows) -> Prediction:
        """Return the calibrated probabilities of the rows and their uncertainty."""
        return settled(self.method.predict_outputs(NetworkOutputs(self.model.logits(inputs.raw))))

    def evidence_of(self, inputs: TableRows, prediction: Prediction) -> Floats:
        """Return (n, m) OOD scores of the rows, the calibrated model's uncertainty last."""
        return evidence_scores(self.evidence, inputs.numbers, prediction)


def choose_for_fits(held: Sequence[LabelledOutputs], seed: int) -> str:
    """Return the candidate with the lowest log loss on rows in five folds of each fit's, all fits together.

    Structured vector scaling, which has parameters for each class, needs ``ROWS_PER_CLASS``; of equal ones the first
    is taken, and below ``ROWS_TO_CHOOSE`` rows a fit probabilities stay as they are.
    """
    if min((len(rows.labels) for rows in held), default=0) < ROWS_TO_CHOOSE:
        return UNCHANGED
    enough = min(len(rows.labels) / rows.outputs.n_classes for rows in held) >= ROWS_PER_CLASS
    losses = dict.fromkeys(CANDIDATES if enough else CANDIDATES[:-1], 0.0)
    for rows in held:
        logits, labels = rows.outputs.logits, rows.labels
        counts = np.ones(len(labels)) if rows.weights is None else rows.weights
        folds = list(folds_of(labels, rng(seed, "calibrator")))
        for name in losses:
            calibrator = AS_IT_IS if name == UNCHANGED else find_calibrator(name)
            losses[name] += float(counts @ fold_losses(calibrator, logits, labels, counts, folds))
    return min(losses, key=lambda name: losses[name])


class TrustedClassifier(RowClassifier):
    """Any classifier with calibrated probabilities, prediction sets, abstention, OOD flags and decisions around it.

    What :class:`VoltaClassifier` offers for its own methods is here offered for the model you have: a scikit-learn
    classifier or pipeline, LightGBM, XGBoost, CatBoost, anything with ``predict_proba`` or ``decision_function``, a
    torch.nn.Module from rows to logits, or a function from rows to probabilities. Samples are split as there: up to
    3,000 are cross-fitted by five clones of the estimator, of more a tenth calibrates one. Each fit's calibrator is
    fitted on validation samples, which neither trained the estimator nor calibrate decisions. Guarantees hold for new
    samples that are exchangeable with those given to ``fit``.

    Parameters
    ----------
    estimator
        The classifier. Data frames reach it as they are, so a pipeline may begin with a ``ColumnTransformer``.
    prefit
        The estimator is fitted already, on other samples than those of ``fit``, which then only calibrates: a random
        half fits calibrator and evidence, or ``eval_set`` does; the others calibrate decisions. A function, a network
        and scikit-learn's ``FrozenEstimator`` are always taken so.
    calibration
        ``cross``, ``split`` or ``auto``, as for :class:`VoltaClassifier`; nothing to choose for a fitted estimator.
    calibrator
        ``auto`` takes the one with the lowest cross-validated log loss on validation samples: the estimator's
        probabilities as they are, one temperature, or, with 50 validation samples a class, structured vector
        scaling. Or ``none``, or a calibrator's name: ``temperature``, ``vector_scaling``, ``beta``, ``spline``,
        ``venn_abers`` and the others of ``volta methods``.
    n_jobs
        How many fits run at a time, in processes of their own; None: one.
    random_state
        Decides the monitor's draws and how a calibrator is chosen; the estimator's seed is a parameter of its own.
    keep_rows
        Keep the training samples, so that ``explain`` can show the most similar ones; they are saved with the model.

    Attributes
    ----------
    classes_
        (K,) the labels, sorted; column k of the probabilities belongs to ``classes_[k]``.
    n_features_in_, feature_names_in_
        Number of columns, and their names where X had any; later calls must have the same.
    members_
        The fits: a member's ``model.estimator`` is a fitted clone, its ``method`` the calibrator.
    method_
        The calibrator of the first fit.
    policy_
        Which samples are answered; see ``fit_policy``.
    fit_record_
        The training, validation and calibration samples: how many of each class, their hashes, the number of folds.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rows, labels = load_wine(return_X_y=True)
    >>> trusted = TrustedClassifier(RandomForestClassifier(50, random_state=0)).fit(rows[::2], labels[::2])
    >>> decisions = trusted.decide([rows[1], 100.0 * rows[1]])
    >>> decisions[0].action, decisions[0].label, decisions[1].action
    ('answer', 0, 'ood')
    """

    members_: Sequence[TrustedMember]
    history_ = ()

    def __init__(
        self,
        estimator: Any,
        *,
        prefit: bool = False,
        calibration: CalibrationName = "auto",
        calibrator: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 42,
        keep_rows: bool = False,
    ) -> None:
        self.estimator = estimator
        self.prefit = prefit
        self.calibration = calibration
        self.calibrator = calibrator
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.keep_rows = keep_rows

    def fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[ArrayLike, ArrayLike] | None = None,
        cal_set: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Fit clones of the estimator on (n, d) rows and (n,) labels, or calibrate it where it is fitted already.

        ``eval_set=(X, y)`` is the validation set, which fits the calibrator, and ``cal_set=(X, y)`` the calibration
        set of decisions; what is not passed is held out from X, as :class:`VoltaClassifier` does.
        ``sample_weight`` (n,): a row of weight 0 does not count, whole numbers count rows, other weights are passed on
        to the estimator's ``fit``, or to that of a pipeline's last step.
        """
        prefit = self._is_prefit()
        warn_of_storage(self.estimator)
        self._check_calibrator()
        if prefit and cal_set is not None:
            raise InputError("cal_set is set, but a fitted estimator is calibrated on X; pass those rows as X")
        known = known_classes(self.estimator) if prefit else None
        given = prepare_fit_input(
            self,
            X,
            y,
            calibration=self.calibration,
            sample_weight=sample_weight,
            class_weight=None,
            eval_set=eval_set,
            cal_set=cal_set,
            prefit=prefit,
            known_classes=None if known is None else np.sort(known),
        )
        self.classes_ = given.classes
        self.seed_ = seed_of(self.random_state)
        floor = 1.0 / (len(given.classes) * (len(given.rows) + 1))
        parts = [given.parts(draw) for draw in given.draws]
        tables = [self._tables(given, place, parts[place], X, eval_set, cal_set) for place in range(len(parts))]
        if prefit:
            columns = np.arange(len(given.classes)) if known is None else np.searchsorted(given.classes, known)
            models = [BaseModel(self.estimator, response_of(self.estimator), columns, len(given.classes), floor)]
        else:
            models = Parallel(self.n_jobs)(
                delayed(fit_base)(
                    clone(self.estimator),
                    table[0].raw,
                    part[0].labels,
                    given.classes,
                    averaging_one(part[0].weights),
                    floor,
                )
                for part, table in zip(parts, tables, strict=True)
            )
        self._learn(given, parts, self._calibrated(models, parts, tables))
        if prefit:
            # No row trained here: what stands for training rows are those that fitted the calibrator.
            counts = {part: found for part, found in self.fit_record_.class_counts.items() if part != "train"}
            hashes = {part: found for part, found in self.fit_record_.data_hash.items() if part != "train"}
            self.fit_record_ = replace(self.fit_record_, class_counts=counts, data_hash=hashes)
        held = tables[0][2].raw
        self.probes_ = take_rows(held, np.arange(min(len(held), N_PROBES)))
        return self

    def save(self, path: Path | str, *, model: bool = True) -> None:
        """Write the fitted classifier to one safetensors file with a checksum; nothing is pickled.

        scikit-learn models are stored by skops, LightGBM, XGBoost and CatBoost in their own formats. ``model=False``
        leaves the estimators out, and keeps their predictions of a few calibration samples, with those samples, by
        which :meth:`load` knows them again.
        """
        from volta.estimators.saving import save_classifier

        self._fitted()
        state = self._state()
        for stored, member in zip(state["members"], self.members_, strict=True):
            base = member.model
            stored["model"] = {
                "response": base.response,
                "columns": base.columns,
                "floor": base.floor,
                "stored": dump_model(base) if model else None,
                "outputs": None if model else base.outputs(self.probes_),
            }
        state["probes"] = dump_rows(self.probes_)
        save_classifier(self, path, self._methods(), state, estimator=None)

    @classmethod
    def load(cls, path: Path | str, *, estimator: Any = None, trusted: Sequence[str] = ()) -> Self:
        """Return the classifier that :meth:`save` wrote; a file that was altered or cut off raises.

        ``estimator``: the fitted model where the file holds none, a list of them where it was cross-fitted; another
        than the one it was fitted for is refused by its predictions. ``trusted``: names of types of other packages than
        scikit-learn, NumPy and SciPy that the file may build; the error without them lists them.
        """
        from volta.estimators.saving import load_classifier
        from volta.methods.saving import MODEL_FILE

        methods, parameters, state, classes = load_classifier(Path(path), "TrustedClassifier")
        with MODEL_FILE.parsing(path):
            probes = load_rows(state.pop("probes"))
            found = [member.pop("model") for member in state["members"]]
        models = _given_models(estimator, found, path)
        with MODEL_FILE.parsing(path):
            made = [
                BaseModel(
                    given if stored["stored"] is None else load_model(stored["stored"], trusted),
                    stored["response"],
                    stored["columns"],
                    len(classes),
                    stored["floor"],
                )
                for given, stored in zip(models, found, strict=True)
            ]
        for base, stored in zip(made, found, strict=True):
            if stored["outputs"] is not None:
                _check_same(base, probes, stored["outputs"], path)
        with MODEL_FILE.parsing(path):
            classifier = cls(**(parameters | {"estimator": made[0].estimator}))
            state["models"] = made
            classifier._restore(methods, classes, state)
            classifier.probes_ = probes
        return classifier

    def describe(self) -> list[tuple[str, str]]:
        """Return what made the fit, in words, for the model card."""
        n = len(self.members_)
        how = "fitted before" if "train" not in self.fit_record_.class_counts else f"{n} fit{'s' if n > 1 else ''}"
        return [
            ("model", f"{name_of(self.members_[0].model.estimator)}, {how}"),
            ("calibrator", f"{self.method_.title} (asked: {self.calibrator})"),
        ]

    def to_onnx(
        self,
        path: Path | str,
        *,
        alpha: float = 0.1,
        fpr: float = 0.05,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None:
        """Write one ONNX graph: the estimator, then calibration, OOD score, set and decision.

        Trees and linear models compute in the graph in the precision of their library; other estimators and a
        pipeline's earlier steps are written by skl2onnx.

        Its input is ``inputs``, (n, d) rows of ``dtype`` in the order of the columns of ``fit``; of a table with text,
        dates or missing cells, or whose columns a pipeline picks by name, each column is an input of its name, (n, 1)
        float64 or text, empty where it is missing. Outputs and metadata are
        those of :meth:`VoltaClassifier.to_onnx`. Before the file is written the graph is compared with Python on
        calibration samples and on samples at the split thresholds of trees, ± one step of ``dtype``. If a decision or
        a set differs, or a probability by more than 1e-5, the export is refused with the cause. Samples are compared as
        the graph gets them: with float32, those are rounded to it.
        """
        from volta.estimators.model_graphs import export_trusted
        from volta.estimators.onnx import fix_rules
        from volta.estimators.saving import file_path

        self._fitted()
        export_trusted(self, fix_rules(self, alpha, fpr), file_path(path), dtype)

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn that missing values are taken where the estimator takes them."""
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    def _is_prefit(self) -> bool:
        """Whether the estimator is only calibrated; raise unless it is one that can be asked."""
        response = response_of(self.estimator)
        if response in ("function", "network"):
            return True
        prefit = self.prefit or isinstance(self.estimator, FrozenEstimator)
        if prefit:
            try:
                check_is_fitted(self.estimator)
            except SklearnNotFittedError as error:
                raise InputError(
                    f"prefit is True, but estimator is not fitted ({error}); fit it first, or pass prefit=False"
                ) from error
            except TypeError:
                # No scikit-learn estimator, so that nothing can be said of its state.
                pass
        elif not hasattr(self.estimator, "get_params"):
            raise InputError(
                f"estimator is a {type(self.estimator).__name__}, which scikit-learn cannot clone to fit it; fit it "
                "yourself and pass prefit=True"
            )
        return prefit

    def _check_calibrator(self) -> None:
        if self.calibrator not in ("auto", "none", *CALIBRATORS):
            raise unknown_name("calibrator", str(self.calibrator), ("auto", "none", *CALIBRATORS))

    def _tables(
        self,
        given: FitInput,
        place: int,
        parts: tuple[Split, Split, Split],
        X: Any,  # noqa: N803
        eval_set: Any,
        cal_set: Any,
    ) -> tuple[TableRows, TableRows, TableRows]:
        """Return a fit's training, validation and calibration rows as the estimator sees them, and as numbers."""
        draw = given.draws[place]

        def table(part: Split, rows: NDArray[np.int64], own: Any) -> TableRows:
            frame = X if own is None else own[0]
            if not is_frame(frame) and (self.schema_ is None or not isinstance(frame, np.ndarray)):
                return TableRows(part.inputs, part.inputs)
            return TableRows(frame if own is not None else take_rows(frame, given.index[rows]), part.inputs)

        train, val, cal = (
            table(*each)
            for each in zip(parts, (draw.train, draw.val, draw.cal), (None, eval_set, cal_set), strict=True)
        )
        return train if len(draw.train) else val, val, cal

    def _calibrated(
        self,
        models: Sequence[BaseModel],
        parts: Sequence[tuple[Split, Split, Split]],
        tables: Sequence[tuple[TableRows, TableRows, TableRows]],
    ) -> list[tuple[TrustedMember, HeldOut]]:
        """Return each fit with its calibrator, scaling and evidence, and what it says of the rows it did not see."""
        from volta.methods import find_method

        held = [
            LabelledOutputs(Outputs(model.logits(table[1].raw)), part[1].labels, averaging_one(part[1].weights))
            if len(part[1])
            else None
            for model, part, table in zip(models, parts, tables, strict=True)
        ]
        name = UNCHANGED if self.calibrator == "none" else self.calibrator
        if name == "auto":
            name = choose_for_fits([rows for rows in held if rows is not None], self.seed_)
        fits = []
        for model, rows, (train, val, cal), part in zip(models, held, tables, parts, strict=True):
            method = find_method(name).method
            with warnings.catch_warnings():
                # A tenth of few rows may all be right, and leave the temperature at 1: no reason to worry.
                warnings.simplefilter("ignore", CalibrationWarning)
                cast("PostHoc", method).fit_from_outputs(val=rows)
            scaler = fit_scaler(train.numbers, "standard", "tabular")
            spreads = None if self.schema_ is None else self.schema_.spreads
            evidence = fit_evidence(train.numbers, part[0].labels, spreads=spreads)
            member = TrustedMember(model, cast("PostHoc", method), scaler, evidence)
            fits.append((member, hold_out(member, cal, part[2].labels, val)))
        return fits

    def _remake(self, methods: list[Method], classes: NDArray[Any], state: dict[str, Any]) -> list[TrustedMember]:
        return [
            TrustedMember(model, cast("PostHoc", method), **learned)
            for model, method, learned in zip(state.pop("models"), methods, state.pop("members"), strict=True)
        ]

    def _numbers(self, inputs: TableRows) -> Array:
        return inputs.numbers

    def _inputs(self, X: Any) -> TableRows:  # noqa: N803
        self._fitted()
        return self._table(X, check_rows(self, X))

    def _cells(self, X: Any, errors: ErrorsName) -> tuple[Any, NDArray[Any] | None, NDArray[np.intp]]:  # noqa: N803
        numbers, notes, lost = super()._cells(X, errors)
        return self._table(X, numbers), notes, lost

    def _table(self, X: Any, numbers: Array) -> TableRows:  # noqa: N803
        """Return the rows as the estimator sees them, a data frame's columns by name, and as numbers.

        What is no data frame becomes one where the estimator was fitted on those.
        """
        names = self._names()
        if is_frame(X):
            return TableRows(X if names is None else named_rows(X, names), numbers)
        if is_frame(self.probes_):
            table = read_table(numbers, "X") if self.schema_ is None else self.schema_.parse(matched(self, X))
            return TableRows(frame_like(self.probes_, RawTable(tuple(names or ()), table.columns)), numbers)
        return TableRows(X if self.schema_ is not None and isinstance(X, np.ndarray) else numbers, numbers)


def _given_models(estimator: Any, found: list[dict[str, Any]], path: Path | str) -> list[Any]:
    """Return the estimator for each fit of a file; raise where the file needs some, or holds its own."""
    needed = sum(stored["stored"] is None for stored in found)
    if estimator is None and needed:
        raise InputError(
            f"{path} holds no model (it was saved with model=False); pass the fitted one: load(path, estimator=model)"
            + (f", here a list of the {needed} fits" if needed > 1 else "")
        )
    if estimator is None:
        return [None] * len(found)
    if not needed:
        raise InputError(f"estimator is set, but {path} holds its model; leave estimator out")
    models = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if len(models) != needed:
        raise InputError(
            f"estimator holds {len(models)} models, but {path} needs {needed}, one for each fit; pass those"
        )
    return models


def _check_same(model: BaseModel, probes: Any, outputs: Floats, path: Path | str) -> None:
    """Refuse another model than the one a file was made for, by its outputs for rows that the file keeps."""
    found = model.outputs(probes)
    if (apart := float(np.abs(found - outputs).max())) > SAME_MODEL:
        raise StoreError(
            f"{path} was fitted for another model than estimator: outputs for the {len(outputs)} samples it keeps are "
            f"up to {apart:.3g} apart; pass the model it was fitted for, or calibrate this one: fit(X_cal, y_cal)"
        )
